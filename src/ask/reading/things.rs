//! Adds the names in a question to its parts: as conditions, filters, or compared subjects.

use std::collections::BTreeSet;

use crate::{
    AskError,
    kind::Kind,
    mentions::Thing,
    plan::{Condition, Subject, Test, reversed},
    reading::{Reading, operation::Parts, roles::Role},
};
use agent_index::IndexedBase;
use agent_kb::{FieldId, NodeId, TypeId, table::ColumnKind};

/// Names joined by `or`, each with the index of its mention, its text and its role. A row must
/// satisfy at least one of the roles or, if `denied`, none.
struct Alternatives {
    denied: bool,
    all: Vec<(usize, String, Role)>,
}

impl Reading<'_> {
    /// Adds the names outside of the assumption to `parts`, as conditions, filters, or compared
    /// subjects.
    pub(super) fn put_things(&mut self, kind: Kind, parts: &mut Parts) -> Result<(), AskError> {
        let mut things: Vec<(usize, Thing)> = self
            .things()
            .filter(|(at, _)| self.changed.get(*at) == Some(&false))
            .map(|(at, thing)| (at, thing.clone()))
            .collect();
        let compares = matches!(kind, Kind::Intercomparison | Kind::Variance | Kind::Descriptive);
        if compares {
            self.take_as_values(&mut things);
        }
        let own = |thing: &Thing| own_nodes(self.base, self.rows, thing);
        let is_bound = |at: usize| self.bound.values().any(|thing| *thing == at);
        // If all compared things may be rows, they are.
        let of_rows = compares
            && things.len() > 1
            && things.iter().all(|(at, thing)| !is_bound(*at) && !own(thing).is_empty());
        let mut roles = Vec::new();
        for (at, mut thing) in things {
            // The base's spelling has signs that the question may omit.
            if let [node] = thing.nodes.as_slice() {
                thing.text = self.base.kb.name(*node).to_owned();
            }
            let role = match of_rows {
                true => Role::Is(own_nodes(self.base, self.rows, &thing)),
                false => self.role(at, &thing)?,
            };
            roles.push((at, thing.text, role));
        }
        let alike = |one: &Role, other: &Role| match (one, other) {
            (Role::Linked { kind, .. }, Role::Linked { kind: other, .. }) => kind == other,
            (Role::Value { field, .. }, Role::Value { field: other, .. }) => field == other,
            (Role::Is(_), Role::Is(_)) => true,
            _ => false,
        };
        let is_subject: Vec<bool> = roles
            .iter()
            .map(|(_, _, role)| {
                compares && roles.iter().filter(|(_, _, other)| alike(role, other)).count() > 1
            })
            .collect();
        let mut alternatives: Vec<Alternatives> = Vec::new();
        for ((at, name, role), is_subject) in roles.into_iter().zip(is_subject) {
            if is_subject {
                if self.denied.contains(&at) {
                    return Err(AskError::Missing(format!(
                        "{name:?} is both compared and negated"
                    )));
                }
                let test = self.test(role);
                parts.subjects.push(Subject { name, test });
                continue;
            }
            let joined = self.joined(at).filter(|(before, _)| {
                alternatives.last().is_some_and(|last| last.all.iter().any(|one| one.0 == *before))
            });
            let denied = self.denied.contains(&at);
            let either = joined.is_some_and(|(before, or)| {
                if self.says_both(before) && !or {
                    return false;
                }
                let last = alternatives.last().and_then(|last| last.all.last());
                or || !denied
                    && last.is_some_and(|last| {
                        // A row has at most one such value, so either is meant.
                        !self.denied.contains(&before)
                            && alike(&last.2, &role)
                            && last.2.steps() == role.steps()
                            && match &role {
                                Role::Value { field, .. } => {
                                    self.kind_of(*field) == Some(ColumnKind::Category)
                                }
                                Role::Linked { steps, .. } => self.leads_to_one(steps),
                                Role::Is(_) => true,
                            }
                    })
            });
            match alternatives.last_mut().filter(|_| either) {
                Some(last) => last.all.push((at, name, role)),
                None => alternatives.push(Alternatives { denied, all: vec![(at, name, role)] }),
            }
        }
        for one in alternatives {
            self.put_alternatives(one, parts);
        }
        Ok(())
    }

    /// Whether `both` stands before the name in a mention; in `both A and B`, the names are not
    /// alternatives.
    fn says_both(&self, at: usize) -> bool {
        let start = self.mentions.all.get(at).map_or(0, |mention| mention.at.start);
        let before = self.mentions.tokens.get(start.saturating_sub(2)..start).unwrap_or_default();
        before.iter().any(|token| token.word == "both")
    }

    /// Treats compared names alike: if one can only be a value of a field, others that may be nodes
    /// or values of the same field are taken as values.
    fn take_as_values(&self, things: &mut [(usize, Thing)]) {
        let fields = |thing: &Thing| -> BTreeSet<FieldId> {
            let own = thing.values.iter().filter(|value| value.kind == self.rows);
            own.map(|value| value.field).collect()
        };
        let only: BTreeSet<FieldId> = things
            .iter()
            .filter(|(_, thing)| thing.nodes.is_empty())
            .flat_map(|(_, thing)| fields(thing))
            .collect();
        for (_, thing) in things {
            if !fields(thing).is_disjoint(&only) {
                thing.nodes.clear();
            }
        }
    }

    /// Adds names joined by `or` to `parts`, as one condition or one filter.
    fn put_alternatives(&mut self, Alternatives { denied, all }: Alternatives, parts: &mut Parts) {
        let names: Vec<String> = all.iter().map(|(_, name, _)| name.clone()).collect();
        let name = names.join(" or ");
        let at = all.first().map_or(0, |(at, _, _)| *at);
        if all.len() > 1 {
            let kind = self.base.kb.type_name(self.rows);
            self.assumed.push(format!("taken as each {kind} with any of {name}"));
        }
        let same_steps = |role: &Role| match (role, all.first().map(|one| &one.2)) {
            (Role::Linked { steps, .. }, Some(Role::Linked { steps: first, .. })) => steps == first,
            (Role::Is(_), Some(Role::Is(_))) => true,
            _ => false,
        };
        if !denied && all.iter().all(|(_, _, role)| same_steps(role)) {
            let (mut own, mut way) = (Vec::new(), Vec::new());
            for (_, _, role) in all {
                match role {
                    Role::Linked { nodes, steps, .. } => {
                        own.extend(nodes);
                        way = reversed(self.rows, &steps);
                    }
                    Role::Is(nodes) => own.extend(nodes),
                    Role::Value { .. } => {}
                }
            }
            own.sort_unstable();
            own.dedup();
            parts.conditions.push((at, Condition { nodes: own, steps: way, name }));
            return;
        }
        let mut tests: Vec<Test> = all.into_iter().map(|(_, _, role)| self.test(role)).collect();
        let test = match tests.len() {
            1 => tests.swap_remove(0),
            _ => Test::Any(tests),
        };
        parts.filters.push((at, if denied { Test::Not(Box::new(test)) } else { test }));
    }
}

/// Returns those nodes with the name `thing` whose type is that of the rows.
fn own_nodes(base: &IndexedBase, rows: TypeId, thing: &Thing) -> Vec<NodeId> {
    thing.nodes.iter().copied().filter(|&node| base.kb.node_type(node) == rows).collect()
}
