use average::average;

#[test]
fn small_numbers() {
    assert_eq!(average(3, 5), 4);
    assert_eq!(average(-3, -5), -4);
    assert_eq!(average(2, 5), 3);
}
