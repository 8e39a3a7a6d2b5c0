//! The documents of nodes for word search: the text of a node and, after it, the texts of the rows
//! that belong to the node and have no name of their own, such as the reviews of a film.
//!
//! Rows belong to the node that they link to, if each of them links to one node only. If such rows
//! link to nodes of several types, they do not belong to people: a review is part of the film, not
//! of its reviewer.
//!
//! Rows that may be answers themselves should come before the node that they belong to. So word
//! search leaves out their texts.

use std::borrow::Cow;

use agent_ground::words::is_of_people;
use agent_kb::{
    Direction, FieldId, Kb, NodeId, RelationId, TypeId,
    table::{ColumnKind, sample},
};

use crate::build::has_no_name;

/// Number of nodes of a type whose names are checked.
const CHECKED_NAMES: usize = 50;
/// Maximum number of rows per relation whose texts are part of a document.
const MAX_ROWS: usize = 1_000;
/// Maximum length in bytes of a document that includes texts of rows; a longer text of the node
/// itself stays whole.
const MAX_BYTES: usize = 64 << 10;

/// The rows of one type that belong to the nodes of another type.
#[derive(Debug)]
struct Part {
    owner: TypeId,
    relation: RelationId,
    /// Direction of the relation from the owner to the rows.
    direction: Direction,
    rows: TypeId,
    /// The fields of the rows that hold texts.
    fields: Vec<FieldId>,
    /// Whether the rows may be answers themselves.
    are_candidates: bool,
}

/// Composes the documents of the nodes of one base.
#[derive(Debug)]
pub(crate) struct Documents(Vec<Part>);

impl Documents {
    /// Finds the rows of a base that belong to other nodes. Checks and samples at most a few
    /// thousand nodes of each type.
    pub(crate) fn new(kb: &Kb) -> Self {
        let types = (0..kb.types().len()).map(|at| TypeId(at as u16));
        Self(types.flat_map(|rows| parts(kb, rows)).collect())
    }

    /// Returns the text of a node and of all rows that belong to it; empty if the node does not
    /// exist. O(rows that belong to it).
    pub(crate) fn of<'a>(&self, kb: &'a Kb, node: NodeId) -> Cow<'a, str> {
        self.with_rows(kb, node, |_| true)
    }

    /// As [`of`](Self::of), without the rows that may be answers themselves.
    pub(crate) fn of_whole<'a>(&self, kb: &'a Kb, node: NodeId) -> Cow<'a, str> {
        self.with_rows(kb, node, |part| !part.are_candidates)
    }

    fn with_rows<'a>(
        &self,
        kb: &'a Kb,
        node: NodeId,
        is_part: impl Fn(&Part) -> bool,
    ) -> Cow<'a, str> {
        let mut document = Cow::Borrowed(kb.text(node));
        let kind = kb.node_type(node);
        for part in self.0.iter().filter(|part| part.owner == kind && is_part(part)) {
            let rows = kb.neighbors(node, part.relation, part.direction);
            let rows = rows.iter().filter(|row| kb.node_type(**row) == part.rows);
            let texts = rows
                .take(MAX_ROWS)
                .flat_map(|&row| part.fields.iter().filter_map(move |field| kb.field(row, *field)));
            for text in texts {
                if document.len() + text.len() > MAX_BYTES {
                    break;
                }
                let document = document.to_mut();
                document.push('\n');
                document.push_str(text);
            }
        }
        document
    }
}

/// Returns how rows of a type belong to nodes of other types; empty if the rows have names or no
/// texts.
fn parts(kb: &Kb, rows: TypeId) -> Vec<Part> {
    let nodes = kb.nodes_of_type(rows);
    if nodes.is_empty() || !nodes.iter().take(CHECKED_NAMES).all(|&node| has_no_name(kb, node)) {
        return Vec::new();
    }
    let mut owners: Vec<(TypeId, RelationId, Direction)> = Vec::new();
    for tuple in kb.tuples().iter().filter(|tuple| tuple.source != tuple.target) {
        if tuple.edges > nodes.len() as u64 {
            continue;
        }
        if tuple.source == rows {
            owners.push((tuple.target, tuple.relation, Direction::In));
        } else if tuple.target == rows {
            owners.push((tuple.source, tuple.relation, Direction::Out));
        }
    }
    let values = kb.value_types();
    owners.retain(|(owner, ..)| !values.contains(owner));
    let is_people = |kind: TypeId| is_of_people(kb.type_name(kind));
    if owners.iter().any(|(owner, ..)| !is_people(*owner)) {
        owners.retain(|(owner, ..)| !is_people(*owner));
    }
    if owners.is_empty() {
        return Vec::new();
    }
    let texts = sample(kb, rows).into_iter().filter(|own| own.kind == ColumnKind::Text);
    let fields: Vec<FieldId> = texts.map(|own| own.field).collect();
    if fields.is_empty() {
        return Vec::new();
    }
    let part = |(owner, relation, direction)| Part {
        owner,
        relation,
        direction,
        rows,
        fields: fields.clone(),
        are_candidates: kb.candidate_types().contains(&rows),
    };
    owners.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use agent_kb::{KbMeta, KbWriter};

    use super::*;

    #[test]
    fn texts_of_rows_without_names_belong_to_what_they_link_to() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = KbWriter::create(dir.path()).unwrap();
        let mut add = |key: &str, kind: &str, name: &str, text: &str| {
            let fields = [("text".to_owned(), text.to_owned())];
            writer.push_keyed_node(key, kind, name, text, &fields).unwrap()
        };
        let long =
            |what: &str| format!("{what}, and nothing else that anybody could say of it in words");
        let film = add("f1", "film", "Moss", "A film.");
        let user = add("u1", "user", "Ada Lind", "A user.");
        let reviews = ["slow", "quiet", "loud"].map(|word| add(word, "review", word, &long(word)));
        // A poster has a name, so its text is its own.
        let poster = add("p1", "poster", "Green", &long("moss"));
        for review in reviews {
            writer.push_edge(review, "of_film", film).unwrap();
            writer.push_edge(review, "by_user", user).unwrap();
        }
        writer.push_edge(poster, "of_film", film).unwrap();
        let meta = KbMeta {
            title: "t".into(),
            licence: "none".into(),
            candidate_types: Vec::new(),
            ..KbMeta::default()
        };
        writer.finish(&meta, &mut |_, _| true).unwrap();
        let kb = Kb::open(dir.path()).unwrap();
        let documents = Documents::new(&kb);
        let document = documents.of(&kb, film);
        assert!(document.starts_with("A film.\n"));
        assert_eq!(document.lines().count(), 4, "{document}");
        assert_eq!(documents.of_whole(&kb, film), "A film.", "reviews may be answers");
        // Reviews link to films as well, so they do not belong to people.
        assert_eq!(documents.of(&kb, user), "A user.");
        assert_eq!(documents.of(&kb, reviews[0]), long("slow"));
    }
}
