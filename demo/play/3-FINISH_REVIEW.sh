. "$play/run_tests.sh"
echo "iteration: $BATON_ITERATION"
if [ "$tests_exit" -eq 0 ]; then
    echo "verdict: PASS"
    echo "blockers: none"
    echo "P0: none"
else
    echo "verdict: FAIL"
    echo "blockers:"
    echo "- [impl] the suite fails: ${tests_failed:-it does not build}"
    echo "P0: the suite fails"
fi
echo "P1: none"
echo
echo "## Evidence"
echo "- cargo test --offline: exit $tests_exit, $tests_count"
echo "- the goal names average() alone; tests/limits.rs and tests/small.rs cover it"
