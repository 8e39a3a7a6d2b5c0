//! Runs a program on the queries of a unit, and encodes the rankings. A query on which the program
//! fails or is stopped gets no ranking: the optimization runs the program on it again, so that
//! failures never depend on the worker.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;

use crate::Result;
use agent_infer::{ParamValues, Runtime};
use agent_retrieve::Ranking;
use agent_sandbox::{CompiledProgram, program::Program};

/// Value in place of a ranking's length if there is no ranking.
const NONE: u32 = u32::MAX;
/// Number of bytes of each encoded number: a length, a node id or a score.
const WORD: usize = 4;

/// A program, compiled, with the values of its parameters.
pub struct Evaluation {
    runtime: Arc<Runtime>,
    /// The compiled program; `None` if it does not compile: then all queries get no ranking.
    compiled: Option<CompiledProgram>,
    params: ParamValues,
}

impl Evaluation {
    /// Reads the program in a file and compiles it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(runtime: Arc<Runtime>, file: &Path, params: &ParamValues) -> Result<Self> {
        let source =
            std::fs::read_to_string(file).context("cannot read the program of the plan")?;
        let compiled = runtime.compile(&Program::new(&source)).ok();
        Ok(Self { runtime, compiled, params: params.clone() })
    }

    /// Runs the program on one item, a query as a JSON string, and returns the encoded ranking.
    ///
    /// # Errors
    /// If the item is not a JSON string.
    pub fn run(&self, item: &str) -> Result<Vec<u8>> {
        let query: String =
            serde_json::from_str(item).context("an item of the plan is not a query; plan again")?;
        let run = |compiled| self.runtime.run(compiled, &self.params, &query, None).ok()?.ok();
        let ranking = self.compiled.as_ref().and_then(run).map(|outcome| outcome.ranking);
        Ok(encoded(ranking.as_ref()))
    }
}

/// Encodes a ranking as numbers of 4 bytes, little-endian: the number of nodes, then each node id
/// (u32) with its score (f32).
fn encoded(ranking: Option<&Ranking>) -> Vec<u8> {
    let length = ranking.map_or(NONE, |ranking| ranking.len() as u32);
    let pairs = ranking.into_iter().flatten();
    let pairs = pairs.flat_map(|(node, score)| [node.to_le_bytes(), score.to_le_bytes()]);
    [length.to_le_bytes()].into_iter().chain(pairs).flatten().collect()
}

/// Decodes the rankings of a unit, one for each of its `n` queries; an inner `None` is a query
/// without a ranking. Returns `None` if the bytes are invalid or hold another number of rankings.
#[doc(hidden)]
pub fn decoded(bytes: &[u8], n: usize) -> Option<Vec<Option<Ranking>>> {
    let (words, []) = bytes.as_chunks::<WORD>() else { return None };
    let (mut rankings, mut words) = (Vec::with_capacity(n), words);
    while let Some((length, rest)) = words.split_first() {
        let length = u32::from_le_bytes(*length);
        if length == NONE {
            rankings.push(None);
            words = rest;
            continue;
        }
        let (pairs, rest) = rest.split_at_checked(length as usize * 2)?;
        let pairs = pairs.as_chunks::<2>().0.iter();
        let pair = |[node, score]: &[[u8; WORD]; 2]| {
            (u32::from_le_bytes(*node), f32::from_le_bytes(*score))
        };
        rankings.push(Some(pairs.map(pair).collect()));
        words = rest;
    }
    (rankings.len() == n).then_some(rankings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rankings_come_back_bit_by_bit_and_nothing_else_does() {
        let rankings = [
            Some(vec![(3, 0.1), (u32::MAX, f32::MIN_POSITIVE), (0, -0.0)]),
            None,
            Some(Ranking::new()),
        ];
        let bytes: Vec<u8> = rankings.iter().flat_map(|one| encoded(one.as_ref())).collect();
        let back = decoded(&bytes, 3).unwrap();
        assert_eq!(back, rankings);
        assert!(back[0].as_ref().unwrap()[2].1.is_sign_negative());
        assert_eq!(decoded(&bytes, 2), None);
        for end in 1..bytes.len() {
            assert_eq!(decoded(&bytes[..end], 3), None, "{end}");
        }
        assert_eq!(decoded(&[1, 0, 0, 0x80], 1), None, "a length beyond the end");
    }
}
