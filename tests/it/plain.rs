//! Plain graph questions: the graph alone answers them, so their answers are known exactly and
//! belong before everything else.
//!
//! [`questions`] makes such questions for any base: one or two steps from whole names that no other
//! node has, worded with the names of types and relations and a handful of patterns. Answers are
//! found by looking at every edge. A sample of each kind holds floors; `AGENT_TEST_HOME` names a
//! home with `products`, `biomed` and `papers` indexed, and `AGENT_PLAIN_OUT` a directory into which
//! their questions are written in the format of `qa.csv`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write,
    fs,
};

use agent::{
    kb::{Direction, Kb, NodeId, RelationId, TypeId},
    words::name_words,
};
use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use crate::support::real_bases;

/// Questions of each base.
const QUESTIONS: usize = 60;
/// Answers of a question at most.
const MAX_ANSWERS: usize = 50;
/// Words of a name at most.
const MAX_NAME_WORDS: usize = 20;
/// Draws for each question that is wanted.
const DRAWS: usize = 200;

/// A question with its answers, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) text: String,
    pub(crate) answers: Vec<NodeId>,
}

/// A relation as it leads from one type to another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    from: TypeId,
    relation: RelationId,
    direction: Direction,
    to: TypeId,
}

impl Link {
    fn reversed(self) -> Link {
        let direction = match self.direction {
            Direction::Out => Direction::In,
            Direction::In => Direction::Out,
            Direction::Any => Direction::Any,
        };
        Link { from: self.to, to: self.from, direction, ..self }
    }

    /// The nodes of its end that it joins to some nodes.
    fn reached(self, kb: &Kb, nodes: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        let neighbors = |&node| kb.neighbors(node, self.relation, self.direction).into_vec();
        let found = nodes.iter().flat_map(neighbors);
        found.filter(|&node| kb.node_type(node) == self.to).collect()
    }
}

/// Draws questions about one base.
struct Maker<'a> {
    kb: &'a Kb,
    links: Vec<Link>,
    /// Nodes by their name in small letters.
    named: HashMap<String, u32>,
    rng: ChaCha8Rng,
}

impl Maker<'_> {
    fn new(kb: &Kb, seed: u64) -> Maker<'_> {
        let mut links = Vec::new();
        for tuple in kb.tuples() {
            let (from, relation, to) = (tuple.source, tuple.relation, tuple.target);
            if from == to {
                links.push(Link { from, relation, direction: Direction::Any, to });
            } else {
                let out = Link { from, relation, direction: Direction::Out, to };
                links.extend([out, out.reversed()]);
            }
        }
        let mut named: HashMap<String, u32> = HashMap::new();
        for node in 0..kb.n_nodes() {
            *named.entry(folded(kb.name(node))).or_default() += 1;
        }
        Maker { kb, links, named, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    fn type_words(&self, kind: TypeId) -> String {
        self.kb.type_name(kind).replace('_', " ")
    }

    /// How a question says a link from what it asks for: the relation's own name where several
    /// relations join the two types, otherwise without the names of the types in it.
    fn says(&self, link: Link) -> String {
        let name = self.kb.relation_name(link.relation).replace('_', " ");
        let same = |other: &&Link| (other.from, other.to) == (link.from, link.to);
        if self.links.iter().filter(same).count() > 1 && link.from != link.to {
            return name;
        }
        let types = [link.from, link.to].map(|kind| self.type_words(kind));
        let own = |word: &&str| !types.iter().any(|kind| kind.split(' ').any(|one| one == *word));
        let kept: Vec<&str> = name.split(' ').filter(own).collect();
        if kept.is_empty() { name.clone() } else { kept.join(" ") }
    }

    /// A neighbour by a link, if its name is short and of no other node.
    fn neighbor(&mut self, node: NodeId, link: Link) -> Option<NodeId> {
        let all: Vec<NodeId> = link.reached(self.kb, &BTreeSet::from([node])).into_iter().collect();
        all.choose(&mut self.rng).copied()
    }

    fn is_clear(&self, node: NodeId) -> bool {
        let name = self.kb.name(node);
        let n_words = name_words(name).count();
        let single = self.named.get(&folded(name)) == Some(&1);
        single && (1..=MAX_NAME_WORDS).contains(&n_words) && !name.contains('"')
    }

    /// A link from a type, each relation as likely as another.
    fn link_from(&mut self, kind: TypeId) -> Option<Link> {
        let own: Vec<Link> = self.links.iter().filter(|link| link.from == kind).copied().collect();
        own.choose(&mut self.rng).copied()
    }

    /// One step from a name.
    fn one_step(&mut self, node: NodeId, kind: TypeId) -> Option<Plain> {
        let link = self.link_from(kind)?;
        let name = self.neighbor(node, link)?;
        let (asked, said, of) = (self.type_words(kind), self.says(link), self.type_words(link.to));
        let same = |other: &&Link| (other.from, other.to) == (link.from, link.to);
        let alone = self.links.iter().filter(same).count() == 1;
        let text = match self.rng.random_range(0..3) {
            _ if link.to == kind => format!("other {asked}s {said} with {}", self.quoted(name)),
            0 if alone => format!("{asked}s of the {of} {}", self.quoted(name)),
            1 => format!("Which {asked}s {said} the {of} {}?", self.quoted(name)),
            _ => format!("Find {asked}s that {said} {of} {}.", self.quoted(name)),
        };
        self.plain(text, &[(name, vec![link.reversed()])])
    }

    /// Two steps from a name.
    fn two_steps(&mut self, node: NodeId, kind: TypeId) -> Option<Plain> {
        let first = self.link_from(kind)?;
        let middle = self.neighbor(node, first)?;
        let mut second = self.link_from(first.to)?;
        let back = self.rng.random_range(0..2) == 0 && first.to != kind;
        if back {
            second = first.reversed();
        }
        let name = self.neighbor(middle, second)?;
        let (asked, between) = (self.type_words(kind), self.type_words(first.to));
        let (one, two) = (self.says(first), self.says(second));
        let of = self.type_words(second.to);
        let text = if second == first.reversed() {
            format!("other {asked}s {one} the same {between} as the {of} {}", self.quoted(name))
        } else {
            format!("{asked}s that {one} a {between} that {two} the {of} {}", self.quoted(name))
        };
        self.plain(text, &[(name, vec![second.reversed(), first.reversed()])])
    }

    /// One step from each of two names.
    fn two_names(&mut self, node: NodeId, kind: TypeId) -> Option<Plain> {
        let (first, second) = (self.link_from(kind)?, self.link_from(kind)?);
        let (one, other) = (self.neighbor(node, first)?, self.neighbor(node, second)?);
        if one == other {
            return None;
        }
        let said = |maker: &Self, link: Link, name| {
            format!("{} the {} {}", maker.says(link), maker.type_words(link.to), maker.quoted(name))
        };
        let (a, b) = (said(self, first, one), said(self, second, other));
        let text = format!("{}s that {a} and {b}", self.type_words(kind));
        self.plain(text, &[(one, vec![first.reversed()]), (other, vec![second.reversed()])])
    }

    fn quoted(&self, node: NodeId) -> String {
        format!("\"{}\"", self.kb.name(node))
    }

    /// The question with the nodes that all walks from its names reach; none if a name is of
    /// several nodes, or there are no answers or too many.
    fn plain(&self, text: String, walks: &[(NodeId, Vec<Link>)]) -> Option<Plain> {
        let names: BTreeSet<NodeId> = walks.iter().map(|walk| walk.0).collect();
        let mut answers: Option<BTreeSet<NodeId>> = None;
        for (name, links) in walks {
            let start = BTreeSet::from([*name]);
            let set = links.iter().fold(start, |nodes, link| link.reached(self.kb, &nodes));
            answers = Some(match answers {
                Some(before) => before.intersection(&set).copied().collect(),
                None => set,
            });
        }
        let answers: Vec<NodeId> = answers?.difference(&names).copied().collect();
        let clear = names.iter().all(|&name| self.is_clear(name));
        let fits = clear && (1..=MAX_ANSWERS).contains(&answers.len());
        fits.then_some(Plain { text, answers })
    }
}

fn folded(name: &str) -> String {
    name_words(name).map(|(_, word)| word.into_owned()).collect::<Vec<_>>().join(" ")
}

/// Plain questions of a base, each once, at most so many, with the seed: a third each of one step,
/// of two steps, and of two names.
pub(crate) fn questions(kb: &Kb, seed: u64, n: usize) -> Vec<Plain> {
    let mut maker = Maker::new(kb, seed);
    let types: Vec<TypeId> = kb.candidate_types().to_vec();
    let mut found: BTreeMap<String, Plain> = BTreeMap::new();
    let mut order = Vec::new();
    for draw in 0..n * DRAWS {
        if order.len() == n {
            break;
        }
        let kind = *types.choose(&mut maker.rng).unwrap();
        let node = *kb.nodes_of_type(kind).choose(&mut maker.rng).unwrap();
        let plain = match (order.len() + draw / DRAWS) % 3 {
            0 => maker.one_step(node, kind),
            1 => maker.two_steps(node, kind),
            _ => maker.two_names(node, kind),
        };
        if let Some(plain) = plain
            && !found.contains_key(&plain.text)
        {
            order.push(plain.text.clone());
            found.insert(plain.text.clone(), plain);
        }
    }
    order.iter().map(|text| found[text].clone()).collect()
}

/// The questions in the format of `qa.csv`.
fn to_csv(questions: &[Plain]) -> String {
    let mut csv = String::from("id,query,answer_ids\n");
    for (at, plain) in questions.iter().enumerate() {
        let text = plain.text.replace('"', "\"\"");
        let _ = writeln!(csv, "{at},\"{text}\",\"{:?}\"", plain.answers);
    }
    csv
}

#[test]
fn questions_of_real_bases_are_written() {
    let Some(out) = std::env::var_os("AGENT_PLAIN_OUT").map(std::path::PathBuf::from) else {
        return;
    };
    for (base, indexed) in real_bases() {
        let questions = questions(&indexed.kb, 1, QUESTIONS);
        eprintln!("{}: {} questions", base.name, questions.len());
        fs::write(out.join(format!("{}.csv", base.name)), to_csv(&questions)).unwrap();
    }
}
