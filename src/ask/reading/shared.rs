//! Joins conditions that a single node between the named nodes and the rows must satisfy: in `which
//! features does Harbour have in the basic edition`, the same row of a table of product features
//! must link to both Harbour and the basic edition.

use crate::{
    lexicon::Bound,
    plan::Condition,
    reading::{
        Reading,
        operation::{Parts, count_is},
    },
};
use agent_kb::{Direction, MetapathStep, TypeId, distinct, table::ColumnSpec};

impl Reading<'_> {
    /// Replaces conditions on intermediate nodes of one type, which are one step from the rows, by
    /// the test that a row links to an intermediate node that satisfies them all. Conditions whose
    /// named nodes have the same type are not joined: a paper of two authors has two authorships.
    pub(super) fn join_conditions(&mut self, parts: &mut Parts) {
        let last_of_two = |(_, one): &(usize, Condition)| match *one.steps.as_slice() {
            [_, last] => Some(last),
            _ => None,
        };
        let Some(last) = parts.conditions.iter().find_map(last_of_two) else { return };
        let conditions = parts.conditions.iter().enumerate();
        let mut among: Vec<(usize, MetapathStep, Condition)> = conditions
            .filter_map(|(at, (_, one))| {
                let step = self.first_step(one, last)?;
                Some((at, step, Condition { steps: vec![step], ..one.clone() }))
            })
            .collect();
        let Some(&(first, MetapathStep { to, .. }, _)) = among.first() else { return };
        among.retain(|(_, step, _)| step.to == to);
        let kinds = distinct(among.iter().map(|(.., one)| self.named_type(one)).collect());
        let counts = |spec: &ColumnSpec| match spec {
            ColumnSpec::Count(steps) => steps.last().is_some_and(|end| end.to == to),
            _ => false,
        };
        if among.len() < 2 || kinds.len() < among.len() || self.columns.iter().any(counts) {
            return;
        }
        let mention = parts.conditions[first].0;
        among.iter().rev().for_each(|(at, ..)| drop(parts.conditions.remove(*at)));
        let steps = vec![MetapathStep { direction: last.direction.reversed(), to, ..last }];
        let among = among.into_iter().map(|(.., one)| one).collect();
        let column = self.column(ColumnSpec::CountAmong { steps, among });
        parts.filters.push((mention, count_is(Bound::Above, column)));
    }

    /// Returns the type of the named nodes of a condition; `None` if they have several types.
    fn named_type(&self, condition: &Condition) -> Option<TypeId> {
        let kind = self.kb.node_type(*condition.nodes.first()?);
        condition.nodes.iter().all(|&node| self.kb.node_type(node) == kind).then_some(kind)
    }

    /// Returns the step from the named nodes of a condition to the intermediate nodes, from which
    /// the step `last` leads to the rows. A condition of a single step has intermediate nodes too
    /// if its relation has exactly one edge for each of them. `None` for other conditions.
    fn first_step(&self, condition: &Condition, last: MetapathStep) -> Option<MetapathStep> {
        match *condition.steps.as_slice() {
            [step, end] if end == last => Some(step),
            [direct] => {
                let kind = self.named_type(condition)?;
                let ends = [(kind, direct.to), (direct.to, kind)];
                let mut tuples = self.kb.tuples().iter().filter(|tuple| {
                    tuple.relation == direct.relation
                        && ends.contains(&(tuple.source, tuple.target))
                });
                let edges = tuples.next()?.edges;
                let mut steps = self.schema.steps(kind);
                steps.retain(|step| {
                    step.direction == Direction::In
                        && self.schema.steps(step.to).contains(&last)
                        && self.kb.nodes_of_type(step.to).len() as u64 == edges
                });
                <[MetapathStep; 1]>::try_from(steps).ok().map(|[step]| step)
            }
            _ => None,
        }
    }
}
