#!/usr/bin/env bash
# Baton's own agent, codex and claude over the same 120 shell commands in a Python project, played by a
# scripted model on loopback: what each sends, how long it takes, what it weighs.
# usage: crates/baton-cli/benches/peers.sh [AGENT...]      (baton codex claude, all by default)
# The peers are those in $BATON_TEST_AGENTS (a node_modules/.bin folder), else those on the PATH:
#   npm install @openai/codex @anthropic-ai/claude-code
# $BATON_PEERS_FOLDER: work there and leave everything behind, to look at it or to go on.
# The project and pytest are fetched with pip; the agents run without a network where that can be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
commands=$here/peers_commands.txt
folder=${BATON_PEERS_FOLDER:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
wanted=${*:-baton codex claude}

# Shims of version managers cost more than most commands, and want a home that is not there.
python=$(python3 -c 'import os, sys; print(os.path.dirname(os.path.realpath(sys.executable)))')
PATH=$python:$PATH
cargo build --quiet --release -p baton-cli
baton=$(cargo metadata --format-version 1 --no-deps |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/release/baton

if [ ! -d "$folder/project" ]; then
  rm -rf "$folder/new" "$folder/source"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
    --dest "$folder/source" click==8.1.7
  mkdir "$folder/new"
  tar xf "$folder"/source/click-*.tar.gz -C "$folder/new" --strip-components 1
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
    --target "$folder/new/.site" pytest==8.3.4
  (
    cd "$folder/new"
    export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
    git init --quiet
    printf '/.site/\n__pycache__/\n.pytest_cache/\n' >>.git/info/exclude
    git config user.name nobody && git config user.email nobody@localhost
    for part in src tests docs examples .; do
      git add "$part" && git commit --quiet --message "add $part"
    done
  )
  mv "$folder/new" "$folder/project"
fi

apart=()
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null; then
  apart=(unshare -n)
elif unshare -rn true 2>/dev/null; then
  apart=(unshare -rn)
else
  echo "no network namespace: the agents can reach the network"
fi

# A name for the table, variables, `--`, the agent and its words.
results=()
play() {
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do
    variables+=("$1")
    shift
  done
  shift
  local out="$folder/${name//[^a-z]/-}"
  rm -rf "$folder/workspace" "$folder/twin" "$out.home"
  cp -r "$folder/project" "$folder/workspace"
  cp -r "$folder/project" "$folder/twin"
  mkdir -p "$out.home"
  echo "$name ..." >&2
  "${apart[@]}" env -i HOME="$out.home" PATH="$PATH" LANG=C.UTF-8 "${variables[@]}" \
    python3 "$here/peers_model.py" run "$commands" "$folder/workspace" "$folder/twin" \
      "$out.json" -- "$@"
  results+=("$name=$out.json")
}

task='Look at how options are parsed and how their defaults are found, step by step, and run the tests.'

found() {
  local path="${BATON_TEST_AGENTS:+$BATON_TEST_AGENTS/$1}"
  if [ -z "$path" ] || [ ! -x "$path" ]; then
    path=$(command -v "$1" || true)
  fi
  [ -n "$path" ] && realpath "$path"
}

versions=("$("$baton" --version)")
for agent in $wanted; do
  case $agent in
  baton)
    one=(exec -p "$task" --model scripted --approve auto)
    play 'baton, anthropic' ANTHROPIC_API_KEY=x -- "$baton" "${one[@]}" \
      --provider anthropic --base-url 'http://127.0.0.1:{port}'
    play 'baton, openai-responses' OPENAI_API_KEY=x -- "$baton" "${one[@]}" \
      --provider openai-responses --base-url 'http://127.0.0.1:{port}/v1'
    play 'baton, openai-chat' OPENAI_API_KEY=x -- "$baton" "${one[@]}" \
      --provider openai-chat --base-url 'http://127.0.0.1:{port}/v1'
    play 'baton --no-sandbox, anthropic' ANTHROPIC_API_KEY=x -- "$baton" "${one[@]}" --no-sandbox \
      --provider anthropic --base-url 'http://127.0.0.1:{port}'
    ;;
  codex)
    if ! path=$(found codex); then
      versions+=("codex: missing")
      continue
    fi
    versions+=("$("$path" --version 2>/dev/null)")
    # Without its own confinement, as claude: how it does with it is not measured here.
    provider='model_providers.scripted={name="scripted", base_url="http://127.0.0.1:{port}/v1", wire_api="responses", env_key="OPENAI_API_KEY"}'
    play 'codex, unconfined' OPENAI_API_KEY=x -- "$path" exec --json --skip-git-repo-check \
      --dangerously-bypass-approvals-and-sandbox -c 'model="gpt-5"' -c 'model_provider="scripted"' \
      -c "$provider" -c 'check_for_update_on_startup=false' "$task"
    ;;
  claude)
    if ! path=$(found claude); then
      versions+=("claude: missing")
      continue
    fi
    versions+=("claude $("$path" --version 2>/dev/null)")
    # It confines nothing by default; without a person it must be told not to ask.
    play 'claude, unconfined' ANTHROPIC_API_KEY=x 'ANTHROPIC_BASE_URL=http://127.0.0.1:{port}' \
      IS_SANDBOX=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 -- \
      "$path" -p --output-format json --dangerously-skip-permissions --model claude-sonnet-4-5 "$task"
    ;;
  *)
    echo "there is no agent $agent here" >&2
    exit 2
    ;;
  esac
done
printf '%s\n' "${versions[@]}"
python3 "$here/peers_model.py" table "${results[@]}"
