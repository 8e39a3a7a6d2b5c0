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
    path::Path,
    sync::Arc,
};

use agent::{
    bundle::{
        Bundle,
        conditions::Conditions,
        reading::{Phrasings, read_or_guess},
    },
    dataset::{
        Home,
        sample::{SampleKind, SampleOptions, generate},
    },
    index::IndexedBase,
    infer::{self, BundleRetriever, Runtime},
    kb::{Direction, Hop, Kb, NodeId, Path as KbPath, RelationId, TypeId},
    retrieve::Detail,
    sandbox::Workers,
    words::name_words,
};
use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::support::{World, real_bases};

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
    /// The relations that lead from each name to the answers, with their directions.
    pub(crate) metapaths: Vec<(NodeId, Vec<(RelationId, Direction)>)>,
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
        let neighbors = |&node| kb.neighbors(node, self.relation, self.direction).into_owned();
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

    /// A neighbour by a link.
    fn neighbor(&mut self, node: NodeId, link: Link) -> Option<NodeId> {
        let all: Vec<NodeId> = link.reached(self.kb, &BTreeSet::from([node])).into_iter().collect();
        all.choose(&mut self.rng).copied()
    }

    /// Whether a node's name is short and of no other node.
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

    /// The question with the nodes that all metapaths from its names reach; none if a name is of
    /// several nodes, or there are no answers or too many.
    fn plain(&self, text: String, metapaths: &[(NodeId, Vec<Link>)]) -> Option<Plain> {
        let names: BTreeSet<NodeId> = metapaths.iter().map(|metapath| metapath.0).collect();
        let mut answers: Option<BTreeSet<NodeId>> = None;
        for (name, links) in metapaths {
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
        let steps = |links: &Vec<Link>| links.iter().map(|l| (l.relation, l.direction)).collect();
        let metapaths = metapaths.iter().map(|(name, links)| (*name, steps(links))).collect();
        fits.then_some(Plain { text, answers, metapaths })
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

/// Writes films of directors, each with an actor, and questions about actors, so that nothing but
/// the base says what a director is. One film is named like another with a word more.
fn write_films(dir: &Path) {
    let directors = ["Ada Moravec", "Bela Quist", "Cyrus Thorne", "Dora Valtin", "Egon Wexley"];
    let actors = ["Fay Lindgren", "Gus Pemberton", "Hana Okafor"];
    let begins = ["Silent", "Golden", "Broken", "Hidden", "Frozen", "Crimson", "Distant", "Empty"];
    let ends = ["Harbor", "Garden", "Mirror", "River", "Tower"];
    let (mut nodes, mut edges) = (String::new(), String::from("src_id\trelation\tdst_id\n"));
    let mut node = |id: usize, kind: &str, name: &str, text: &str| {
        let _ = writeln!(
            nodes,
            "{{\"id\":{id},\"type\":\"{kind}\",\"name\":\"{name}\",\"details\":{{\"plot\":\"{text}\"}}}}"
        );
    };
    let n_films = begins.len() * ends.len();
    for at in 0..n_films {
        let name = format!("The {} {}", begins[at % begins.len()], ends[at / begins.len()]);
        node(at, "film", &name, "a director looks for other films about a silent harbor");
        let _ = writeln!(edges, "{at}\tdirected_by\t{}", n_films + 1 + at % directors.len());
        let _ =
            writeln!(edges, "{at}\tstars\t{}", n_films + 1 + directors.len() + at % actors.len());
    }
    node(n_films, "film", "The Silent Harbor Returns", "the silent harbor, and its director");
    let _ = writeln!(edges, "{n_films}\tdirected_by\t{}", n_films + 2);
    for (at, name) in directors.iter().chain(&actors).enumerate() {
        node(n_films + 1 + at, "person", name, "");
    }
    let mut queries = String::from("id,query,answer_ids\n");
    for at in 0..24 {
        let (actor, begin) = (at % actors.len(), at % begins.len());
        let fits = |film: &usize| film % actors.len() == actor && film % begins.len() == begin;
        let answers: Vec<usize> = (0..n_films).filter(fits).collect();
        let (actor, begin) = (actors[actor], begins[begin].to_lowercase());
        let _ = writeln!(queries, "{at},something {begin} starring {actor},\"{answers:?}\"");
    }
    write_base(dir, [nodes, edges, queries], "film", [12, 20, 24]);
}

/// Writes nodes, edges and queries, the type of the answers, and where the three splits end.
fn write_base(dir: &Path, files: [String; 3], candidates: &str, ends: [usize; 3]) {
    let ids = |from: usize, to: usize| (from..to).map(|id| format!("{id}\n")).collect::<String>();
    let [nodes, edges, queries] = files;
    fs::create_dir_all(dir.join("split")).unwrap();
    for (file, text) in [
        ("nodes.jsonl", nodes),
        ("edges.tsv", edges),
        ("qa.csv", queries),
        ("dataset.toml", format!("title = \"Made\"\ncandidate_types = [\"{candidates}\"]\n")),
        ("split/train.index", ids(0, ends[0])),
        ("split/val.index", ids(ends[0], ends[1])),
        ("split/test.index", ids(ends[1], ends[2])),
    ] {
        fs::write(dir.join(file), text).unwrap();
    }
}

/// Imports and indexes a directory.
fn indexed(world: &World, dir: &Path) -> IndexedBase {
    world.run(["data", "import", "--name", "made", "--from", &dir.display().to_string()]).done();
    world.run(["index", "made"]).done();
    let base = Home::new(world.path("home")).get("made").unwrap();
    IndexedBase::open(&base.kb_dir(), &base.index_dir(), "made").unwrap()
}

/// Answers of a plain question by the names of types and relations alone.
fn answers(base: &IndexedBase, text: &str) -> Option<Vec<NodeId>> {
    let conditions = Conditions::read(base, text);
    read_or_guess(base, &conditions, &Phrasings::default()).0.map(|reading| reading.answers)
}

#[test]
fn names_are_spelled_out_whole_and_the_longest_is_meant() {
    let world = World::new();
    write_films(&world.path("films"));
    let base = indexed(&world, &world.path("films"));
    let nodes = |text: &str| -> Vec<Vec<NodeId>> {
        base.entities.exact_mentions(text).into_iter().map(|one| one.nodes).collect()
    };
    assert_eq!(nodes("the director of The Silent Harbor Returns"), [[40]]);
    assert_eq!(nodes("films like the silent harbor"), [[0]], "two words are a name in any case");
    assert_eq!(nodes("with Gus Pemberton, and by Ada Moravec"), [[47], [41]], "in order");
    assert_eq!(nodes("The Silent Harbr, Moravec"), Vec::<Vec<NodeId>>::new(), "no typo, no part");
    let quoted = base.entities.exact_mentions("films of \"ada moravec\" and Fay Lindgren");
    assert_eq!(quoted.iter().map(|one| one.quoted).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn words_of_the_schema_alone_say_which_way_to_go() {
    let world = World::new();
    write_films(&world.path("films"));
    let base = indexed(&world, &world.path("films"));
    let of_director = vec![5, 10, 15, 20, 25, 30, 35];
    for asked in [
        "other films by the director of The Silent Harbor",
        "films that share a director with The Silent Harbor",
    ] {
        assert_eq!(answers(&base, asked), Some(of_director.clone()), "{asked}");
    }
    let both = "films directed by Ada Moravec and starring Fay Lindgren";
    assert_eq!(answers(&base, both), Some(vec![0, 15, 30]));
    for asked in ["gloomy films by the director of The Silent Harbor", "films by a director"] {
        assert_eq!(answers(&base, asked), None, "{asked}");
    }
}

/// Places that border and trade with each other, and what kind they are of.
fn write_places(dir: &Path) {
    let names = ["Aldmoor", "Brackwell", "Corvane", "Dunmere", "Elsworth", "Fenholt"];
    let kinds = ["Harbour Town", "Market Town"];
    let places = names.iter().map(|name| ("place", name));
    let nodes = places.chain(kinds.iter().map(|name| ("place_kind", name))).enumerate();
    let nodes = nodes.map(|(id, (kind, name))| {
        format!("{{\"id\":{id},\"type\":\"{kind}\",\"name\":\"{name}\",\"details\":{{}}}}\n")
    });
    let edges = "src_id\trelation\tdst_id\n0\ttrades_with\t1\n1\tborders\t2\n0\tborders\t3\n\
                 3\ttrades_with\t4\n3\tborders\t5\n1\tof_kind\t6\n1\tof_kind\t7\n";
    let queries = "id,query,answer_ids\n0,a harbour town,[1]\n1,a market town,[1]\n2,a town,[1]\n";
    write_base(dir, [nodes.collect(), edges.to_owned(), queries.to_owned()], "*", [1, 2, 3]);
}

#[test]
fn steps_are_taken_from_the_name_back_to_what_is_asked_for() {
    let world = World::new();
    write_places(&world.path("places"));
    let base = indexed(&world, &world.path("places"));
    for (asked, right) in [
        ("places that border a place that trades with the place \"Aldmoor\"", 2),
        ("places that trade with a place that borders the place \"Aldmoor\"", 4),
        ("other places that border the same place as the place \"Aldmoor\"", 5),
        ("places that border the place \"Aldmoor\"", 3),
        ("other place kinds of the same place as the place kind \"Market Town\"", 6),
        ("places of the place kind \"Market Town\"", 1),
    ] {
        assert_eq!(answers(&base, asked), Some(vec![right]), "{asked}");
    }
    // The first letter of a text is a capital in any case.
    let is_marked = |text: &str| base.entities.exact_mentions(text)[0].marked;
    assert!(is_marked("what borders Aldmoor") && is_marked("ALDMOOR borders what"));
    assert!(!is_marked("Aldmoor borders what"));
}

/// Parts of a body.
fn write_body(dir: &Path) {
    let names = ["Hand", "Finger", "Arm", "Nail", "Trunk"];
    let nodes = names.iter().enumerate().map(|(id, name)| {
        format!("{{\"id\":{id},\"type\":\"organ\",\"name\":\"{name}\",\"details\":{{}}}}\n")
    });
    let edges = "src_id\trelation\tdst_id\n1\tpart_of\t0\n0\tpart_of\t2\n3\tpart_of\t1\n";
    let queries = "id,query,answer_ids\n0,a finger,[1]\n1,an arm,[2]\n2,a nail,[3]\n";
    write_base(dir, [nodes.collect(), edges.to_owned(), queries.to_owned()], "*", [1, 2, 3]);
}

#[test]
fn the_order_of_words_says_the_direction_of_a_relation_within_a_type() {
    let world = World::new();
    write_body(&world.path("body"));
    let base = indexed(&world, &world.path("body"));
    for (asked, right, other) in [
        ("parts of the Hand", 1, 2),
        ("what is the Hand a part of", 2, 1),
        ("what does the Hand contain", 1, 2),
        ("which organ contains the Hand", 2, 1),
        ("of which organ is the Hand a piece", 2, 1),
    ] {
        let conditions = Conditions::read(&base, asked);
        let reading = read_or_guess(&base, &conditions, &Phrasings::default()).0.expect(asked);
        assert_eq!(reading.answers, [right], "{asked}");
        let ranked: Vec<NodeId> =
            reading.apply(&[(4, 1.0), (other, 0.5)]).into_iter().map(|pair| pair.0).collect();
        assert_eq!(ranked, [right, other, 4], "{asked}: the other direction follows");
    }
}

#[test]
fn words_that_nothing_explains_leave_likely_answers() {
    let world = World::new();
    write_body(&world.path("body"));
    let base = indexed(&world, &world.path("body"));
    let likely =
        |text: &str| read_or_guess(&base, &Conditions::read(&base, text), &Phrasings::default()).1;
    let vague = likely("surgeons sometimes amputate parts of the Hand");
    let score = |node| vague.get(node).unwrap_or(0.0);
    assert!(score(1) > score(2) && score(2) > 0.0 && score(1) < 0.5, "{vague:?}");
    assert_eq!(vague.get(0), None, "a named node is not an answer");
    assert!(likely("surgeons sometimes amputate").as_slice().is_empty(), "nothing is named");
    // One such word beside a likely metapath of one step leaves its answers first.
    assert_eq!(answers(&base, "bony parts of the Hand"), Some(vec![1]));
    assert_eq!(answers(&base, "bony bits that surgeons love of the Hand"), None);
}

#[test]
fn the_other_films_of_a_director_stand_before_all_else() {
    let world = World::new();
    write_films(&world.path("films"));
    let source = world.path("films").display().to_string();
    let run = ["optimize", "--dataset", &source, "--steps", "2", "--json"];
    let line = world.run(run).json_lines().pop().unwrap();
    let bundle = line["bundle"].as_str().unwrap();
    // The Silent Harbor is film 0; those of its director are every fifth of 40.
    let right = [5, 10, 15, 20, 25, 30, 35];
    let asked = "other films by the director of The Silent Harbor";
    let (file, run) = (world.path("asked.csv"), world.path("out.trec"));
    fs::write(&file, format!("id,query,answer_ids\n0,{asked},\"{right:?}\"\n")).unwrap();
    let (file, run) = (file.display().to_string(), run.display().to_string());
    let system = format!("bundle:{bundle}");
    let mut eval = vec!["eval", "--dataset", "films", "--split", &file, "--system", &system];
    eval.extend(["--run-file", &run]);
    world.run(eval).done();
    let ranked: Vec<usize> = fs::read_to_string(&run)
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().nth(2).unwrap().parse().unwrap())
        .collect();
    let first: BTreeSet<usize> = ranked.iter().take(right.len()).copied().collect();
    assert_eq!(first, BTreeSet::from(right), "{ranked:?}");
    assert!(!ranked.contains(&0), "the named film is no answer: {ranked:?}");
    let query = ["query", "--bundle", bundle, "--dataset", "films", asked, "--explain"];
    let told = world.run(query).done();
    for read in [
        "plain question one of its answers: ",
        "metapath film -directed_by-> person <-directed_by- film",
        "The Silent Harbor -directed_by-> Ada Moravec <-directed_by- this",
    ] {
        assert!(told.contains(read), "{read} is not in {told}");
    }
    let query = ["query", "--bundle", bundle, "--dataset", "films", asked, "--json"];
    let told = world.run(query).json_lines().pop().unwrap();
    // Fewer than 20 training questions say nothing about where answers end.
    assert_eq!(told["cutoff"], Value::Null, "{told}");
    let path = &told["hits"][0]["path"];
    let edges: Vec<_> = path.as_array().unwrap().iter().map(|step| &step["direction"]).collect();
    assert_eq!(
        (&path[0]["name"], &path[1]["name"]),
        (&"The Silent Harbor".into(), &"Ada Moravec".into())
    );
    assert_eq!(edges, [&Value::Null, &"out".into(), &"in".into()], "{told}");
    let shown = world.run(["query", "--bundle", bundle, "--dataset", "films", asked]).done();
    let first = shown.lines().next().unwrap();
    assert!(first.ends_with("-directed_by-> Ada Moravec <-directed_by- this"), "{shown}");
    assert_eq!(shown.matches("-directed_by-> Ada Moravec").count(), right.len(), "{shown}");
    for line in ["understood  The Silent Harbor (film, exact), ", "director (relation directed_by)"]
    {
        assert!(shown.contains(line), "{line} is not in {shown}");
    }
}

#[test]
fn plain_questions_of_samples_are_answered_as_the_graph_does() {
    for (kind, name) in [(SampleKind::Amazon, "shop"), (SampleKind::Mag, "library")] {
        let world = World::new();
        let files = world.path("sample");
        let options = SampleOptions { seed: 0, scale: Some(0.0008) };
        generate(kind, options, &files, &mut |_| {}).unwrap();
        for (split, n) in [("train", 50), ("val", 25)] {
            let file = files.join(format!("split/{split}.index"));
            let all = fs::read_to_string(&file).unwrap();
            let kept: Vec<&str> = all.lines().take(n).collect();
            fs::write(&file, kept.join("\n")).unwrap();
        }
        world
            .run(["data", "import", "--name", name, "--from", &files.display().to_string()])
            .done();
        world.run(["index", name]).done();
        let base = Home::new(world.path("home")).get(name).unwrap();
        let indexed = IndexedBase::open(&base.kb_dir(), &base.index_dir(), name).unwrap();
        let asked = questions(&indexed.kb, 1, QUESTIONS);
        assert_eq!(
            asked,
            questions(&indexed.kb, 1, QUESTIONS),
            "the same seed, the same questions"
        );
        assert!(asked.len() >= QUESTIONS / 2, "{name}: {} questions", asked.len());
        let file = world.path("plain.csv").display().to_string();
        fs::write(&file, to_csv(&asked)).unwrap();
        let run = ["optimize", "--dataset", name, "--steps", "2", "--json"];
        let line = world.run(run).json_lines().pop().unwrap();
        let system = format!("bundle:{}", line["bundle"].as_str().unwrap());
        let eval = ["eval", "--dataset", name, "--split", &file, "--system", &system, "--json"];
        let measured = world.run(eval).json_lines().pop().unwrap();
        let found = measured["metrics"]["rprecision"].as_f64().unwrap();
        assert!(found >= 0.95, "{name}: {measured}");
        let bundle = Path::new(line["bundle"].as_str().unwrap());
        paths_are_those_of_the_questions(indexed, bundle, &asked);
    }
}

/// Every right answer that is given has a path from each name of its question, along the relations
/// that the question says.
fn paths_are_those_of_the_questions(base: IndexedBase, bundle: &Path, asked: &[Plain]) {
    let base = Arc::new(base);
    let runtime = Runtime::new(base.clone(), Arc::new(Workers::new(1).unwrap()), None);
    let bundle = Bundle::read(bundle).unwrap();
    let system = BundleRetriever::new(Arc::new(runtime), &bundle).unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for plain in asked {
        let detail = Detail { explained_count: 0, paths: true };
        let answer = infer::answer(&base, &system, &plain.text, 100, detail).unwrap();
        for (&(node, _), paths) in answer.ranking().iter().zip(&answer.paths) {
            if !plain.answers.contains(&node) {
                continue;
            }
            checked += 1;
            let leads = |(name, steps): &(NodeId, Vec<(RelationId, Direction)>)| {
                paths.iter().any(|path| path.from == *name && goes(path, steps))
            };
            if !plain.metapaths.iter().all(leads) {
                wrong.push((plain.text.clone(), node, paths.clone()));
            }
        }
    }
    assert!(checked > asked.len(), "{checked} answers of {} questions", asked.len());
    assert!(wrong.is_empty(), "{} of {checked}: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}

/// Whether a path follows these relations in these directions.
fn goes(path: &KbPath, steps: &[(RelationId, Direction)]) -> bool {
    let fits = |(hop, step): (&Hop, &(RelationId, Direction))| {
        hop.relation == step.0 && (step.1 == Direction::Any || hop.direction == step.1)
    };
    path.hops.len() == steps.len() && path.hops.iter().zip(steps).all(fits)
}
