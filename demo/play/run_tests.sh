# Runs the project's tests and keeps what they showed: $tests_exit, $tests_count, $tests_failed.
tests_output=$(cargo test --offline --no-fail-fast 2>&1)
tests_exit=$?
tests_count=$(printf '%s\n' "$tests_output" | awk '/^test result:/ { passed += $4; failed += $6 } END { print passed + 0 " passed, " failed + 0 " failed" }')
tests_failed=$(printf '%s\n' "$tests_output" | awk '/^test .* FAILED$/ { print $2 }' | sort -u | paste -sd, - | sed 's/,/, /g')
tests_panic=$(printf '%s\n' "$tests_output" | grep -m1 -A2 'panicked at' | tail -2 | tr '\n' ' ' | sed 's/  */ /g')
