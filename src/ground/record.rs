//! Digests of JSON records that store their own digest. Does not depend on what a record contains.

use serde::Serialize;

/// Returns the BLAKE3 digest, in hexadecimal, of a record as JSON, after `clear` has emptied the
/// field that stores this digest.
///
/// # Errors
/// If the record cannot be written as JSON.
pub fn own_digest<T: Clone + Serialize>(
    record: &T,
    clear: impl FnOnce(&mut T),
) -> serde_json::Result<String> {
    let mut unsigned = record.clone();
    clear(&mut unsigned);
    Ok(blake3::hash(&serde_json::to_vec(&unsigned)?).to_hex().to_string())
}
