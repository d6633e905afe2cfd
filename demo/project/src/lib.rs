/// The average of two numbers, rounded towards zero.
pub fn average(a: i32, b: i32) -> i32 {
    (a + b) / 2
}
