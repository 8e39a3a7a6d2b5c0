//! Settings of an embedder besides its model, such as a text put before every query. These settings
//! change the vectors, so the embedder's fingerprint includes them.

use std::borrow::Cow;

/// Settings of a sentence encoder, or of the model of an embedding service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbedderOptions {
    /// Text put before every query, verbatim; `None`: the model's own prefix, if it has one.
    pub query_prefix: Option<String>,
    /// Text put before every document, verbatim; `None`: the model's own prefix, if it has one.
    pub document_prefix: Option<String>,
    /// Whether vectors are scaled to norm 1 [default: true]. Unscaled vectors keep the norms that
    /// the model gives them, and search ranks by dot products, which depend on these norms.
    pub normalize: bool,
    /// Vector length to request from an embedding service; `None`: the default length of the model.
    pub dimensions: Option<u32>,
}

impl Default for EmbedderOptions {
    fn default() -> Self {
        Self { query_prefix: None, document_prefix: None, normalize: true, dimensions: None }
    }
}

impl EmbedderOptions {
    /// Returns the part that these options add at the end of the embedder's fingerprint; empty for
    /// the default options, so that indexes built without options stay valid.
    pub(crate) fn fingerprint(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let mut hasher = blake3::Hasher::new();
        for prefix in [&self.query_prefix, &self.document_prefix] {
            let length = prefix.as_ref().map_or(u64::MAX, |prefix| prefix.len() as u64);
            hasher.update(&length.to_le_bytes());
            hasher.update(prefix.as_deref().unwrap_or_default().as_bytes());
        }
        hasher.update(&[self.normalize.into()]);
        hasher.update(&self.dimensions.unwrap_or_default().to_le_bytes());
        format!("-{}", &hasher.finalize().to_hex()[..16])
    }

    /// Returns the part that these options add at the end of the embedder's description; empty for
    /// the default options.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        let prefixes = [("queries", &self.query_prefix), ("documents", &self.document_prefix)];
        for (of, prefix) in prefixes {
            if let Some(prefix) = prefix {
                text += &format!(", {prefix:?} before {of}");
            }
        }
        if !self.normalize {
            text += ", vectors not scaled";
        }
        text
    }
}

/// Puts `prefix`, if there is one, before `text`.
pub(crate) fn prefixed<'a>(prefix: Option<&str>, text: &'a str) -> Cow<'a, str> {
    match prefix {
        None | Some("") => Cow::Borrowed(text),
        Some(prefix) => Cow::Owned(format!("{prefix}{text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_changes_the_fingerprint() {
        let text = |text: &str| Some(text.to_owned());
        let plain = EmbedderOptions::default();
        let all = [
            plain.clone(),
            EmbedderOptions { query_prefix: text("a"), ..plain.clone() },
            EmbedderOptions { query_prefix: text(""), ..plain.clone() },
            EmbedderOptions { document_prefix: text("a"), ..plain.clone() },
            EmbedderOptions { normalize: false, ..plain.clone() },
            EmbedderOptions { dimensions: Some(256), ..plain.clone() },
        ];
        let mut ends: Vec<String> = all.iter().map(EmbedderOptions::fingerprint).collect();
        assert_eq!(ends[0], "");
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), all.len(), "{ends:?}");
        let described = EmbedderOptions { query_prefix: text("query: "), ..all[4].clone() };
        assert_eq!(described.describe(), ", \"query: \" before queries, vectors not scaled");
    }
}
