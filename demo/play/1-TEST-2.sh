. "$play/run_tests.sh"
key_lines "src/lib.rs average() is still wrong"
tested "nothing; the tests were run again"
