#!/bin/sh
# Baton's runs and the same workload on LangGraph with SqliteSaver, in one script.
set -eu
cd "$(dirname "$0")/../../.."
iterations=${BATON_BENCH_ITERATIONS:-1000}
BATON_BENCH_ITERATIONS=$iterations cargo bench -q -p baton-runtime --bench runs
venv=${TMPDIR:-/tmp}/baton-langgraph
[ -x "$venv/bin/python" ] || { python3 -m venv "$venv" && "$venv/bin/pip" -q install langgraph langgraph-checkpoint-sqlite; }
"$venv/bin/python" crates/baton-runtime/benches/langgraph_runs.py "$iterations"
