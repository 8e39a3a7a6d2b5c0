//! stub
/// stub
pub fn reference_page() -> String {
    String::new()
}
