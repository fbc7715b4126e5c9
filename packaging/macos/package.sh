#!/usr/bin/env bash
# Signs the app, packs it into a disk image and, where credentials are there, has Apple notarise it:
#   package.sh Onefill.app onefill-1.2.3-macos-arm64.dmg
# ONEFILL_SIGN_AS: a "Developer ID Application" identity; without one the app is signed ad hoc and macOS warns about it.
# ONEFILL_NOTARY_PROFILE: a profile that `xcrun notarytool store-credentials` has kept; without one nothing is sent to Apple.
set -euo pipefail
app=$1 image=$2
here=$(cd "$(dirname "$0")" && pwd)
identity=${ONEFILL_SIGN_AS:--}
options=(--force --options runtime --entitlements "$here/entitlements.plist" --sign "$identity")
[[ $identity == - ]] || options+=(--timestamp)

# From the inside out: the signature of the whole covers those of its parts.
find "$app/Contents" -type f \( -name '*.dylib' -o -name '*.so' \) -print0 | xargs -0 codesign "${options[@]}"
codesign "${options[@]}" "$app"
codesign --verify --deep --strict "$app"

staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
cp -R "$app" "$staging/"
ln -s /Applications "$staging/Applications"
rm -f "$image"
# hdiutil says "resource busy" now and then while the system indexes the new files.
for try in 1 2 3 4 5; do
    hdiutil create -volname Onefill -srcfolder "$staging" -format ULFO "$image" && break
    [[ $try != 5 ]] || exit 1
    sleep 3
done
if [[ $identity != - ]]; then
    codesign --force --timestamp --sign "$identity" "$image"
fi
if [[ -n ${ONEFILL_NOTARY_PROFILE:-} ]]; then
    xcrun notarytool submit "$image" --keychain-profile "$ONEFILL_NOTARY_PROFILE" --wait
    xcrun stapler staple "$image"
fi
