//! The one BM25 of the library: its weights and its two published settings.
//!
//! The score of a text is the sum over the query's words of
//! `idf * tf / (tf + k1 * (1 - b + b * length / mean))` with
//! `idf = ln(1 + (n - df + 0.5) / (df + 0.5))`: Robertson & Zaragoza 2009 as Lucene 8 and the
//! method "lucene" of bm25s compute it, without the constant factor `k1 + 1`.

/// Saturation and length normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25 {
    /// Term saturation, 0 or more: the larger, the more a repeated word counts.
    pub k1: f32,
    /// Length normalisation in `0..=1`.
    pub b: f32,
}

impl Bm25 {
    /// The defaults of bm25s, by which STaRK's BM25 baseline ranks.
    pub const STARK: Self = Self { k1: 1.5, b: 0.75 };
    /// The setting of mFAR and of Lucene.
    pub const MFAR: Self = Self { k1: 1.2, b: 0.75 };

    /// The weights of lengths where texts have `mean` words.
    pub fn lengths(self, mean: f32) -> LengthWeights {
        let per_word = if mean > 0.0 { self.k1 * self.b / mean } else { 0.0 };
        LengthWeights { base: self.k1 * (1.0 - self.b), per_word }
    }
}

impl Default for Bm25 {
    /// The setting of all searches and scores of the library; docs/architecture.md says why.
    fn default() -> Self {
        Self::MFAR
    }
}

/// What weighs against a count, by the length of the text.
#[derive(Clone, Copy, Debug)]
pub struct LengthWeights {
    base: f32,
    per_word: f32,
}

impl LengthWeights {
    /// What weighs against counts in a text of that length.
    #[inline]
    pub fn norm(self, length: u32) -> f32 {
        self.base + self.per_word * length as f32
    }

    /// The share of its idf that a word gives a text which has it `count` times, in `0..=1`.
    #[inline]
    pub fn share(self, count: u32, length: u32) -> f32 {
        let count = count as f32;
        count / (count + self.norm(length))
    }
}

/// Inverse document frequency of a word in `df` of `n` texts, above 0.
pub fn idf(n: usize, df: u32) -> f32 {
    let (n, df) = (n as f64, f64::from(df).min(n as f64));
    (1.0 + (n - df + 0.5) / (df + 0.5)).ln() as f32
}
