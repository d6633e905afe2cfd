# Runs the project's tests and keeps what they showed: $tests_exit, $tests_count, $tests_failed.
tests_output=$(cargo test --offline --no-fail-fast 2>&1)
tests_exit=$?
tests_count=$(printf '%s\n' "$tests_output" | awk '/^test result:/ { passed += $4; failed += $6 } END { print passed + 0 " passed, " failed + 0 " failed" }')
tests_failed=$(printf '%s\n' "$tests_output" | awk '/^test .* FAILED$/ { print $2 }' | sort -u | paste -sd, - | sed 's/,/, /g')
tests_panic=$(printf '%s\n' "$tests_output" | grep -m1 -A2 'panicked at' | tail -2 | tr '\n' ' ' | sed 's/  */ /g')

# The key lines of a report: what the tests showed decides, $1 is what is wrong if they fail.
key_lines() {
    echo "iteration: $BATON_ITERATION"
    if [ "$tests_exit" -eq 0 ]; then
        echo "verdict: PASS"
        echo "blockers: none"
    else
        echo "verdict: FAIL"
        echo "blockers:"
        echo "- [impl] $1: ${tests_panic:-${tests_failed:-it does not build}}"
    fi
}

# The rest of a tester's report: $1 is what it changed.
tested() {
    echo "test command: cargo test --offline"
    echo "failed cases: ${tests_failed:-none}"
    echo
    echo "Tasks tested: M1-T1"
    echo
    echo "## What changed"
    echo "- $1"
    echo
    echo "## Evidence"
    echo "- cargo test --offline: exit $tests_exit, $tests_count"
}
