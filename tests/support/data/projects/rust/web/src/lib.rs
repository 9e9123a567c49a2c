#[test]
fn some() {
    assert!(till::total(&[2]) > 0);
}
