. "$play/run_tests.sh"
lines=$(wc -l < src/lib.rs)
key_lines "the suite fails"
echo "sources: src/lib.rs ($lines lines), tests/limits.rs, tests/small.rs, TEST report of iteration 1"
echo "checks: ran cargo test --offline (exit $tests_exit, $tests_count); read the whole change"
echo
echo "Tasks judged: M1-T1"
