. "$play/run_tests.sh"
key_lines "src/lib.rs average() loses the remainders when it halves each number"
tested "nothing; the tests were run again"
