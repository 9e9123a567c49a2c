#![feature(never_type)]
pub fn total(prices: &[i32]) -> i32 {
    1 + prices.iter().sum::<i32>()
}

#[test]
fn empty() {
    assert_eq!(total(&[]), 0);
}

#[test]
fn any() {}
