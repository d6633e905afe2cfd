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
key_lines "src/lib.rs average() overflows at the limits of i32"
tested "tests/limits.rs: 3 tests for M1-T1, at both limits of i32"
