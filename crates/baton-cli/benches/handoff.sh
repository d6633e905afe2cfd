#!/bin/sh
# Makes packages of iterations with 10, 1,000 and 100,000 failed samples and prints the time and the
# memory that each took. Nothing is asserted.
#   benches/handoff.sh
# Builds the binary first, unless BATON names one.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ -z "${BATON:-}" ]; then
    cargo build --release --quiet --manifest-path "$here/../Cargo.toml"
    target=$(cargo metadata --format-version 1 --no-deps --manifest-path "$here/../Cargo.toml" |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    BATON=$target/release/baton
fi
export BATON
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 - <<'PYTHON'
import json, os, resource, subprocess, time

BATON = os.environ["BATON"]
for count in (10, 1_000, 100_000):
    folder = f"execution_outputs/iteration_{count}"
    names = ("samples", "execution_traces", "evaluation_results", "attribution_analysis")
    ends = ("", "_trace", "_eval", "_attribution")
    for name in names:
        os.makedirs(f"{folder}/{name}")
    ids = [f"BS_MT_{number:06}" for number in range(count)]
    failures = [
        {"sample_id": id, "failure_type": "Layer1_BusinessRule", "conversation_turns": 8,
         "checkers_failed": ["leave_balance_deducted", "application_status_correct"]}
        for id in ids
    ]
    problems = [
        {"problem_id": f"L1P_{number:03}", "severity": severity, "title": "a problem",
         "affected_samples": ids[number::4], "typical_case_id": ids[number],
         "suggested_fix": {"target": "BusinessRules.md", "modification": f"say so in rule {number}"}}
        for number, severity in enumerate(("critical", "high", "medium", "low"))
    ]
    figures = {"total_samples": count * 2, "failed_samples": count}
    with open(f"{folder}/failure_summary.json", "w") as out:
        json.dump({**figures, "failures": failures}, out)
    with open(f"{folder}/layer1_problems_report.json", "w") as out:
        json.dump({**figures, "layer1_problems": problems}, out)
    # Only the files that the package names are looked at.
    for id in ids[:300]:
        for name, end in zip(names, ends):
            with open(f"{folder}/{name}/{id}{end}.json", "w") as out:
                out.write("{}")
    for verb in ("make", "check"):
        target = folder if verb == "make" else f"{folder}/execute_to_init.json"
        start = time.monotonic()
        child = subprocess.Popen([BATON, "handoff", verb, target], stdout=subprocess.PIPE, text=True)
        said = child.stdout.read().strip().splitlines()[-1]
        _, status, usage = os.wait4(child.pid, 0)
        took = time.monotonic() - start
        print(f"{count:>7} {verb:<5} {took:6.3f} s {usage.ru_maxrss / 1024:6.0f} MB  exit {os.waitstatus_to_exitcode(status)}  {said}")
PYTHON
