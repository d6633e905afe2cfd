cat > src/lib.rs <<'RUST'
/// The average of two numbers, rounded towards zero.
pub fn average(a: i32, b: i32) -> i32 {
    let sum = i64::from(a) + i64::from(b);
    // Half of a sum of two i32 is an i32 again.
    (sum / 2) as i32
}
RUST
. "$play/run_tests.sh"
key_lines "src/lib.rs average() still fails"
echo "changed files: src/lib.rs"
echo "self-test: cargo test --offline, exit $tests_exit, $tests_count"
echo
echo "## What changed"
echo "- src/lib.rs: average() adds in i64, where two i32 always fit, and halves the sum (M1-T1)"
