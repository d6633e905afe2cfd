cat > tests/limits.rs <<'RUST'
use average::average;

#[test]
fn both_at_the_upper_limit() {
    assert_eq!(average(i32::MAX, i32::MAX), i32::MAX);
}

#[test]
fn both_at_the_lower_limit() {
    assert_eq!(average(i32::MIN, i32::MIN), i32::MIN);
}

#[test]
fn one_at_each_limit() {
    assert_eq!(average(i32::MIN, i32::MAX), 0);
}
RUST
. "$play/run_tests.sh"
echo "iteration: $BATON_ITERATION"
if [ "$tests_exit" -eq 0 ]; then
    echo "verdict: PASS"
    echo "blockers: none"
else
    echo "verdict: FAIL"
    echo "blockers:"
    echo "- [impl] src/lib.rs average() overflows at the limits of i32: $tests_panic"
fi
echo "test command: cargo test --offline"
echo "failed cases: ${tests_failed:-none}"
echo
echo "Tasks tested: M1-T1"
echo
echo "## What changed"
echo "- tests/limits.rs: 3 tests for M1-T1, at both limits of i32"
echo
echo "## Evidence"
echo "- cargo test --offline: exit $tests_exit, $tests_count"
