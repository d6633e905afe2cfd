. "$play/run_tests.sh"
lines=$(wc -l < src/lib.rs)
echo "iteration: $BATON_ITERATION"
if [ "$tests_exit" -eq 0 ]; then
    echo "verdict: PASS"
    echo "blockers: none"
else
    echo "verdict: FAIL"
    echo "blockers:"
    echo "- [impl] the suite fails: ${tests_failed:-it does not build}"
fi
echo "sources: src/lib.rs ($lines lines), tests/limits.rs, tests/small.rs, TEST report of iteration 1"
echo "checks: ran cargo test --offline (exit $tests_exit, $tests_count); read the whole change"
echo
echo "Tasks judged: M1-T1"
