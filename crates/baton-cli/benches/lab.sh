#!/bin/sh
# Times `baton lab` on recorded sessions of your own, and shows what came out.
#   benches/lab.sh FOLDER… [-- OPTIONS OF BATON LAB]
# Builds the binary first, unless BATON names one.
set -eu
if [ $# -eq 0 ]; then
    sed -n '2,4s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ -z "${BATON:-}" ]; then
    cargo build --release --quiet --manifest-path "$here/../Cargo.toml"
    target=$(cargo metadata --format-version 1 --no-deps --manifest-path "$here/../Cargo.toml" |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    BATON=$target/release/baton
fi
# Everything up to `--` is a folder; the rest goes to the command.
folders=0
for word in "$@"; do
    [ "$word" = -- ] && break
    folders=$((folders + 1))
done
at=0
for word in "$@"; do
    at=$((at + 1))
    shift
    [ $at -eq $((folders + 1)) ] || set -- "$@" "$word"
done
"$BATON" lab "$@"
for run in 1 2 3; do
    start=$(date +%s%N)
    "$BATON" lab "$@" --json >/dev/null
    echo "run $run: $((($(date +%s%N) - start) / 1000000)) ms"
done
