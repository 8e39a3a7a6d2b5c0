//! Search on a CUDA device, if there is one and enough queries are searched to justify copying the
//! rows to the device. Results equal those of the processor bit for bit.
//!
//! The device stores rows as 16-bit floats, so it only proposes candidates: twice as many rows as
//! requested. The processor scores these again in full precision. Every other row scores at most
//! the last candidate's score on the device plus [`TopK::error_bound`]. If the `k`-th best score is
//! above this bound, the result is complete; otherwise the processor searches all rows.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use super::{Hit, Result, VectorIndex, decode};
use agent_embed::gpu::{
    Device, GpuError, MAX_WIDTH, give_up,
    topk::{MAX_K, TopK},
};
use agent_kb::{NodeId, Ranking};

/// Number of queries searched by the processor before the rows are copied to the device.
const WORTH_QUERIES: u64 = 256;

/// The copy of the rows on a device, made once enough queries have been searched.
#[derive(Default)]
pub(super) struct DeviceSearch {
    query_count: AtomicU64,
    rows: OnceLock<TopK>,
}

impl DeviceSearch {
    fn rows(&self, index: &VectorIndex) -> Result<Option<&TopK>, GpuError> {
        // Checked at every search, because the device may have failed elsewhere in the process
        // since the last search.
        let Some(device) = Device::first()? else { return Ok(None) };
        if self.rows.get().is_none() {
            let all = decode(index.bytes(0..index.n), index.precision);
            let _ = self.rows.set(TopK::new(device, &all, index.dim)?);
        }
        Ok(self.rows.get())
    }
}

impl VectorIndex {
    /// Finds the best `k` rows for each query on the device; `None` for each query that the
    /// processor must search.
    pub(super) fn search_on_device(
        &self,
        queries: &[&[f32]],
        k: usize,
    ) -> Result<Vec<Option<Ranking>>> {
        let nothing = || Ok(vec![None; queries.len()]);
        let query_count =
            self.device.query_count.fetch_add(queries.len() as u64, Ordering::Relaxed);
        if query_count < WORTH_QUERIES || k == 0 || 2 * k > MAX_K || self.dim > MAX_WIDTH {
            return nothing();
        }
        let propose = || {
            let Some(rows) = self.device.rows(self)? else { return Ok(None) };
            Ok(Some((rows, rows.search(&queries.concat(), 2 * k)?)))
        };
        let proposed = propose().or_else(|error| give_up(error).map(|()| None))?;
        let Some((rows, proposed)) = proposed else { return nothing() };
        let mut buffer = self.buffer();
        let settled = queries.iter().zip(proposed).map(|(query, proposed)| {
            let rest = (proposed.len() < self.n).then(|| {
                let last = proposed.last().map_or(f32::INFINITY, |&(_, score)| score);
                last + rows.error_bound(query)
            });
            let score = |&(node, _): &(NodeId, f32)| {
                Hit::new(self.score_row(query, node as usize, &mut buffer), node)
            };
            settle(proposed.iter().map(score).collect(), k, rest)
        });
        Ok(settled.collect())
    }
}

/// Returns the best `k` of the hits, or `None` if a row outside the hits may be among the best.
/// `rest` is an upper bound on the scores of all rows outside the hits; `None` if there are no such
/// rows.
fn settle(mut hits: Vec<Hit>, k: usize, rest: Option<f32>) -> Option<Ranking> {
    hits.sort_unstable();
    hits.truncate(k);
    let last = hits.last().map_or(f32::NEG_INFINITY, Hit::score);
    // A bound that is not a number proves nothing.
    let proven = rest.is_none_or(|rest| hits.len() == k && last > rest);
    proven.then(|| hits.into_iter().map(|hit| (hit.node, hit.score())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proven_answer_is_given() {
        let hits =
            || [(7, 0.5), (2, 0.9), (4, 0.5)].map(|(node, score)| Hit::new(score, node)).to_vec();
        let best = Some(vec![(2, 0.9), (4, 0.5)]);
        assert_eq!(settle(hits(), 2, Some(0.49)), best);
        assert_eq!(settle(hits(), 2, None), best);
        for rest in [0.5, 0.7, f32::INFINITY, f32::NAN] {
            assert_eq!(settle(hits(), 2, Some(rest)), None, "{rest}");
        }
        assert_eq!(settle(hits(), 4, Some(0.1)), None);
        assert_eq!(settle(hits(), 4, None).map(|all| all.len()), Some(3));
    }
}
