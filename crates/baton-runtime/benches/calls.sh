#!/usr/bin/env bash
# A thousand streamed calls at once, by Baton and by the official Python SDKs, in one run.
# usage: crates/baton-runtime/benches/calls.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
ulimit -n 8192
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openai anthropic httpx
cargo build --release --bench calls -p baton-runtime 2>/dev/null
bench=$(cargo bench -p baton-runtime --bench calls --no-run --message-format json 2>/dev/null |
  python3 -c 'import json,sys
for line in sys.stdin:
    d = json.loads(line)
    if d.get("executable") and d["target"]["name"] == "calls": print(d["executable"])' | tail -1)
"$bench"
mkfifo "$folder/stop"
"$bench" --serve <"$folder/stop" >"$folder/urls" &
exec 3>"$folder/stop"
until [ "$(wc -l <"$folder/urls")" -ge 3 ]; do sleep 0.1; done
while read -r wire url; do
  "$folder/venv/bin/python" crates/baton-runtime/benches/sdk_calls.py "$wire" "$url"
done <"$folder/urls"
exec 3>&-
