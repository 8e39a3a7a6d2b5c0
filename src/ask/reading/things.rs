//! Determines the role of each name in a question (nodes linked to the rows, a field value of the
//! rows, or rows themselves), and adds the names to the question's parts: as conditions, filters, or
//! compared subjects. Where several roles fit the question equally, each reading takes one.

use std::collections::BTreeSet;

use crate::{
    AskError,
    kind::Kind,
    lexicon::Cue,
    mentions::{Thing, What},
    missing,
    plan::{Condition, Subject, Test, distinct, reversed},
    reading::{
        Reading,
        operation::{Parts, YES_NO},
    },
    schema::with_both_ways,
};
use agent_index::IndexedBase;
use agent_kb::{
    FieldId, MetapathStep, NodeId, TypeId, metapath_in_words,
    table::{ColumnKind, ColumnSpec},
};

/// How something that the question names relates to the rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Role {
    /// Nodes of another or the same type that are linked to the rows; `steps` lead from the rows to
    /// the nodes.
    Linked { kind: TypeId, nodes: Vec<NodeId>, steps: Vec<MetapathStep> },
    /// A value of a field of the rows.
    Value { field: FieldId, key: String },
    /// The rows with these node ids.
    Is(Vec<NodeId>),
}

impl Role {
    /// Returns the nodes; `None` for a value.
    fn nodes(&self) -> Option<&[NodeId]> {
        match self {
            Self::Linked { nodes, .. } | Self::Is(nodes) => Some(nodes),
            Self::Value { .. } => None,
        }
    }

    /// Returns the metapath from the rows to the linked nodes; empty for other roles.
    pub(super) fn steps(&self) -> &[MetapathStep] {
        match self {
            Self::Linked { steps, .. } => steps,
            Self::Value { .. } | Self::Is(_) => &[],
        }
    }
}

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
        let own = |thing: &Thing| nodes_of(self.base, self.rows, thing);
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
                true => Role::Is(nodes_of(self.base, self.rows, &thing)),
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
                    return missing(format!("{name:?} is both compared and negated"));
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
                                Role::Linked { steps, .. } => self.leads_to_one(self.rows, steps),
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
        let start = self.mentions.range(at).start;
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
        let steps = all.first().map_or(&[][..], |(_, _, role)| role.steps());
        let is_alike = |role: &Role| role.nodes().is_some() && role.steps() == steps;
        if !denied && all.iter().all(|(_, _, role)| is_alike(role)) {
            let steps = reversed(self.rows, steps);
            let nodes = distinct(all.iter().filter_map(|one| one.2.nodes()).flatten().copied());
            parts.conditions.push((at, Condition { nodes, steps, name }));
            return;
        }
        let mut tests: Vec<Test> = all.into_iter().map(|(_, _, role)| self.test(role)).collect();
        let test = match tests.len() {
            1 => tests.swap_remove(0),
            _ => Test::Any(tests),
        };
        parts.filters.push((at, if denied { Test::Not(Box::new(test)) } else { test }));
    }

    /// Returns a metapath from the rows to a type: the one whose relations the question mentions
    /// most strongly. Of several, takes the one that [`choose`](Self::choose) selects. Fails if no
    /// metapath leads to the type.
    pub(super) fn path_to(&self, kind: TypeId) -> Result<Vec<MetapathStep>, AskError> {
        let paths = self.schema.best_paths(self.rows, kind, &self.said);
        let kb = &self.base.kb;
        let told =
            |steps: &Vec<MetapathStep>| metapath_in_words(kb, self.rows, steps.iter().copied());
        self.choose(paths, told).ok_or_else(|| {
            let (rows, kind) = (kb.type_name(self.rows), kb.type_name(kind));
            AskError::Missing(format!("nothing links {rows} to {kind}"))
        })
    }

    /// Returns the role of the name `thing` in mention `at`. Of roles that fit equally, takes the
    /// one that [`choose`](Self::choose) selects. Fails if nothing links the rows to the name.
    pub(super) fn role(&mut self, at: usize, thing: &Thing) -> Result<Role, AskError> {
        let kb = &self.base.kb;
        let binder = self.bound.iter().find(|(_, own)| **own == at).map(|(place, _)| *place);
        let mut types = distinct(thing.nodes.iter().map(|&node| kb.node_type(node)));
        match binder.and_then(|place| self.what(place)).cloned() {
            Some(What::Type(kind)) => types.retain(|own| *own == kind),
            Some(What::Field(fields)) => {
                let own = thing.values.iter().find(|value| {
                    value.kind == self.rows && fields.iter().any(|(field, _)| *field == value.field)
                });
                if let Some(value) = own {
                    return Ok(Role::Value { field: value.field, key: value.key.clone() });
                }
            }
            _ => {}
        }
        let nodes_of = |kind: TypeId| nodes_of(self.base, kind, thing);
        let is_row = types.contains(&self.rows);
        let within = self.schema.linked_within(self.rows, &self.said);
        let mut linked: Vec<(TypeId, Vec<MetapathStep>)> = Vec::new();
        for kind in types.iter().copied().filter(|kind| *kind != self.rows) {
            let paths = self.schema.paths(self.rows, kind, &self.said);
            linked.extend(paths.into_iter().map(|steps| (kind, steps)));
        }
        if is_row {
            linked.extend(within.iter().map(|step| (self.rows, vec![*step])));
        }
        // Keeps the shortest links and those to what the shortest ones are part of, such as the
        // country of an institution; then those that the question mentions most.
        let shortest = linked.iter().map(|(_, steps)| steps.len()).min();
        let is_shortest = |steps: &[MetapathStep]| Some(steps.len()) == shortest;
        let near: Vec<_> = linked.iter().filter(|(_, steps)| is_shortest(steps)).cloned().collect();
        let is_part = |steps: &[MetapathStep], (kind, begin): &(TypeId, Vec<MetapathStep>)| {
            steps.strip_prefix(begin.as_slice()).is_some_and(|rest| self.leads_to_one(*kind, rest))
        };
        linked
            .retain(|(_, steps)| is_shortest(steps) || near.iter().any(|one| is_part(steps, one)));
        let [before, behind, all] = self.said_beside(at);
        let is_said_before = linked.iter().any(|(_, steps)| self.schema.said(steps, &before) > 0);
        let beside = if is_said_before { before } else { behind };
        let said = |steps: &[MetapathStep]| {
            (self.schema.said(steps, &beside), self.schema.said(steps, &all))
        };
        let most = linked.iter().map(|(_, steps)| said(steps)).max();
        linked.retain(|(_, steps)| Some(said(steps)) == most);
        let mut roles: Vec<(String, Role)> = Vec::new();
        let is_near = shortest == Some(1);
        for value in thing.values.iter().filter(|value| value.kind == self.rows) {
            let name = kb.field_name(value.field);
            // A field with the name of the node's type repeats the link.
            let again = |(kind, _): &(TypeId, Vec<MetapathStep>)| kb.type_name(*kind) == name;
            let role = Role::Value { field: value.field, key: value.key.clone() };
            let told = format!("{name} of {}", kb.type_name(self.rows));
            let is_known =
                is_near && linked.iter().any(again) || roles.iter().any(|own| own.1 == role);
            if !is_known {
                roles.push((told, role));
            }
        }
        let link = |(kind, steps): (TypeId, Vec<MetapathStep>)| {
            let way = metapath_in_words(kb, self.rows, steps.iter().copied());
            (way, Role::Linked { kind, nodes: nodes_of(kind), steps })
        };
        if is_near || roles.is_empty() && !is_row {
            roles.extend(linked.into_iter().map(link));
        }
        if roles.is_empty() && is_row {
            let nodes = nodes_of(self.rows);
            match self.is_counted_by(at, &nodes) {
                // The counted rows link to the named row.
                true => {
                    let mut steps = self.schema.steps(self.rows);
                    steps.retain(|step| step.to == self.rows);
                    let steps = with_both_ways(steps).into_iter();
                    roles.extend(steps.map(|step| link((self.rows, vec![step]))));
                }
                false => roles.push((String::new(), Role::Is(nodes))),
            }
        }
        let nothing = || {
            let rows = kb.type_name(self.rows);
            AskError::Missing(format!("nothing links {rows} to {:?}", thing.text))
        };
        self.choose(roles, |own| own.0.clone()).map(|own| own.1).ok_or_else(nothing)
    }

    /// Returns the stems of the words before a mention and of those after it, up to the nearest
    /// name or date on each side, and the stems of the question. In `from A were handled by B`, the
    /// words after A belong to B, and are left out.
    fn said_beside(&self, at: usize) -> [BTreeSet<String>; 3] {
        let is_name = |at: &usize| {
            matches!(self.what(*at), Some(What::Thing(_) | What::NoThing(_) | What::Date(_)))
        };
        let stems = |places: &mut dyn Iterator<Item = usize>| {
            let own = places.take_while(|at| !is_name(at));
            let tokens = own.flat_map(|at| self.mentions.said(at));
            tokens.map(|token| token.stem.clone()).collect::<BTreeSet<String>>()
        };
        let end = self.mentions.all.len();
        let before = stems(&mut (0..at).rev());
        let behind = stems(&mut (at + 1..end));
        let is_passive = YES_NO.contains(&self.mentions.word(self.mentions.range(at).end))
            && (at + 1..end).any(|at| is_name(&at));
        if is_passive {
            let all = self.said.difference(&behind).chain(&before).cloned().collect();
            return [before, BTreeSet::new(), all];
        }
        [before, behind, self.said.clone()]
    }

    /// Whether the question counts or lists rows by their link to the named row in mention `at`:
    /// `how many papers cite X`, but not `how many papers are called X`.
    fn is_counted_by(&self, at: usize, nodes: &[NodeId]) -> bool {
        const NAMES: [&str; 5] = ["called", "named", "name", "title", "titled"];
        let counts = self.lists
            || self.has(Cue::HowMany) && self.counted.values().any(|kind| *kind == self.rows);
        let own = self.changed.get(at) == Some(&false) && !self.denied.contains(&at);
        counts && own && nodes.len() == 1 && !self.own_words().iter().any(|own| NAMES.contains(own))
    }

    /// Converts a role to the test that a row has the role.
    pub(super) fn test(&mut self, role: Role) -> Test {
        match role {
            Role::Linked { nodes, steps, .. } => {
                let column = self.column(ColumnSpec::Names(steps));
                Test::Linked { column, nodes }
            }
            Role::Value { field, key } => {
                Test::Value { column: self.column(ColumnSpec::Field(field)), key }
            }
            Role::Is(nodes) => Test::Is(nodes),
        }
    }
}

/// Returns those nodes with the name `thing` that are of one type.
fn nodes_of(base: &IndexedBase, kind: TypeId, thing: &Thing) -> Vec<NodeId> {
    thing.nodes.iter().copied().filter(|&node| base.kb.node_type(node) == kind).collect()
}
