//! Merges the relations between two nodes, as the reference does when it makes its graph
//! undirected.

/// Returns the type number of each stored edge after the reference has made the graph undirected;
/// `None` if the reference leaves the graph unchanged.
///
/// The reference leaves the graph unchanged if every pair of nodes is stored equally often in both
/// directions, whatever the types; it then follows edges in their stored direction only. Otherwise
/// each edge gets a twin in the other direction, and all edges between two nodes, in either
/// direction, get the mean of their type numbers, rounded down (`to_undirected(reduce="mean")` of
/// PyG, as called by `stark_qa`).
///
/// The three slices must have equal length. Time: O(e log e) for e edges; memory: 16 bytes per
/// edge.
pub(super) fn merged_types(sources: &[u32], targets: &[u32], types: &[u16]) -> Option<Vec<u16>> {
    let ends = sources.iter().zip(targets);
    let pair = |(&source, &target): (&u32, &u32)| {
        u64::from(source.min(target)) << 32 | u64::from(source.max(target))
    };
    let mut order: Vec<(u64, u32)> = ends.map(pair).zip(0..=u32::MAX).collect();
    order.sort_unstable();
    let groups = || order.chunk_by(|a, b| a.0 == b.0);
    let is_forward = |&(_, edge): &(u64, u32)| {
        let edge = edge as usize;
        sources.get(edge) <= targets.get(edge)
    };
    let is_loop =
        |group: &[(u64, u32)]| group.first().is_some_and(|(p, _)| p >> 32 == p & 0xffff_ffff);
    let is_balanced = |group: &[(u64, u32)]| {
        is_loop(group) || 2 * group.iter().filter(|edge| is_forward(edge)).count() == group.len()
    };
    if groups().all(is_balanced) {
        return None;
    }
    let mut merged = types.to_vec();
    for group in groups() {
        let members = || group.iter().map(|(_, edge)| *edge as usize);
        let sum: u64 = members().filter_map(|edge| types.get(edge)).map(|t| u64::from(*t)).sum();
        // Fits u16: the mean is at most the largest of the type numbers.
        let mean = (sum / group.len() as u64) as u16;
        for edge in members() {
            if let Some(slot) = merged.get_mut(edge) {
                *slot = mean;
            }
        }
    }
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_between_two_nodes_become_their_mean_unless_the_graph_is_symmetric() {
        // Two ways, three edges: (0 + 1 + 1) / 3. Alone: its own type. A loop: its own mean.
        let merged = merged_types(&[0, 1, 1, 2, 3, 3], &[1, 0, 0, 3, 3, 3], &[0, 1, 1, 4, 1, 2]);
        assert_eq!(merged.unwrap(), [0, 0, 0, 4, 1, 1]);
        // As often one way as the other, though of different types; loops do not matter.
        assert_eq!(merged_types(&[0, 1, 2], &[1, 0, 2], &[0, 3, 1]), None);
        assert_eq!(merged_types(&[0, 1, 1], &[1, 0, 0], &[2, 3, 4]).unwrap(), [3, 3, 3]);
    }
}
