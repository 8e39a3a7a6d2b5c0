//! The schema of a base, which lists the metapaths between two types.

use crate::{Direction, Kb, TypeId, metapath::Step};

/// The steps of a base between its types, for metapaths up to a maximum number of hops.
pub struct Schema {
    /// The steps that start at each type, by type id.
    steps: Vec<Vec<Step>>,
    hops: usize,
}

/// Lists the steps of a base, each once. A relation between two types gives a step in each
/// direction; a relation within one type gives a single step, which follows edges in both
/// directions.
pub fn steps(kb: &Kb) -> Vec<Step> {
    let mut steps = Vec::new();
    for tuple in kb.tuples() {
        let (from, relation, to) = (tuple.source, tuple.relation, tuple.target);
        if from == to {
            steps.push(Step { from, relation, direction: Direction::Any, to });
        } else {
            steps.push(Step { from, relation, direction: Direction::Out, to });
            steps.push(Step { from: to, relation, direction: Direction::In, to: from });
        }
    }
    steps
}

impl Schema {
    /// Creates the schema of a base for metapaths that have at most `hops` of the given steps.
    /// There may be up to `steps.len()` to the power of `hops` such metapaths.
    pub fn new(kb: &Kb, steps: &[Step], hops: usize) -> Schema {
        let mut by_type = vec![Vec::new(); kb.types().len()];
        for &step in steps {
            if let Some(own) = by_type.get_mut(usize::from(step.from.0)) {
                own.push(step);
            }
        }
        Schema { steps: by_type, hops }
    }

    /// Lists all metapaths from one type to another, each once, shorter ones first.
    pub fn metapaths(&self, from: TypeId, to: TypeId) -> Vec<Vec<Step>> {
        let mut found = Vec::new();
        self.extend(&mut Vec::new(), from, to, &mut found);
        found.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        found
    }

    /// Appends to `found` every metapath to the type `to` that begins with `path`, which ends at
    /// the type `end`.
    fn extend(&self, path: &mut Vec<Step>, end: TypeId, to: TypeId, found: &mut Vec<Vec<Step>>) {
        if !path.is_empty() && end == to {
            found.push(path.clone());
        }
        if path.len() < self.hops {
            for &step in self.steps.get(usize::from(end.0)).into_iter().flatten() {
                path.push(step);
                self.extend(path, step.to, to, found);
                path.pop();
            }
        }
    }
}
