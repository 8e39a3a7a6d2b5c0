//! Determines the role of each name in a question: nodes linked to the rows, a field value of the
//! rows, or rows themselves. Where several roles fit the question equally, each reading takes one.

use std::collections::BTreeSet;

use crate::{
    AskError,
    lexicon::Cue,
    mentions::{Thing, What},
    plan::Test,
    reading::Reading,
    schema::with_both_ways,
};
use agent_kb::{FieldId, MetapathStep, NodeId, TypeId, metapath_in_words, table::ColumnSpec};

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
    /// Returns the metapath from the rows to the linked nodes; empty for other roles.
    pub(super) fn steps(&self) -> &[MetapathStep] {
        match self {
            Self::Linked { steps, .. } => steps,
            Self::Value { .. } | Self::Is(_) => &[],
        }
    }
}

impl Reading<'_> {
    /// Returns the metapath from the rows to a type whose relations the question mentions most
    /// strongly. Of several, takes the one that [`choose`](Self::choose) selects. Fails if no
    /// metapath leads to the type.
    pub(super) fn path_to(&self, kind: TypeId) -> Result<Vec<MetapathStep>, AskError> {
        let mut paths = self.schema.best_paths(self.rows, kind, &self.said);
        let kb = &self.base.kb;
        if paths.is_empty() {
            return Err(AskError::Missing(format!(
                "nothing links {} to {}",
                kb.type_name(self.rows),
                kb.type_name(kind)
            )));
        }
        let told: Vec<String> = paths
            .iter()
            .map(|steps| metapath_in_words(kb, self.rows, steps.iter().copied()))
            .collect();
        Ok(paths.swap_remove(self.choose(&told)))
    }

    /// Returns the role of the name `thing` in mention `at`. Of roles that fit equally, takes the
    /// one that [`choose`](Self::choose) selects. Fails if nothing links the rows to the name.
    pub(super) fn role(&mut self, at: usize, thing: &Thing) -> Result<Role, AskError> {
        let kb = &self.base.kb;
        let binder = self.bound.iter().find(|(_, own)| **own == at).map(|(place, _)| *place);
        let mut types: Vec<TypeId> = thing.nodes.iter().map(|&node| kb.node_type(node)).collect();
        types.sort_unstable();
        types.dedup();
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
        let nodes_of = |kind: TypeId| -> Vec<NodeId> {
            thing.nodes.iter().copied().filter(|&node| kb.node_type(node) == kind).collect()
        };
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
        // Keeps the shortest links, then those that the question mentions most.
        let shortest = linked.iter().map(|(_, steps)| steps.len()).min();
        linked.retain(|(_, steps)| Some(steps.len()) == shortest);
        let (before, behind) = self.said_beside(at);
        let is_said_before = linked.iter().any(|(_, steps)| self.schema.said(steps, &before) > 0);
        let beside = if is_said_before { before } else { behind };
        let said = |steps: &[MetapathStep]| {
            (self.schema.said(steps, &beside), self.schema.said(steps, &self.said))
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
        if is_near || roles.is_empty() && !is_row {
            for (kind, steps) in linked {
                let way = metapath_in_words(kb, self.rows, steps.iter().copied());
                let role = Role::Linked { kind, nodes: nodes_of(kind), steps };
                roles.push((way, role));
            }
        }
        if roles.is_empty() && is_row {
            let nodes = nodes_of(self.rows);
            match self.is_counted_by(at, &nodes) {
                // The counted rows link to the named row.
                true => {
                    let mut steps = self.schema.steps(self.rows);
                    steps.retain(|step| step.to == self.rows);
                    for step in with_both_ways(steps) {
                        let way = metapath_in_words(kb, self.rows, [step]);
                        let (kind, nodes, steps) = (self.rows, nodes.clone(), vec![step]);
                        roles.push((way, Role::Linked { kind, nodes, steps }));
                    }
                }
                false => roles.push((String::new(), Role::Is(nodes))),
            }
        }
        let told: Vec<String> = roles.iter().map(|own| own.0.clone()).collect();
        let nothing = || {
            let rows = kb.type_name(self.rows);
            AskError::Missing(format!("nothing links {rows} to {:?}", thing.text))
        };
        if roles.is_empty() {
            return Err(nothing());
        }
        Ok(roles.swap_remove(self.choose(&told)).1)
    }

    /// Returns the stems of the words before a mention and of those after it, up to the nearest
    /// name or date on each side.
    fn said_beside(&self, at: usize) -> (BTreeSet<String>, BTreeSet<String>) {
        let is_name = |at: &usize| {
            matches!(self.what(*at), Some(What::Thing(_) | What::NoThing(_) | What::Date(_)))
        };
        let stems = |places: &mut dyn Iterator<Item = usize>| {
            let own =
                places.take_while(|at| !is_name(at)).filter_map(|at| self.mentions.all.get(at));
            let tokens =
                own.flat_map(|own| self.mentions.tokens.get(own.at.clone()).unwrap_or_default());
            tokens.map(|token| token.stem.clone()).collect::<BTreeSet<String>>()
        };
        let end = self.mentions.all.len();
        (stems(&mut (0..at).rev()), stems(&mut (at + 1..end)))
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
