//! Joins conditions that hold of one and the same node between the named nodes and the rows: in
//! `which features does Harbour have in the basic edition`, one row of a table of product features
//! is of Harbour and of the basic edition.

use crate::{
    lexicon::Bound,
    plan::Condition,
    reading::{
        Reading,
        operation::{Parts, count_is},
    },
};
use agent_kb::{Direction, MetapathStep, TypeId, table::ColumnSpec};

impl Reading<'_> {
    /// Replaces conditions on nodes of one type, which link to the rows by one step, by the test that
    /// a row has such a node that satisfies them all. Conditions of the same type of named nodes stay
    /// apart: a paper of two authors has two authorships.
    pub(super) fn join_conditions(&mut self, parts: &mut Parts) {
        let Some(last) = parts.conditions.iter().find_map(|(_, one)| match one.steps.as_slice() {
            [_, last] => Some(*last),
            _ => None,
        }) else {
            return;
        };
        let first = |one: &Condition| self.first_step(one, last);
        let mut shared: Vec<Option<MetapathStep>> =
            parts.conditions.iter().map(|(_, one)| first(one)).collect();
        let Some(to) = shared.iter().flatten().next().map(|step| step.to) else { return };
        shared.iter_mut().for_each(|step| *step = step.filter(|step| step.to == to));
        let kinds: Vec<Option<TypeId>> =
            parts.conditions.iter().map(|(_, one)| self.named_type(one)).collect();
        let joined: Vec<usize> = (0..shared.len()).filter(|at| shared[*at].is_some()).collect();
        let differ = joined
            .iter()
            .all(|at| joined.iter().filter(|other| kinds[**other] == kinds[*at]).count() == 1);
        if joined.len() < 2 || !differ {
            return;
        }
        let mut among = Vec::new();
        for (at, step) in shared.iter().enumerate() {
            if let Some(step) = step {
                among.push(Condition { steps: vec![*step], ..parts.conditions[at].1.clone() });
            }
        }
        let back = MetapathStep { direction: last.direction.reversed(), to, ..last };
        let counts = |spec: &ColumnSpec| matches!(spec, ColumnSpec::Count(steps) if steps.last().is_some_and(|end| end.to == to));
        if self.columns.iter().any(counts) {
            return;
        }
        let first = parts.conditions[joined[0]].0;
        let column = self.column(ColumnSpec::CountAmong { steps: vec![back], among });
        parts.filters.push((first, count_is(Bound::Above, column)));
        let mut at = 0;
        parts.conditions.retain(|_| {
            at += 1;
            shared[at - 1].is_none()
        });
    }

    /// Returns the type of the named nodes of a condition; `None` if they have several types.
    fn named_type(&self, condition: &Condition) -> Option<TypeId> {
        let kind = self.kb.node_type(*condition.nodes.first()?);
        condition.nodes.iter().all(|&node| self.kb.node_type(node) == kind).then_some(kind)
    }

    /// Returns the step from the named nodes of a condition to the nodes from which the step `last`
    /// leads to the rows. A condition over one edge holds of such nodes too, if each edge of its
    /// relation stands for one of them. `None` for other conditions.
    fn first_step(&self, condition: &Condition, last: MetapathStep) -> Option<MetapathStep> {
        match *condition.steps.as_slice() {
            [step, end] if end == last => Some(step),
            [direct] => {
                let kind = self.named_type(condition)?;
                let tuples = self.kb.tuples();
                let edges = |step: &MetapathStep| {
                    let tuple = tuples.iter().find(|tuple| {
                        tuple.relation == step.relation
                            && [(tuple.source, tuple.target), (tuple.target, tuple.source)]
                                .contains(&(kind, step.to))
                    });
                    tuple.map(|tuple| tuple.edges)
                };
                let mut steps = self.schema.steps(kind);
                steps.retain(|step| {
                    let rows = self.kb.nodes_of_type(step.to).len() as u64;
                    let leads = self.schema.steps(step.to).contains(&last);
                    leads && step.direction == Direction::In && edges(&direct) == Some(rows)
                });
                <[MetapathStep; 1]>::try_from(steps).ok().map(|[step]| step)
            }
            _ => None,
        }
    }
}
