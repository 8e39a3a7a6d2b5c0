//! Conditions on nodes, such as `site=Munich`, `priority=high,urgent`, `created>=2025-03` and
//! `status!=closed`.
//!
//! | left side | values of a node |
//! | --- | --- |
//! | `type`, `id`, `name` | its type, its id in the imported data, its name |
//! | a field | the text of the field, and each item of a list |
//! | a relation, or the type it leads to | names and ids of the neighbours |
//! | `relation.field` | the values of a field of the neighbours |
//!
//! A name may match both a field and a relation or type, such as `site` with the relation
//! `has_site` or the type `site`; it then refers to both. Texts are equal if their words are,
//! ignoring case. Numbers are compared as numbers. Before a comparison, the date of a node is cut
//! to the precision of the date in the condition, so `created<=2025-03` includes all of March. `!=`
//! also holds for nodes without a value, if another node of their type has a value. A node must
//! satisfy all conditions.

mod facets;

use std::{cmp::Ordering, collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de::Error as _};

pub use facets::{Facet, FacetValue, MAX_FACET_VALUES, MAX_FACETS, facets};

use agent_ground::words::listed;

use crate::{
    Direction, FieldId, Kb, NodeId, NodeSet, RelationId, TypeId,
    table::value::{category, date, quantity},
};

/// Maximum number of conditions in one call.
pub const MAX_CONDITIONS: usize = 20;
/// Maximum number of values in one condition.
pub const MAX_VALUES: usize = 100;
/// Maximum length of a condition as text, in bytes.
const MAX_BYTES: usize = 4_096;
/// Maximum number of names that an error lists.
const MAX_LISTED: usize = 60;
/// The value that equals any value.
const ANY: &str = "*";
/// Separator of the items of a list in the text of a field.
const SEPARATOR: &str = "; ";
/// Operators by their sign. A sign that begins with another sign, such as `>=` with `>`, comes
/// first.
const OPERATORS: [(&str, Operator); 6] = [
    ("!=", Operator::IsNot),
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("=", Operator::Is),
    (">", Operator::More),
    ("<", Operator::Less),
];

/// Why conditions or facets cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The left side of a condition, or the name of a facet, is not a field, relation or type of
    /// the base.
    #[error("no field or relation \"{name}\"; use one of: {known}")]
    UnknownField {
        /// The unknown name.
        name: String,
        /// Names that the base has, comma-separated.
        known: String,
    },
    /// A condition on the type of a node names no type of the base.
    #[error("no type {name:?}; the types are {known}")]
    UnknownType {
        /// The unknown name.
        name: String,
        /// The types of the base, comma-separated.
        known: String,
    },
    /// A condition asks for an order (`<`, `<=`, `>`, `>=`), but its value is neither a number nor
    /// a date.
    #[error(
        "\"{condition}\": {value:?} is neither a number nor a date; compare texts with = or !="
    )]
    NotOrdered {
        /// The condition as text.
        condition: String,
        /// The value of the condition.
        value: String,
    },
    /// There are too many conditions; holds their number.
    #[error(
        "{0} conditions exceed the limit of {MAX_CONDITIONS}; write several values in one: a=x,y"
    )]
    TooMany(usize),
    /// There are too many facets; holds their number.
    #[error("{0} facets exceed the limit of {MAX_FACETS}; name fewer fields")]
    TooManyFacets(usize),
    /// A facet has too many values to be counted; holds the name of the facet.
    #[error(
        "\"{0}\" has more than {MAX_FACET_VALUES} values; add a condition, or name another field"
    )]
    TooManyValues(String),
}

/// How the values of a node are compared with those of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`: a value of the node equals a value of the condition.
    Is,
    /// `!=`: no value of the node equals a value of the condition.
    IsNot,
    /// `<`: a value of the node is smaller or earlier.
    Less,
    /// `<=`: a value of the node is neither larger nor later.
    AtMost,
    /// `>`: a value of the node is larger or later.
    More,
    /// `>=`: a value of the node is neither smaller nor earlier.
    AtLeast,
}

/// One condition on nodes, such as `priority=high,urgent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    field: String,
    operator: Operator,
    values: Vec<String>,
    text: String,
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Condition {
    /// Returns the values on the right side if the condition orders them (`<`, `<=`, `>` or `>=`);
    /// otherwise none.
    pub fn limits(&self) -> &[String] {
        match self.operator {
            Operator::Is | Operator::IsNot => &[],
            _ => &self.values,
        }
    }

    /// Creates a condition from its parts; `values` must not be empty. In its text
    /// form, values that contain a comma are in double quotes.
    pub fn new(field: impl Into<String>, operator: Operator, values: Vec<String>) -> Condition {
        let field = field.into();
        let sign = OPERATORS.iter().find(|pair| pair.1 == operator).map_or("=", |pair| pair.0);
        let quoted = |value: &String| match value.contains(',') {
            true => format!("\"{value}\""),
            false => value.clone(),
        };
        let shown: Vec<String> = values.iter().map(quoted).collect();
        let text = format!("{field}{sign}{}", shown.join(","));
        Condition { field, operator, values, text }
    }
}

impl FromStr for Condition {
    type Err = String;

    /// Parses `FIELD OPERATOR VALUE`, such as `created>=2025-03`. After `=` and `!=`, commas
    /// separate several values; commas within double quotes belong to the value.
    fn from_str(text: &str) -> Result<Condition, String> {
        let form = "write FIELD=VALUE, with one of = != < <= > >=";
        if text.len() > MAX_BYTES {
            return Err(format!("the condition exceeds {MAX_BYTES} bytes; shorten it"));
        }
        let none = || format!("{text:?} has no operator; {form}");
        let (field, rest) = text.split_at(text.find(['!', '=', '<', '>']).ok_or_else(none)?);
        let found = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let &(sign, operator) = found.ok_or_else(none)?;
        let rest = rest.get(sign.len()..).unwrap_or_default();
        let values = match operator {
            Operator::Is | Operator::IsNot => split(rest),
            _ => vec![rest.trim().to_owned()],
        };
        let field = field.trim().to_owned();
        if field.is_empty() {
            return Err(format!("{text:?} has no field before the operator; {form}"));
        }
        if values.iter().any(String::is_empty) {
            return Err(format!("{text:?} has an empty value; {form}"));
        }
        if values.len() > MAX_VALUES {
            return Err(format!("{} values exceed the limit of {MAX_VALUES}", values.len()));
        }
        Ok(Condition { field, operator, values, text: text.to_owned() })
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Condition, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Splits a text at commas outside of double quotes; trims the values and removes the quotes.
fn split(text: &str) -> Vec<String> {
    let (mut values, mut value, mut is_quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => values.push(std::mem::take(&mut value)),
            c => value.push(c),
        }
    }
    values.push(value);
    values.into_iter().map(|value| value.trim().to_owned()).collect()
}

/// The left side of a condition, found in a base.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    own: Vec<Own>,
    steps: Vec<(RelationId, Direction)>,
    /// Attributes that are read from the neighbours to which `steps` lead.
    ends: Vec<Own>,
}

/// An attribute that a node itself has, read as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Type,
    Id,
    Name,
    Field(FieldId),
}

impl Own {
    fn any(self, kb: &Kb, node: NodeId, mut holds: impl FnMut(&str) -> bool) -> bool {
        match self {
            Own::Type => holds(kb.type_name(kb.node_type(node))),
            Own::Id => holds(&kb.key(node)),
            Own::Name => holds(kb.name(node)),
            Own::Field(field) => kb.field(node, field).is_some_and(|text| {
                holds(text) || (text.contains(SEPARATOR) && text.split(SEPARATOR).any(&mut holds))
            }),
        }
    }
}

/// Returns the nodes that satisfy all conditions; all nodes if there are no conditions. Linear in
/// the nodes and edges that the left sides refer to.
///
/// # Errors
/// [`FilterError`].
pub fn matching(kb: &Kb, conditions: &[Condition]) -> Result<NodeSet, FilterError> {
    if conditions.len() > MAX_CONDITIONS {
        return Err(FilterError::TooMany(conditions.len()));
    }
    let mut all: Option<NodeSet> = None;
    for condition in conditions {
        let own = of_condition(kb, condition)?;
        all = Some(match all {
            Some(before) => before.intersection(&own),
            None => own,
        });
    }
    Ok(all.unwrap_or_else(|| NodeSet::new((0..kb.n_nodes()).collect())))
}

fn of_condition(kb: &Kb, condition: &Condition) -> Result<NodeSet, FilterError> {
    let check = Check::new(kb, condition)?;
    let holds = |value: &str| check.holds_for(value);
    let found = check.source.nodes(kb, &holds);
    Ok(match condition.operator {
        Operator::IsNot => {
            let nodes = check.types.iter().flat_map(|&of| kb.nodes_of_type(of)).copied();
            NodeSet::new(nodes.collect()).difference(&found)
        }
        _ => found,
    })
}

/// A condition whose left side is found in a base, to check single nodes.
pub struct Check<'a> {
    kb: &'a Kb,
    source: Source,
    operator: Operator,
    operands: Vec<Operand<'a>>,
    /// The types with a node that has a value of the left side; empty unless the operator is `!=`.
    types: BTreeSet<TypeId>,
}

impl<'a> Check<'a> {
    /// Finds the left side of a condition in the base and parses the values of the condition.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn new(kb: &'a Kb, condition: &'a Condition) -> Result<Self, FilterError> {
        let source = Source::find(kb, &condition.field)?;
        let operator = condition.operator;
        let operands: Vec<Operand<'_>> =
            condition.values.iter().map(|value| Operand::new(value)).collect();
        let is_order = !matches!(operator, Operator::Is | Operator::IsNot);
        if let Some(wrong) = operands.iter().find(|operand| is_order && !operand.is_ordered()) {
            let (condition, value) = (condition.text.clone(), wrong.text.to_owned());
            return Err(FilterError::NotOrdered { condition, value });
        }
        let is_known =
            |operand: &Operand<'_>| kb.types().iter().any(|name| operand.holds(Operator::Is, name));
        if source.own == [Own::Type]
            && source.steps.is_empty()
            && let Some(unknown) = operands.iter().find(|operand| !is_order && !is_known(operand))
        {
            let (name, known) = (unknown.text.to_owned(), kb.types().join(", "));
            return Err(FilterError::UnknownType { name, known });
        }
        let types = match operator {
            Operator::IsNot => source.types(kb),
            _ => BTreeSet::new(),
        };
        Ok(Self { kb, source, operator, operands, types })
    }

    /// Whether the condition holds for `node`. Linear in the neighbours that are read.
    pub fn holds(&self, node: NodeId) -> bool {
        let is_found = self.any_value(node, |value| self.holds_for(value));
        match self.operator {
            Operator::IsNot => !is_found && self.types.contains(&self.kb.node_type(node)),
            _ => is_found,
        }
    }

    /// Whether the condition orders numbers (`<`, `<=`, `>` or `>=`) and `node` has no value to
    /// compare. Conditions on dates are excluded, because a missing date has a meaning, such as
    /// that a ticket is still open.
    pub fn is_unknown(&self, node: NodeId) -> bool {
        let is_comparison = !matches!(self.operator, Operator::Is | Operator::IsNot)
            && self.operands.iter().all(|operand| operand.date.is_none());
        is_comparison && !self.any_value(node, |_| true)
    }

    /// Whether `has` returns `true` for any value of the condition's left side.
    fn any_value(&self, node: NodeId, has: impl Fn(&str) -> bool) -> bool {
        let kb = self.kb;
        let of = |own: &[Own], node| own.iter().any(|own| own.any(kb, node, &has));
        let of_ends = |&(relation, direction): &(RelationId, Direction)| {
            kb.neighbors(node, relation, direction).iter().any(|&end| of(&self.source.ends, end))
        };
        of(&self.source.own, node) || self.source.steps.iter().any(of_ends)
    }

    fn holds_for(&self, value: &str) -> bool {
        self.operands.iter().any(|operand| operand.holds(self.operator, value))
    }
}

impl Source {
    fn find(kb: &Kb, name: &str) -> Result<Source, FilterError> {
        let own = own(kb, name);
        let mut source = Source { own, steps: steps(kb, name), ends: vec![Own::Name, Own::Id] };
        if source.own.is_empty()
            && source.steps.is_empty()
            && let Some((relation, field)) = name.rsplit_once('.')
        {
            source.ends = self::own(kb, field.trim());
            source.steps = steps(kb, relation.trim());
            if source.ends.is_empty() {
                source.steps.clear();
            }
        }
        if source.own.is_empty() && source.steps.is_empty() {
            return Err(FilterError::UnknownField { name: name.to_owned(), known: known(kb) });
        }
        Ok(source)
    }

    /// Returns the nodes with at least one value for which `holds` returns `true`.
    fn nodes(&self, kb: &Kb, holds: &dyn Fn(&str) -> bool) -> NodeSet {
        let of = |own: &[Own], node| own.iter().any(|own| own.any(kb, node, holds));
        let mut nodes: Vec<NodeId> = match self.own.is_empty() {
            true => Vec::new(),
            false => (0..kb.n_nodes()).filter(|&node| of(&self.own, node)).collect(),
        };
        for &(relation, direction) in &self.steps {
            for end in ends(kb, relation, direction) {
                for &node in kb.nodes_of_type(end) {
                    if of(&self.ends, node) {
                        nodes.extend(kb.neighbors(node, relation, direction.reversed()).iter());
                    }
                }
            }
        }
        NodeSet::new(nodes)
    }

    /// Returns the types with a node that has a value: all types for `type`, `id` and `name`, types
    /// with a node that has the field, and types from which the relations lead.
    fn types(&self, kb: &Kb) -> BTreeSet<TypeId> {
        let has = |&kind: &TypeId| {
            let has = |own: &Own| match *own {
                Own::Field(field) => {
                    kb.nodes_of_type(kind).iter().any(|&node| kb.field(node, field).is_some())
                }
                _ => true,
            };
            self.own.iter().any(has)
        };
        let all = (0..kb.types().len()).map(|at| TypeId(at as u16));
        let mut types: BTreeSet<TypeId> = all.filter(has).collect();
        for &(relation, direction) in &self.steps {
            types.extend(ends(kb, relation, direction.reversed()));
        }
        types
    }
}

/// Returns the types of the nodes at which a relation ends when it is followed in a direction.
fn ends(kb: &Kb, relation: RelationId, direction: Direction) -> BTreeSet<TypeId> {
    let tuples = kb.tuples().iter().filter(|tuple| tuple.relation == relation);
    let ends = tuples.flat_map(|tuple| match direction {
        Direction::Out => vec![tuple.target],
        Direction::In => vec![tuple.source],
        Direction::Any => vec![tuple.source, tuple.target],
    });
    ends.collect()
}

/// Returns a name in lower case, with underscores instead of spaces and hyphens.
fn folded(name: &str) -> String {
    name.to_lowercase().replace([' ', '-'], "_")
}

/// Returns the attributes of a node itself that a name refers to: fields, or the type, id or name
/// of the node.
fn own(kb: &Kb, name: &str) -> Vec<Own> {
    let fields = kb.field_names().iter().enumerate();
    let fields = fields.filter(|(_, known)| folded(known) == folded(name));
    let mut own: Vec<Own> = fields.map(|(at, _)| Own::Field(FieldId(at as u16))).collect();
    match name {
        "type" => own.push(Own::Type),
        "id" => own.push(Own::Id),
        "name" => own.push(Own::Name),
        _ => {}
    }
    own
}

/// Returns the relations that a name refers to, each with the direction to follow: relations of
/// that name, in either direction; the relation `has_NAME`, as stored; and relations that lead to
/// the type of that name, in that direction.
fn steps(kb: &Kb, name: &str) -> Vec<(RelationId, Direction)> {
    let name = folded(name);
    let mut steps = Vec::new();
    for (at, relation) in kb.relations().iter().enumerate() {
        let (id, relation) = (RelationId(at as u16), folded(relation));
        if relation == name {
            steps.push((id, Direction::Any));
        } else if relation.strip_prefix("has_") == Some(name.as_str()) {
            steps.push((id, Direction::Out));
        } else {
            let leads =
                |way: &_| ends(kb, id, *way).iter().any(|&of| folded(kb.type_name(of)) == name);
            let ways = [Direction::Out, Direction::In].into_iter().filter(leads);
            steps.extend(ways.map(|way| (id, way)));
        }
    }
    steps
}

/// Lists the names that conditions may use, comma-separated, for messages; at most [`MAX_LISTED`].
fn known(kb: &Kb) -> String {
    let names: BTreeSet<&str> =
        kb.field_names().iter().chain(kb.relations()).map(String::as_str).collect();
    let names: Vec<&str> = ["type", "id", "name"].into_iter().chain(names).collect();
    listed(&names, MAX_LISTED)
}

/// A value of a condition, prepared for comparison.
struct Operand<'a> {
    text: &'a str,
    folded: String,
    /// As `folded`, in the spelling without German letters: `strasse` for `Straße`.
    spelled: String,
    number: Option<f64>,
    /// The value as a year, month or day: the beginning of a date `YYYY-MM-DD`. `None` if the value
    /// is not such a date.
    date: Option<String>,
}

impl<'a> Operand<'a> {
    fn new(text: &'a str) -> Self {
        let number = quantity(text).map(|quantity| quantity.number);
        let (folded, spelled) = (category(text), category(&in_ascii(text)));
        Operand { text, folded, spelled, number, date: part_of_date(text) }
    }

    fn is_ordered(&self) -> bool {
        self.number.is_some() || self.date.is_some()
    }

    fn holds(&self, operator: Operator, value: &str) -> bool {
        let order = self.order(value);
        match operator {
            Operator::Is | Operator::IsNot => self.is(order, value, || {
                let is_ascii = value.is_ascii() && self.text.is_ascii();
                category(value) == self.folded
                    || !is_ascii && category(&in_ascii(value)) == self.spelled
            }),
            Operator::Less => order == Some(Ordering::Less),
            Operator::AtMost => order.is_some_and(Ordering::is_le),
            Operator::More => order == Some(Ordering::Greater),
            Operator::AtLeast => order.is_some_and(Ordering::is_ge),
        }
    }

    /// Whether the value of a node is this value. `order` is the result of comparing both;
    /// `same_words` returns whether their words are equal.
    fn is(&self, order: Option<Ordering>, value: &str, same_words: impl FnOnce() -> bool) -> bool {
        order == Some(Ordering::Equal)
            || self.text == ANY
            || value.trim() == self.text
            || (!self.folded.is_empty() && same_words())
    }

    /// Compares the value of a node with this value; `None` unless both are numbers or both are
    /// dates.
    fn order(&self, value: &str) -> Option<Ordering> {
        if let (Some(wanted), Some(date)) = (&self.date, date(value)) {
            return Some(date.get(..wanted.len())?.cmp(wanted));
        }
        quantity(value)?.number.partial_cmp(&self.number?)
    }
}

/// Returns a text in lower case, with German letters in their usual spelling without them.
fn in_ascii(text: &str) -> String {
    const LETTERS: [(char, &str); 4] = [('ä', "ae"), ('ö', "oe"), ('ü', "ue"), ('ß', "ss")];
    LETTERS.iter().fold(text.to_lowercase(), |text, (letter, plain)| text.replace(*letter, plain))
}

/// Parses a year, month or day to the beginning of a date `YYYY-MM-DD`.
fn part_of_date(text: &str) -> Option<String> {
    let is_number =
        |part: &str, n: usize| part.len() == n && part.chars().all(|c| c.is_ascii_digit());
    let mut parts = text.split('-');
    match (parts.next()?, parts.next(), parts.next()) {
        (year, None, None) if is_number(year, 4) => Some(year.to_owned()),
        (year, Some(month), None) if is_number(year, 4) && is_number(month, 2) => {
            ("01"..="12").contains(&month).then(|| text.to_owned())
        }
        _ => date(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{KbMeta, KbWriter};

    const SITES: [&str; 3] = ["Bonn", "Graz", "Lyon"];

    /// Tickets with a priority, a number, a date and perhaps a site that is a node.
    fn base(tickets: &[(usize, i64, u32, Option<usize>)]) -> (tempfile::TempDir, Kb) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = KbWriter::create(&dir.path().join("kb")).unwrap();
        for site in SITES {
            writer.push_keyed_node(&format!("S-{site}"), "site", site, site, &[]).unwrap();
        }
        for (at, (priority, hours, month, site)) in tickets.iter().enumerate() {
            let fields = [
                ("priority".to_owned(), ["low", "high; urgent"][priority % 2].to_owned()),
                ("hours".to_owned(), hours.to_string()),
                ("created".to_owned(), format!("2025-{:02}-15 08:30", 1 + month % 12)),
            ];
            let key = format!("T-{at}");
            let node = writer.push_keyed_node(&key, "ticket", &key, "text", &fields).unwrap();
            if let Some(site) = site {
                writer.push_edge(node, "has_site", *site as NodeId).unwrap();
            }
        }
        let meta = KbMeta::default();
        writer.finish(&meta, &mut |_, _| true).unwrap();
        let kb = Kb::open(&dir.path().join("kb")).unwrap();
        (dir, kb)
    }

    fn found(kb: &Kb, conditions: &[&str]) -> Result<Vec<NodeId>, FilterError> {
        let conditions: Vec<Condition> =
            conditions.iter().map(|text| text.parse().unwrap()).collect();
        Ok(matching(kb, &conditions)?.as_slice().to_vec())
    }

    #[test]
    fn german_letters_are_equal_to_their_usual_spelling() {
        let same = |one: &str, other: &str| Operand::new(one).holds(Operator::Is, other);
        for (one, other) in [("Hauptstrasse", "Hauptstraße"), ("Mühlengrund", "Muehlengrund")] {
            assert!(same(one, other) && same(other, one), "{one}");
        }
        assert!(same("MUELLER", "Müller") && !same("Muller", "Mueller") && !same("Baur", "Bauer"));
    }

    #[test]
    fn wrong_conditions_are_refused_with_the_remedy() {
        for (text, part) in [
            ("site", "has no operator; write FIELD=VALUE"),
            ("=Bonn", "has no field before the operator"),
            ("site=", "has an empty value"),
            ("site=a,,b", "has an empty value"),
            ("a!b", "has no operator"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let (_dir, kb) = base(&[(0, 1, 1, Some(0))]);
        let error = found(&kb, &["sight=Bonn"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "no field or relation \"sight\"; use one of: type, id, name, created, has_site, hours, priority"
        );
        let error = found(&kb, &["type=ticket,nope"]).unwrap_err().to_string();
        assert_eq!(error, "no type \"nope\"; the types are site, ticket");
        for condition in ["priority>low", "created>=2025-13"] {
            let error = found(&kb, &[condition]).unwrap_err().to_string();
            assert!(error.contains("neither a number nor a date"), "{error}");
        }
        assert!(found(&kb, &["hours=1"; 21]).is_err());
    }

    #[test]
    fn quotes_keep_commas_and_neighbours_have_fields() {
        let condition: Condition = r#"site="Bonn, West",Graz"#.parse().unwrap();
        assert_eq!(condition.values, ["Bonn, West", "Graz"]);
        let (_dir, kb) = base(&[(0, 1, 1, Some(0)), (1, 2, 2, Some(1))]);
        // Sites with an urgent ticket.
        assert_eq!(found(&kb, &["has_site.priority=urgent"]).unwrap(), [1]);
        assert_eq!(found(&kb, &["ticket=T-0"]).unwrap(), [0]);
        assert_eq!(found(&kb, &["site=s-graz"]).unwrap(), [4]);
    }

    #[test]
    fn facets_name_values_that_repeat() {
        let (_dir, kb) = base(&[(0, 1, 1, Some(0)), (0, 1, 2, Some(0)), (1, 2, 3, Some(1))]);
        let tickets = matching(&kb, &["type=ticket".parse().unwrap()]).unwrap();
        let found = facets(&kb, &tickets, &["site".to_owned(), "priority".to_owned()], 1).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|facet| (facet.nodes, facet.n_values, facet.values[0].condition.as_str()))
            .collect();
        assert_eq!(shown, [(3, 2, "site=Bonn"), (3, 3, "priority=low")]);
        let error = facets(&kb, &tickets, &["sight".to_owned()], 1).unwrap_err().to_string();
        assert!(error.contains("no field or relation \"sight\""), "{error}");
        assert!(facets(&kb, &tickets, &vec!["site".to_owned(); MAX_FACETS + 1], 1).is_err());
    }

    proptest! {
        /// The number of each facet value equals the number of nodes that its condition leaves.
        #[test]
        fn facets_count_what_their_conditions_leave(
            tickets in prop::collection::vec((0usize..2, -2i64..4, 0u32..3, prop::option::of(0usize..3)), 1..30),
            narrowed in prop::option::of(0usize..3),
        ) {
            let tickets: Vec<_> = [(0, 0, 0, Some(0))].into_iter().chain(tickets).collect();
            let (_dir, kb) = base(&tickets);
            let filter: Vec<Condition> =
                narrowed.map(|site| format!("site={}", SITES[site]).parse().unwrap()).into_iter().collect();
            let nodes = matching(&kb, &filter).unwrap();
            let named = ["site", "priority", "hours", "created", "type", "name", "has_site.priority"];
            let named = facets(&kb, &nodes, &named.map(str::to_owned), 50).unwrap();
            for facet in named.iter().chain(&facets(&kb, &nodes, &[], 50).unwrap()) {
                prop_assert_eq!(facet.values.len(), facet.n_values, "{:?}", facet);
                for value in &facet.values {
                    let narrower = matching(&kb, &[value.condition.parse().unwrap()]).unwrap();
                    prop_assert_eq!(nodes.intersection(&narrower).len(), value.nodes, "{:?}", value);
                }
            }
        }

        /// Conditions find what a scan of all tickets finds.
        #[test]
        fn conditions_find_what_a_scan_finds(
            tickets in prop::collection::vec((0usize..2, -5i64..15, 0u32..12, prop::option::of(0usize..3)), 1..30),
            (least, month, site) in (-5i64..15, 1u32..13, 0usize..3),
        ) {
            // Without an edge the base has no relation to sites.
            let tickets: Vec<_> = [(0, 0, 0, Some(0))].into_iter().chain(tickets).collect();
            let (_dir, kb) = base(&tickets);
            type Ticket = (usize, i64, u32, Option<usize>);
            let scan = |holds: &dyn Fn(&Ticket) -> bool| -> Vec<NodeId> {
                let holding = tickets.iter().enumerate().filter(|(_, ticket)| holds(ticket));
                holding.map(|(at, _)| (3 + at) as NodeId).collect()
            };
            let name = SITES[site];
            for (condition, expected) in [
                (format!("site={}", name.to_uppercase()), scan(&|t| t.3 == Some(site))),
                (format!("site!={name}"), scan(&|t| t.3 != Some(site))),
                (format!("priority=urgent,{name}"), scan(&|t| t.0 == 1)),
                (format!("hours>={least}"), scan(&|t| t.1 >= least)),
                (format!("hours<{least}"), scan(&|t| t.1 < least)),
                (format!("created<=2025-{month:02}"), scan(&|t| t.2 < month)),
                (format!("created>2025-{month:02}"), scan(&|t| t.2 >= month)),
                (format!("created=15.{month:02}.2025"), scan(&|t| t.2 + 1 == month)),
                ("created>=2025".to_owned(), scan(&|_| true)),
            ] {
                let found = found(&kb, &[&condition]).unwrap();
                prop_assert_eq!(found, expected, "{}", condition);
            }
            for text in ["site!=*".to_owned(), format!("site!={name}"), format!("hours>={least}")] {
                let condition: Condition = text.parse().unwrap();
                let check = Check::new(&kb, &condition).unwrap();
                let held: Vec<NodeId> = (0..kb.n_nodes()).filter(|&node| check.holds(node)).collect();
                prop_assert_eq!(held, found(&kb, &[&text]).unwrap(), "{}", text);
            }
            prop_assert_eq!(found(&kb, &["site!=*"]).unwrap(), scan(&|t| t.3.is_none()));
            let both = found(&kb, &[&format!("site={name}"), &format!("hours>{least}")]).unwrap();
            prop_assert_eq!(both, scan(&|t| t.3 == Some(site) && t.1 > least));
        }
    }
}
