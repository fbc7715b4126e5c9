#!/bin/sh
# Removes what install.sh installed. Ledger and settings go only if you say so, word for word.
set -eu
data=${XDG_DATA_HOME:-$HOME/.local/share}
program=${ONEFILL_PREFIX:-$HOME/.local/lib/onefill}
commands=${ONEFILL_BIN:-$HOME/.local/bin}
home=${ONEFILL_HOME:-$data/onefill}

rm -f "$commands/onefill" "$data/applications/onefill.desktop" "$data/icons/hicolor/scalable/apps/onefill.svg"
rm -f "${XDG_CONFIG_HOME:-$HOME/.config}/autostart/onefill.desktop"
rm -rf "$program"
echo "Onefill was removed."
if [ -d "$home" ]; then
    printf 'The ledger, settings and backups are in %s.\nType "delete" to delete them, anything else keeps them: ' "$home"
    answer=
    read -r answer || true
    if [ "$answer" = delete ]; then
        rm -rf "$home"
        echo "deleted"
    else
        echo "kept"
    fi
fi
