//! The BM25 formula and two published settings; all word scores of the library use this formula.
//!
//! The score of a text is the sum over the query's words of `idf * tf / (tf + k1 * (1 - b + b *
//! length / mean))` with `idf = ln(1 + (n - df + 0.5) / (df + 0.5))`: Robertson & Zaragoza 2009 as
//! in Lucene 8 and in the method "lucene" of bm25s, without the constant factor `k1 + 1`.

/// Parameters of BM25: saturation and length normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25 {
    /// Term saturation, at least 0: a larger value gives repeated words more weight.
    pub k1: f32,
    /// Length normalisation in `0..=1`: 0 ignores the length of a text, 1 normalises by it fully.
    pub b: f32,
}

impl Bm25 {
    /// The defaults of the library bm25s, as in STaRK's BM25 baseline.
    pub const STARK: Self = Self { k1: 1.5, b: 0.75 };
    /// The setting of mFAR's BM25 and of Lucene.
    pub const MFAR: Self = Self { k1: 1.2, b: 0.75 };

    /// Computes the length normalisation for a collection whose texts have `mean` words on average.
    pub fn lengths(self, mean: f32) -> LengthWeights {
        let per_word = if mean > 0.0 { self.k1 * self.b / mean } else { 0.0 };
        LengthWeights { base: self.k1 * (1.0 - self.b), per_word }
    }
}

impl Default for Bm25 {
    /// The setting of all searches and scores of the library; docs/architecture.md gives the reason
    /// for it.
    fn default() -> Self {
        Self::MFAR
    }
}

/// Length normalisation: the term `k1 * (1 - b + b * length / mean)` as a function of the length.
#[derive(Clone, Copy, Debug)]
pub struct LengthWeights {
    base: f32,
    per_word: f32,
}

impl LengthWeights {
    /// Returns the term for a text of `length` words.
    #[inline]
    pub fn norm(self, length: u32) -> f32 {
        self.base + self.per_word * length as f32
    }

    /// Returns the share of its idf that a word adds to the score of a text, in `0..=1`; the word
    /// occurs `count` times in the text of `length` words.
    #[inline]
    pub fn share(self, count: u32, length: u32) -> f32 {
        let count = count as f32;
        count / (count + self.norm(length))
    }
}

/// Returns the inverse document frequency of a word that occurs in `df` of `n` texts; always above
/// 0.
pub fn idf(n: usize, df: u32) -> f32 {
    let (n, df) = (n as f64, f64::from(df).min(n as f64));
    (1.0 + (n - df + 0.5) / (df + 0.5)).ln() as f32
}
