. "$play/run_tests.sh"
echo "iteration: $BATON_ITERATION"
if [ "$tests_exit" -eq 0 ]; then
    echo "verdict: PASS"
    echo "blockers: none"
else
    echo "verdict: FAIL"
    echo "blockers:"
    echo "- [impl] src/lib.rs average() is still wrong: $tests_panic"
fi
echo "test command: cargo test --offline"
echo "failed cases: ${tests_failed:-none}"
echo
echo "Tasks tested: M1-T1"
echo
echo "## What changed"
echo "- nothing; the tests were run again"
echo
echo "## Evidence"
echo "- cargo test --offline: exit $tests_exit, $tests_count"
