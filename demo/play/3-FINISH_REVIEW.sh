. "$play/run_tests.sh"
key_lines "the suite fails"
[ "$tests_exit" -eq 0 ] && echo "P0: none" || echo "P0: the suite fails"
echo "P1: none"
echo
echo "## Evidence"
echo "- cargo test --offline: exit $tests_exit, $tests_count"
echo "- the goal names average() alone; tests/limits.rs and tests/small.rs cover it"
