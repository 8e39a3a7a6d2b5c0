//! Renders documents of an installed base of the benchmark in the four variants of the reference:
//! with or without relations, plain or compact. Reads only the base.
//!
//! The reference is `get_doc_info` and `get_rel_info` of `stark_qa` 1.1.0 with their defaults. Its
//! graph is undirected, so relations are followed in both directions, unless [`Origin::one_way`] is
//! set. If a base was imported in mode [`crate::stark::Mode::Exact`], its documents list all stored
//! "also viewed" products; the reference hides most of them.

use crate::stark::{Kind, Origin, python};
use agent_kb::{Direction, Kb, Neighbors, NodeId, RelationId};

/// Renders the documents of one base.
#[derive(Clone, Debug)]
pub struct Documents<'a> {
    kb: &'a Kb,
    kind: Kind,
    direction: Direction,
    /// Relations of the base, in the order of the reference.
    relations: Vec<(&'static str, RelationId)>,
    /// For each type of the base, its type number in the reference; the numbers determine the order
    /// in which types are listed.
    type_numbers: Vec<usize>,
}

impl<'a> Documents<'a> {
    /// Creates a renderer for a base with the given origin.
    pub fn new(kb: &'a Kb, origin: &Origin) -> Documents<'a> {
        let (kind, direction) = (origin.kind, origin.direction());
        let relations = kind.relations().iter();
        let relations = relations.filter_map(|name| Some((*name, kb.relation_id(name)?))).collect();
        let number = |name: &String| kind.types().iter().position(|known| known == name);
        let type_numbers = kb.types().iter().map(|name| number(name).unwrap_or(usize::MAX));
        Documents { kb, kind, direction, relations, type_numbers: type_numbers.collect() }
    }

    /// Renders the document of a node; an empty text if the node does not exist. Time: linear in
    /// the text, the neighbours and, for a paper, the neighbours of its neighbours.
    pub fn document(&self, node: NodeId, with_relations: bool, compact: bool) -> String {
        let mut text = self.kb.text(node).to_string();
        let has_more = match self.kind {
            Kind::Amazon => self.type_name(node) == "product",
            Kind::Mag => with_relations && self.type_name(node) == "paper",
            Kind::Prime => with_relations,
        };
        // The reference never compacts brands, categories and colours.
        if self.kind == Kind::Amazon && !has_more {
            return text;
        }
        if with_relations && has_more {
            text += &self.relations(node);
        }
        if compact { self::compact(&text) } else { text }
    }

    /// Renders the relations of a node; an empty text if the node has none. The reference fails on
    /// brands; here brands have no relations.
    pub fn relations(&self, node: NodeId) -> String {
        let text = match self.kind {
            Kind::Amazon => self.products(node),
            Kind::Mag => self.scholarly(node),
            Kind::Prime => self.biomedical(node),
        };
        match (text.is_empty(), self.kind) {
            (true, _) => text,
            (false, Kind::Prime) => format!("- relations:{text}"),
            (false, _) => format!("- relations:\n{text}"),
        }
    }

    fn type_name(&self, node: NodeId) -> &str {
        self.kb.type_name(self.kb.node_type(node))
    }

    fn neighbors(&self, node: NodeId, relation: &str) -> Neighbors<'a> {
        let relation = self.relations.iter().find(|(name, _)| *name == relation);
        let id = relation.map_or(RelationId(u16::MAX), |(_, id)| *id);
        self.kb.neighbors(node, id, self.direction)
    }

    /// Whether an author, institution or field of study has no name: the stored name is empty,
    /// while the text contains `Unknown`.
    fn is_nameless(&self, node: NodeId) -> bool {
        let first = || self.kb.text(node).lines().next().unwrap_or_default();
        self.kb.name(node).is_empty() && first().ends_with(": Unknown")
    }

    fn products(&self, node: NodeId) -> String {
        let mut text = String::new();
        if self.type_name(node) != "product" {
            return text;
        }
        for (relation, label) in [("also_buy", "purchased"), ("also_view", "viewed")] {
            let products = self.neighbors(node, relation);
            if !products.is_empty() {
                text += &format!("  products also {label}: \n");
            }
            for (number, &product) in (1..).zip(products.iter()) {
                text += &format!("#{number}: {}\n", self.kb.name(product));
            }
        }
        if let Some(&brand) = self.neighbors(node, "has_brand").first() {
            text += &format!("  brand: {}\n", self.kb.name(brand));
        }
        text
    }

    /// Returns the relations over which a node has neighbours, each with these neighbours.
    fn links(&self, node: NodeId) -> impl Iterator<Item = (&'static str, Neighbors<'a>)> {
        let links = self.relations.iter();
        let links =
            links.map(move |(name, id)| (*name, self.kb.neighbors(node, *id, self.direction)));
        links.filter(|(_, others)| !others.is_empty())
    }

    fn scholarly(&self, node: NodeId) -> String {
        let mut text = String::new();
        for (relation, others) in self.links(node) {
            let shown = others.iter().filter_map(|&other| {
                let name = self.kb.name(other);
                match self.type_name(other) {
                    "paper" => Some(format!("\"{name}\"")),
                    // A nameless node is omitted; with a nameless author, the author's institutions
                    // are omitted too.
                    _ if self.is_nameless(other) => None,
                    "author" => Some(self.affiliated(other, name)),
                    _ => Some(name.to_string()),
                }
            });
            let shown: Vec<String> = shown.collect();
            text += &format!("\n{}: ({}),", relation.replace("___", " "), shown.join(", "));
        }
        text
    }

    /// Renders the name of an author, followed by the names of the author's institutions;
    /// institutions without a name are left out.
    fn affiliated(&self, author: NodeId, name: &str) -> String {
        let institutions = self.neighbors(author, "author___affiliated_with___institution");
        let named = institutions.iter().filter(|&&institution| !self.is_nameless(institution));
        let names: Vec<&str> = named.map(|&institution| self.kb.name(institution)).collect();
        if names.is_empty() { name.to_string() } else { format!("{name} ({})", names.join(", ")) }
    }

    fn biomedical(&self, node: NodeId) -> String {
        let mut text = String::new();
        for (relation, others) in self.links(node) {
            text += &format!("\n  {}: {{", relation.replace(' ', "_"));
            let number = |node: &NodeId| {
                let type_id = usize::from(self.kb.node_type(*node).0);
                self.type_numbers.get(type_id).copied().unwrap_or(usize::MAX)
            };
            for type_number in set_order(others.iter().map(number)) {
                let same = others.iter().filter(|other| number(other) == type_number);
                let names: Vec<&str> = same.map(|&other| self.kb.name(other)).collect();
                let type_name = self.kind.types().get(type_number).copied().unwrap_or_default();
                text += &format!("{type_name}: ({}),", names.join(", "));
            }
            text.push('}');
        }
        text
    }
}

/// Returns the distinct numbers in the order in which Python iterates over a set of them: by slot
/// in its hash table. The table has 8 slots for up to 4 numbers, so that 8 comes before 1. For more
/// numbers the table has 32 slots, so that type numbers ascend.
fn set_order(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut distinct: Vec<usize> = Vec::new();
    for number in numbers {
        if !distinct.contains(&number) {
            distinct.push(number);
        }
    }
    if distinct.len() > 4 {
        distinct.sort_unstable();
        return distinct;
    }
    let mut places = [None; 8];
    for number in distinct {
        let mut place = number % 8;
        // Four numbers never fill the table, and the probing reaches every slot.
        while places[place].is_some() {
            place = (place * 5 + 1) % 8;
        }
        places[place] = Some(number);
    }
    places.into_iter().flatten().collect()
}

/// Converts a text to one line: line ends become full stops; bullets and repeated spaces are
/// removed. The reference is `compact_text` of `stark_qa` 1.1.0, including its defects. Time:
/// linear in the length.
pub fn compact(text: &str) -> String {
    let text = text.replace('\n', ". ").replace('\r', "").replace("- ", "");
    let text = text.replace(": .", ":").replace(":.", ":");
    let mut single = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if python::is_space(c) && chars.next_if(|c| python::is_space(*c)).is_some() {
            while chars.next_if(|c| python::is_space(*c)).is_some() {}
            single.push(' ');
        } else {
            single.push(c);
        }
    }
    single.replace(".. ", ". ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stark::Mode;
    use agent_kb::{KbMeta, KbWriter};

    #[test]
    fn types_come_in_the_order_of_a_python_set() {
        let order = |numbers: &[usize]| set_order(numbers.iter().copied());
        assert_eq!(order(&[2, 4, 7, 8, 2]), [8, 2, 4, 7]);
        assert_eq!(order(&[9, 1]), [9, 1]);
        assert_eq!(order(&[1, 9]), [1, 9]);
        assert_eq!(order(&[0, 8, 1]), [0, 8, 1]);
        assert_eq!(order(&[9, 8, 7, 4, 2]), [2, 4, 7, 8, 9]);
    }

    /// Builds a base from nodes (type, name and text) and edges.
    fn base(
        nodes: &[(&str, &str, &str)],
        edges: &[(NodeId, &str, NodeId)],
    ) -> (tempfile::TempDir, Kb) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kb");
        let mut writer = KbWriter::create(&path).unwrap();
        for (node_type, name, text) in nodes {
            writer.push_node(node_type, name, text, &[]).unwrap();
        }
        for (source, relation, target) in edges {
            writer.push_edge(*source, relation, *target).unwrap();
        }
        let meta = KbMeta::default();
        writer.finish(&meta, &mut |_, _| true).unwrap();
        let kb = Kb::open(&path).unwrap();
        (dir, kb)
    }

    fn origin(kind: Kind, one_way: bool) -> Origin {
        Origin { kind, mode: Mode::Faithful, derived_tenth: false, one_way }
    }

    #[test]
    fn pairs_stored_both_ways_are_followed_as_stored() {
        let gene = |name| ("gene/protein", name, "");
        let (_dir, kb) = base(&[gene("A"), gene("B")], &[(0, "ppi", 1), (1, "carrier", 0)]);
        let relations =
            |one_way, node| Documents::new(&kb, &origin(Kind::Prime, one_way)).relations(node);
        // stark_qa 1.1.0 on edge_index [[0, 1], [1, 0]] with two types.
        assert_eq!(relations(true, 0), "- relations:\n  ppi: {gene/protein: (B),}");
        assert_eq!(relations(true, 1), "- relations:\n  carrier: {gene/protein: (A),}");
        assert!(relations(false, 1).contains("ppi: {gene/protein: (A),}"));
    }

    #[test]
    fn an_empty_name_is_none_that_is_missing() {
        let writes = "author___writes___paper";
        let (_dir, kb) = base(
            &[
                ("paper", "P", " - paper title: P\n"),
                ("author", "", "- author name: \n"),
                ("author", "Ada", "- author name: Ada\n"),
                ("author", "", "- author name: Unknown\n- author paper count: 3\n"),
                ("institution", "", " - institution: \n"),
                ("institution", "", " - institution: Unknown\n"),
            ],
            &[
                (1, writes, 0),
                (2, writes, 0),
                (3, writes, 0),
                (2, "author___affiliated_with___institution", 4),
                (3, "author___affiliated_with___institution", 5),
            ],
        );
        let documents = Documents::new(&kb, &origin(Kind::Mag, false));
        let expected = "- relations:\n\nauthor writes paper: (, Ada ()),";
        assert_eq!(documents.relations(0), expected);
        let expected = "- relations:\n\nauthor affiliated_with institution: (),";
        assert!(documents.relations(3).starts_with(expected), "{}", documents.relations(3));
    }

    #[test]
    fn compacting_follows_the_reference() {
        assert_eq!(compact("- a:\n- b - c\r\n\n\u{1f}\u{a0}d.\n"), "a: b c. . d. ");
        assert_eq!(compact("x \u{a0}y z.. \n"), "x y z. . ");
    }
}
