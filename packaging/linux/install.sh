#!/bin/sh
# Installs Onefill for this user: program, menu entry and the command `onefill`. No root. An older version that this
# script installed is replaced; ledger and settings stay where they are.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
data=${XDG_DATA_HOME:-$HOME/.local/share}
program=${ONEFILL_PREFIX:-$HOME/.local/lib/onefill}
commands=${ONEFILL_BIN:-$HOME/.local/bin}

if [ -e "$program" ] && [ ! -x "$program/onefill" ]; then
    echo "install: $program exists and is not Onefill; nothing was changed" >&2
    exit 1
fi
mkdir -p "$(dirname "$program")" "$commands" "$data/applications" "$data/icons/hicolor/scalable/apps"
# The new one is complete before the old one goes.
rm -rf "$program.new"
cp -a "$here/onefill" "$program.new"
"$program.new/onefill" version >/dev/null || {
    echo "install: the program does not start here; is libgl1 and libegl1 installed?" >&2
    rm -rf "$program.new"
    exit 1
}
rm -rf "$program.old"
[ ! -e "$program" ] || mv "$program" "$program.old"
mv "$program.new" "$program"
rm -rf "$program.old"
cp "$here/uninstall.sh" "$program/uninstall.sh"
ln -sf "$program/onefill" "$commands/onefill"
sed "s|^Exec=onefill|Exec=$program/onefill|" "$here/onefill.desktop" >"$data/applications/onefill.desktop"
cp "$here/onefill.svg" "$data/icons/hicolor/scalable/apps/onefill.svg"
echo "installed: $("$program/onefill" version)"
echo "start it from the menu, or with $commands/onefill; to remove it: $program/uninstall.sh"
