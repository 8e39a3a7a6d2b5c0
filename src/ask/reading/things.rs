//! Determines the role of each name in a question (nodes linked to the rows, a field value of the
//! rows, or rows themselves), and adds the names to the question's parts: as conditions, filters or
//! compared subjects. Where several roles fit the question equally, each reading takes one.

use std::collections::BTreeSet;

use crate::{
    AskError,
    kind::Kind,
    lexicon::{Cue, Function},
    mentions::{BEING, Thing, What},
    missing,
    plan::{Condition, Subject, Test, reversed},
    reading::{
        Reading,
        operation::{Parts, YES_NO},
    },
    schema::{FieldValue, with_both_ways},
};
use agent_kb::{
    Direction, FieldId, MetapathStep, NodeId, TypeId, distinct, metapath_in_words,
    table::{ColumnKind, ColumnSpec, Sample, value::category},
};

/// How named nodes or a named value relate to the rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Role {
    /// Nodes of one type at the end of a metapath from the rows; without steps, rows themselves.
    Nodes { nodes: Vec<NodeId>, steps: Vec<MetapathStep> },
    /// A value of a field of the nodes at the end of a metapath from the rows, such as the country
    /// of a product's maker; without steps, of a field of the rows themselves.
    Value(Vec<MetapathStep>, FieldValue),
}

impl Role {
    /// Returns the metapath from the rows to the nodes or to the nodes that have the value.
    fn steps(&self) -> &[MetapathStep] {
        match self {
            Self::Nodes { steps, .. } | Self::Value(steps, _) => steps,
        }
    }

    /// Whether both roles are values of the same field, or nodes of the same type that are both
    /// linked to the rows or both rows.
    fn is_like(&self, other: &Self) -> bool {
        let end = |steps: &[MetapathStep]| steps.last().map(|step| step.to);
        match (self, other) {
            (Self::Nodes { steps, .. }, Self::Nodes { steps: others, .. }) => {
                end(steps) == end(others)
            }
            (Self::Value(steps, one), Self::Value(others, other)) => {
                steps == others && one.field == other.field
            }
            _ => false,
        }
    }
}

/// Maximum number of steps from the rows to nodes whose field has a mentioned value.
const MAX_STEPS_TO_VALUE: usize = 2;
/// Maximum length in characters of a value that counts as a code.
const MAX_CODE: usize = 2;
/// Maximum number of codes that a message lists.
const MAX_CODES: usize = 8;

/// A name in a question: the index of its mention, its text and its role.
type Named = (usize, String, Role);

impl Reading<'_> {
    /// Adds the names in the assumption (if `changed`) or outside to `parts`, as conditions,
    /// filters, or compared subjects.
    pub(super) fn put_things(
        &mut self,
        kind: Kind,
        changed: bool,
        parts: &mut Parts,
    ) -> Result<(), AskError> {
        let things = self.things().filter(|(at, _)| self.changed[*at] == changed);
        let mut things: Vec<(usize, Thing)> =
            things.map(|(at, thing)| (at, thing.clone())).collect();
        let compares = matches!(kind, Kind::Intercomparison | Kind::Variance | Kind::Descriptive);
        if compares {
            self.take_as_values(&mut things);
        }
        let is_bound = |at: usize| self.bound.values().any(|thing| *thing == at);
        // If all compared things may be rows, they are taken as rows.
        let of_rows = compares
            && things.len() > 1
            && things.iter().all(|(at, one)| !is_bound(*at) && self.has_node_of(one, self.rows));
        let mut roles = Vec::new();
        for (at, mut thing) in things {
            self.refuse_field_or_name(at, &thing)?;
            // The base's spelling has signs that the question may omit.
            if let [node] = thing.nodes.as_slice() {
                thing.text = self.kb.name(*node).to_owned();
            }
            let role = match of_rows {
                true => self.nodes_called(&thing, Vec::new()),
                false => self.role(at, &thing)?,
            };
            if let Role::Nodes { nodes, .. } = &role
                && let [first, _, ..] = nodes.as_slice()
            {
                let (n, name) = (nodes.len(), &thing.text);
                let kind = self.kb.type_name(self.kb.node_type(*first));
                self.assumed
                    .push(format!("{n} {kind} nodes are called {name:?}; all are included"));
            }
            roles.push((at, thing.text, role));
        }
        let is_subject = |(_, _, role): &Named| {
            compares && roles.iter().filter(|(_, _, other)| role.is_like(other)).count() > 1
        };
        let is_subject: Vec<bool> = roles.iter().map(is_subject).collect();
        // `the total number of side effects of A and B` counts those of either.
        let is_total = |(at, cue): (usize, Cue)| {
            cue == Cue::Of(Function::Sum) || self.said_at(at).starts_with("total ")
        };
        let sums = self.cues(false).any(is_total);
        // Names joined by `or`, and whether they are negated.
        let mut alternatives: Vec<(Vec<Named>, bool)> = Vec::new();
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
                alternatives.last().is_some_and(|(all, _)| all.iter().any(|one| one.0 == *before))
            });
            let denied = self.denied.contains(&at);
            let last = alternatives.last().and_then(|(all, _)| all.last());
            // A row has at most one such value or link, so `A and B` means rows with either of
            // them.
            let excludes = |(_, _, last): &Named| match (last, &role) {
                (Role::Value(steps, value), own) if steps.is_empty() => {
                    own.is_like(last) && self.kind_of(value.field) == Some(ColumnKind::Category)
                }
                (Role::Value(steps, _), own) => {
                    own.is_like(last) && self.leads_to_one(self.rows, steps)
                }
                (Role::Nodes { steps: last, .. }, Role::Nodes { steps, .. }) => {
                    last == steps && self.leads_to_one(self.rows, steps)
                }
                _ => false,
            };
            // Several names that are left out are each left out.
            let is_alike = || last.is_some_and(|(_, _, last)| role.is_like(last));
            let either = joined.is_some_and(|(before, or)| {
                or || !self.says_both(before)
                    && !denied
                    && !self.denied.contains(&before)
                    && (last.is_some_and(excludes) || sums || changed && is_alike())
            });
            match alternatives.last_mut().filter(|_| either) {
                Some((all, _)) => all.push((at, name, role)),
                None => alternatives.push((vec![(at, name, role)], denied)),
            }
        }
        for (all, denied) in alternatives {
            self.put_alternatives(all, denied, parts);
        }
        Ok(())
    }

    /// Returns the role of the nodes with the name `thing`: nodes to which `steps` lead from the
    /// rows; without steps, rows themselves.
    fn nodes_called(&self, thing: &Thing, steps: Vec<MetapathStep>) -> Role {
        let kind = steps.last().map_or(self.rows, |step| step.to);
        let own = thing.nodes.iter().copied();
        let nodes = own.filter(|&node| self.kb.node_type(node) == kind).collect();
        Role::Nodes { nodes, steps }
    }

    /// Whether `both` stands before the name in a mention, or the question says `in common`; in
    /// `both A and B`, the names are not alternatives.
    fn says_both(&self, at: usize) -> bool {
        if self.cues(false).any(|(at, _)| self.said_at(at).ends_with("in common")) {
            return true;
        }
        let start = self.mentions.range(at).start;
        let before = self.mentions.tokens.get(start.saturating_sub(2)..start).unwrap_or_default();
        before.iter().any(|token| token.word == "both")
    }

    /// Treats compared names alike: if one can only be a value of a field, others that may be nodes
    /// or values of the same field are taken as values.
    fn take_as_values(&self, things: &mut [(usize, Thing)]) {
        let fields = |thing: &Thing| -> Vec<FieldId> {
            let own = thing.values.iter().filter(|value| value.kind == self.rows);
            own.map(|value| value.field).collect()
        };
        let only = things.iter().filter(|(_, thing)| thing.nodes.is_empty());
        let only: Vec<FieldId> = only.flat_map(|(_, thing)| fields(thing)).collect();
        for (_, thing) in things {
            if fields(thing).iter().any(|field| only.contains(field)) {
                thing.nodes.clear();
            }
        }
    }

    /// Adds names joined by `or` to `parts`, as one condition or one filter: a row must satisfy at
    /// least one of their roles or, if `denied`, none.
    fn put_alternatives(&mut self, all: Vec<Named>, denied: bool, parts: &mut Parts) {
        let names: Vec<String> = all.iter().map(|(_, name, _)| name.clone()).collect();
        let name = names.join(" or ");
        let mut at = all.first().map_or(0, |(at, _, _)| *at);
        if self.changed[at] {
            at = all.last().map_or(at, |(at, _, _)| *at);
        }
        if all.len() > 1 {
            self.assume_any(&name);
        }
        let mut nodes = Vec::new();
        let mut paths = Vec::new();
        for (_, _, role) in &all {
            if let Role::Nodes { nodes: own, steps } = role {
                nodes.extend(own);
                paths.push(steps);
            }
        }
        let is_one_path = paths.len() == all.len() && paths.iter().all(|path| *path == paths[0]);
        if is_one_path && !denied {
            let (nodes, steps) = (distinct(nodes), reversed(self.rows, paths[0]));
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

    /// Notes the assumption that a row needs only one of several names.
    fn assume_any(&mut self, names: &str) {
        let kind = self.kb.type_name(self.rows);
        self.assumed.push(format!("read as each {kind} with at least one of {names}"));
    }

    /// Returns the metapath from the rows to a type whose relations the question mentions most
    /// strongly. Of several, [`choose`](Self::choose) selects one. Fails if no metapath leads to
    /// the type.
    pub(super) fn path_to(&self, kind: TypeId) -> Result<Vec<MetapathStep>, AskError> {
        let mut paths = self.schema.best_paths(self.rows, kind, &self.said);
        paths.extend(self.other_routes(&paths, kind));
        let most = paths.iter().map(|steps| self.schema.said(steps, &self.said)).max();
        paths.retain(|steps| Some(self.schema.said(steps, &self.said)) == most);
        let kb = self.kb;
        let told =
            |steps: &Vec<MetapathStep>| metapath_in_words(kb, self.rows, steps.iter().copied());
        let none = || {
            missing(format!("nothing links {} to {}", kb.type_name(self.rows), kb.type_name(kind)))
        };
        self.choose(paths, told).map_or_else(none, Ok)
    }

    /// Returns the longer metapaths from the rows to a type that are as natural as `paths`, the
    /// shortest ones: if these have an intermediate type, others that lead to a single node. The
    /// department of a milestone is that of its owner, or that of the grant of its project.
    fn other_routes(&self, paths: &[Vec<MetapathStep>], kind: TypeId) -> Vec<Vec<MetapathStep>> {
        if paths.first().is_none_or(|steps| steps.len() != 2) {
            return Vec::new();
        }
        let mut chains = self.schema.chains(self.rows, kind);
        let is_detour = |steps: &Vec<MetapathStep>| {
            let passes = |path: &Vec<MetapathStep>| steps.iter().any(|step| step.to == path[0].to);
            paths.iter().any(passes)
        };
        chains.retain(|steps| !is_detour(steps) && self.leads_to_one(self.rows, steps));
        chains
    }

    /// Returns the metapaths from the rows to the nodes of the given types with the name `thing` in
    /// mention `at` that the question mentions most, and whether the shortest one is a single step.
    fn paths_to_name(
        &self,
        at: usize,
        thing: &Thing,
        types: Vec<TypeId>,
    ) -> (Vec<Vec<MetapathStep>>, bool) {
        let is_row = types.contains(&self.rows);
        let mut linked: Vec<Vec<MetapathStep>> = Vec::new();
        for kind in types.into_iter().filter(|kind| *kind != self.rows) {
            linked.extend(self.schema.paths(self.rows, kind, &self.said));
        }
        if is_row {
            let mut within = self.schema.linked_within(self.rows, &self.said);
            within.retain(|step| self.has_direction(at, *step));
            linked.extend(within.into_iter().map(|step| vec![step]));
        }
        // In `grants that are closed`, no other node than the grant or its status is closed.
        if BEING.contains(&self.word_before(at))
            && thing
                .nodes
                .iter()
                .all(|&node| self.schema.value_types.contains(&self.kb.node_type(node)))
        {
            linked.retain(|steps| steps.len() == 1);
        }
        // Keeps the shortest metapaths, and metapaths that continue a shortest one to a single
        // node, such as from an institution to its country. Of these, keeps those that the question
        // mentions most.
        let end = |steps: &[MetapathStep]| steps.last().map_or(self.rows, |step| step.to);
        let shortest = linked.iter().map(Vec::len).min();
        let mut near = linked.clone();
        near.retain(|steps| Some(steps.len()) == shortest);
        let is_part = |steps: &[MetapathStep], begin: &[MetapathStep]| {
            let rest = steps.strip_prefix(begin);
            rest.is_some_and(|rest| rest.is_empty() || self.leads_to_one(end(begin), rest))
        };
        linked.retain(|steps| near.iter().any(|begin| is_part(steps, begin)));
        for kind in distinct(near.iter().map(|steps| end(steps)).collect()) {
            linked.extend(self.other_routes(&near, kind));
        }
        let [before, behind, all] = self.said_beside(at);
        let is_said_before = linked.iter().any(|steps| self.schema.said(steps, &before) > 0);
        let beside = if is_said_before { before } else { behind };
        let said = |steps: &[MetapathStep]| {
            (self.schema.said(steps, &beside), self.schema.said(steps, &all))
        };
        let most = linked.iter().map(|steps| said(steps)).max();
        linked.retain(|steps| Some(said(steps)) == most);
        (linked, shortest == Some(1))
    }

    /// Returns the role of the name `thing` in mention `at`. Of roles that fit equally,
    /// [`choose`](Self::choose) selects one. Fails if nothing links the rows to the name.
    fn role(&mut self, at: usize, thing: &Thing) -> Result<Role, AskError> {
        let kb = self.kb;
        let binder = self.bound.iter().find(|(_, own)| **own == at).map(|(place, _)| *place);
        let mut types = distinct(thing.nodes.iter().map(|&node| kb.node_type(node)).collect());
        match binder.and_then(|place| self.what(place)).cloned() {
            Some(What::Type(kind)) => types.retain(|own| *own == kind),
            Some(What::Field(fields)) => {
                let mut own = thing.values.iter().filter(|value| value.kind == self.rows);
                let is_said =
                    |value: &&FieldValue| fields.iter().any(|(field, _)| *field == value.field);
                if let Some(value) = own.find(is_said) {
                    return Ok(Role::Value(Vec::new(), value.clone()));
                }
            }
            _ => {}
        }
        if let Some(place) = self.described(at)
            && let Some(kind) = self.type_at(place)
            && let Some(value) = thing.values.iter().find(|value| value.kind == kind)
        {
            return Ok(Role::Value(self.path_to(kind)?, value.clone()));
        }
        let is_row = types.contains(&self.rows);
        let (linked, is_near) = self.paths_to_name(at, thing, types);
        let end = |steps: &[MetapathStep]| steps.last().map_or(self.rows, |step| step.to);
        let mut roles: Vec<(String, Role)> = Vec::new();
        if !is_near
            && !is_row
            && let Some(value) = self.own_value(thing, &linked)?
        {
            return Ok(Role::Value(Vec::new(), value));
        }
        for value in thing.values.iter().filter(|value| value.kind == self.rows) {
            let name = kb.field_name(value.field);
            // A field with the name of the node's type repeats the link.
            let again = is_near && linked.iter().any(|steps| kb.type_name(end(steps)) == name);
            let role = Role::Value(Vec::new(), value.clone());
            if !again && !roles.iter().any(|own| own.1 == role) {
                roles.push((format!("{name} of {}", kb.type_name(self.rows)), role));
            }
        }
        let link = |steps: Vec<MetapathStep>| {
            let way = metapath_in_words(kb, self.rows, steps.iter().copied());
            (way, self.nodes_called(thing, steps))
        };
        if is_near {
            roles.extend(linked.into_iter().map(link));
        } else if roles.is_empty() && !is_row {
            roles.extend(linked.into_iter().map(link));
            let is_other = |(_, role): &(String, Role)| match role {
                Role::Value(_, value) => !self.has_node_of(thing, value.kind),
                Role::Nodes { .. } => true,
            };
            roles.extend(self.values_of_linked(thing).into_iter().filter(is_other));
            // Prefers metapaths to a single node: the country of a product is that of its maker.
            let to_one = |(_, role): &(String, Role)| self.leads_to_one(self.rows, role.steps());
            if roles.iter().any(to_one) {
                roles.retain(to_one);
            }
        }
        if roles.is_empty() && is_row {
            if self.is_counted_by(at, thing) {
                // The counted rows link to the named row.
                let mut steps = self.schema.steps(self.rows);
                steps.retain(|step| step.to == self.rows);
                roles.extend(with_both_ways(steps).into_iter().map(|step| link(vec![step])));
            } else {
                roles.push((String::new(), self.nodes_called(thing, Vec::new())));
            }
        }
        if roles.is_empty() {
            roles = self.values_of_linked(thing);
        }
        match self.choose(roles, |own| own.0.clone()) {
            Some((_, role)) => Ok(role),
            None => {
                missing(format!("nothing links {} to {:?}", kb.type_name(self.rows), thing.text))
            }
        }
    }

    /// Returns the mention of a type, other than the rows, that the value in mention `at`
    /// describes: `customers in Germany`, where customers have a country.
    pub(super) fn described(&self, at: usize) -> Option<usize> {
        let place = self.beside_past(at, -1, |place| self.is_equal(place))?;
        let kind = self.type_at(place).filter(|kind| *kind != self.rows)?;
        let thing = self.thing(at)?;
        let is_apart = self.beside(at, -1) != Some(place);
        (is_apart && thing.values.iter().any(|value| value.kind == kind)).then_some(place)
    }

    /// Whether a step within one type leads from the rows to the row named in mention `at` in the
    /// direction that the question states: `reports to X` leads to X, `does X report to` and
    /// `the supervisor of X` lead from X. True if the question states none.
    fn has_direction(&self, at: usize, step: MetapathStep) -> bool {
        let name = self.schema.relation(step.relation);
        let (Some(last), noun) = (name.words.last(), name.stems.last()) else { return true };
        let is_said = |place: &usize| self.says(*place, step.relation);
        let Some(said) = (0..self.mentions.all.len()).find(is_said) else { return true };
        let is_noun = self.mentions.said(said).last().map(|token| &token.stem) == noun
            && self.word_after(said) == "of";
        match last.as_str() {
            "to" => step.direction == if said < at { Direction::Out } else { Direction::In },
            _ if is_noun && said < at => step.direction == Direction::In,
            _ => true,
        }
    }

    /// For a name `thing` that is not a value of any row, returns it as a value of the field that
    /// would hold it: for `customers in Norway`, the country of customers, even if only orders went
    /// to Norway. `linked` are the metapaths from the rows to the nodes with the name. `None` if
    /// the question mentions any of these metapaths, or if not exactly one field of the rows fits.
    ///
    /// # Errors
    /// If this field has only codes: clients may be `P` or `O`, and no client is a `company`.
    fn own_value(
        &self,
        thing: &Thing,
        linked: &[Vec<MetapathStep>],
    ) -> Result<Option<FieldValue>, AskError> {
        if thing.values.iter().any(|value| value.kind == self.rows)
            || linked.iter().any(|steps| self.schema.said(steps, &self.said) > 0)
        {
            return Ok(None);
        }
        let ends = linked.iter().filter_map(|steps| steps.last());
        let ends = ends.map(|step| &self.schema.types[usize::from(step.to.0)]);
        let fields = thing.values.iter().map(|value| self.schema.field(value.field));
        let nouns: Vec<&String> = ends.chain(fields).filter_map(|own| own.words.last()).collect();
        let is_own = |sample: &&Sample| {
            let noun = self.schema.field(sample.field).words.last();
            sample.kind.groups()
                && !sample.kind.is_number()
                && noun.is_some_and(|noun| noun != "name" && nouns.contains(&noun))
        };
        let mut own = self.schema.samples(self.rows).iter().filter(is_own);
        let (Some(sample), None) = (own.next(), own.next()) else { return Ok(None) };
        let is_code = |value: &str| value.chars().count() <= MAX_CODE;
        let has_codes = !sample.values.is_empty() && sample.values.iter().all(|own| is_code(own));
        if has_codes && !is_code(&thing.text) {
            let (field, rows) = (self.kb.field_name(sample.field), self.kb.type_name(self.rows));
            let codes =
                sample.values.iter().take(MAX_CODES).cloned().collect::<Vec<_>>().join(", ");
            return missing(format!(
                "{field} of {rows} has the values {codes}, not {:?}",
                thing.text
            ));
        }
        let key = category(&thing.text);
        Ok(Some(FieldValue { kind: self.rows, field: sample.field, key }))
    }

    /// Returns the roles of a name that is a value of a field of linked nodes: one role for each
    /// pair of such a field and a metapath to its type that the question mentions most strongly.
    fn values_of_linked(&self, thing: &Thing) -> Vec<(String, Role)> {
        let mut roles = Vec::new();
        for value in thing.values.iter().filter(|value| value.kind != self.rows) {
            let paths = self.schema.best_paths(self.rows, value.kind, &self.said);
            for steps in paths.into_iter().filter(|steps| steps.len() <= MAX_STEPS_TO_VALUE) {
                let way = metapath_in_words(self.kb, self.rows, steps.iter().copied());
                let name = format!("{} of {way}", self.kb.field_name(value.field));
                roles.push((name, Role::Value(steps, value.clone())));
            }
        }
        roles
    }

    /// Returns three sets of stems: of the words before a mention, of the words after it (both up
    /// to the nearest name or date), and of the question. In `from A were handled by B`, the words
    /// after A belong to B and are left out.
    fn said_beside(&self, at: usize) -> [BTreeSet<String>; 3] {
        let is_name = |at: &usize| matches!(self.what(*at), Some(What::Thing(_) | What::Date(_)));
        let stems = |places: &mut dyn Iterator<Item = usize>| {
            let own = places.take_while(|at| !is_name(at));
            let tokens = own.flat_map(|at| self.mentions.said(at));
            tokens.map(|token| token.stem.clone()).collect::<BTreeSet<String>>()
        };
        let end = self.mentions.all.len();
        let before = stems(&mut (0..at).rev());
        let behind = stems(&mut (at + 1..end));
        let is_passive =
            YES_NO.contains(&self.word_after(at)) && (at + 1..end).any(|at| is_name(&at));
        if is_passive {
            let all = self.said.difference(&behind).chain(&before).cloned().collect();
            return [before, BTreeSet::new(), all];
        }
        [before, behind, self.said.clone()]
    }

    /// Whether the question counts or lists rows by their link to the named row in mention `at`:
    /// `how many papers cite X`, but not `how many papers are called X`.
    fn is_counted_by(&self, at: usize, thing: &Thing) -> bool {
        const NAMES: [&str; 5] = ["called", "named", "name", "title", "titled"];
        let counts = self.lists
            || self.has(Cue::HowMany) && self.counted.values().any(|kind| *kind == self.rows);
        let own = !self.changed[at] && !self.denied.contains(&at);
        let nodes = thing.nodes.iter().filter(|&&node| self.kb.node_type(node) == self.rows);
        let is_called = self.own_words().iter().any(|own| NAMES.contains(own));
        counts && own && nodes.count() == 1 && !is_called
    }

    /// Converts a role to the test that a row has the role.
    pub(super) fn test(&mut self, role: Role) -> Test {
        match role {
            Role::Nodes { nodes, steps } if steps.is_empty() => Test::Is(nodes),
            Role::Nodes { nodes, steps } => {
                let column = self.column(ColumnSpec::Names(steps));
                Test::Linked { column, nodes }
            }
            Role::Value(steps, FieldValue { field, key, .. }) => {
                let spec = match steps.is_empty() {
                    true => ColumnSpec::Field(field),
                    false => ColumnSpec::FieldOf { steps, field },
                };
                Test::Value { column: self.column(spec), key }
            }
        }
    }
}
