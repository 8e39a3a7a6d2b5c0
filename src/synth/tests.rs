//! Compares the answers of templates with those of a simple executor, checks questions against the
//! documents and edges of a sample, and runs the steps of a language model with scripted replies.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs,
    path::Path,
    sync::{Arc, LazyLock, atomic::AtomicBool},
};

use serde_json::json;

use super::{
    construct::QuestionMaker,
    discover::{slots_of, starts},
    mention::folded,
    *,
};
use crate::scripted::{MemoryStore, blocks, llm, llm_within, question, said};
use agent_dataset::{
    DatasetError, Home, ImportOptions, Split, attach_questions, has_own_labels, import_neutral,
    is_synthetic, load_split,
    sample::{SampleKind, SampleOptions, generate, random::Stream},
};
use agent_index::build;
use agent_kb::{Direction, Kb, metapath::Step};
use agent_llm::{LlmError, Request, ledger::Ceilings, prompts::Prompts};

/// An installed sample without questions, and the temporary directory of its files.
struct Sample {
    dir: tempfile::TempDir,
    home: Home,
}

impl Sample {
    fn new(kind: SampleKind, scale: f64) -> Sample {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        let options = SampleOptions { seed: 3, scale: Some(scale) };
        generate(kind, options, &source, &mut |_| {}).unwrap();
        fs::remove_file(source.join("qa.csv")).unwrap();
        fs::remove_dir_all(source.join("split")).unwrap();
        let home = Home::new(dir.path().join("home"));
        let (options, stop) = (ImportOptions::default(), AtomicBool::new(false));
        import_neutral(&source, &home, "base", &options, &mut |_| {}, &stop).unwrap();
        Sample { dir, home }
    }

    fn kb(&self) -> Kb {
        Kb::open(&self.home.get("base").unwrap().kb_dir()).unwrap()
    }

    fn indexed(&self) -> IndexedBase {
        let base = self.home.get("base").unwrap();
        let stop = AtomicBool::new(false);
        build(&self.kb(), &base.index_dir(), &|_| {}, &stop).unwrap();
        IndexedBase::open(&base.kb_dir(), &base.index_dir(), "base").unwrap()
    }

    fn edges(&self) -> HashSet<(u32, String, u32)> {
        let text = fs::read_to_string(self.dir.path().join("source/edges.tsv")).unwrap();
        let edge = |line: &str| {
            let cells: Vec<&str> = line.split('\t').collect();
            (cells[0].parse().unwrap(), cells[1].to_owned(), cells[2].parse().unwrap())
        };
        text.lines().skip(1).map(edge).collect()
    }
}

/// Returns a sample with its index, for the tests that make questions.
fn indexed() -> &'static (Sample, IndexedBase) {
    static BASE: LazyLock<(Sample, IndexedBase)> = LazyLock::new(|| {
        let sample = Sample::new(SampleKind::Mag, 0.001);
        let base = sample.indexed();
        (sample, base)
    });
    &BASE
}

/// Finds answers without metapaths: looks at every node of the answers' type and at every edge,
/// step by step.
struct Naive<'a> {
    kb: &'a Kb,
    edges: HashSet<(u32, String, u32)>,
    around: HashMap<u32, Vec<u32>>,
}

impl Naive<'_> {
    fn new<'a>(kb: &'a Kb, edges: HashSet<(u32, String, u32)>) -> Naive<'a> {
        let mut around: HashMap<u32, Vec<u32>> = HashMap::new();
        for &(a, _, b) in &edges {
            around.entry(a).or_default().push(b);
            around.entry(b).or_default().push(a);
        }
        Naive { kb, edges, around }
    }

    fn joined(&self, from: u32, step: &Step, to: u32) -> bool {
        let relation = self.kb.relation_name(step.relation).to_owned();
        let (out, back) = ((from, relation.clone(), to), (to, relation, from));
        let along = self.edges.contains(&out) && step.direction != Direction::In;
        let against = self.edges.contains(&back) && step.direction != Direction::Out;
        (along || against) && self.kb.node_type(to) == step.to
    }

    fn reaches(&self, from: u32, steps: &[Step], wanted: Option<u32>) -> bool {
        let Some((step, rest)) = steps.split_first() else {
            return wanted.is_none_or(|wanted| wanted == from);
        };
        let around = self.around.get(&from).map_or(&[][..], Vec::as_slice);
        around.iter().any(|&next| self.joined(from, step, next) && self.reaches(next, rest, wanted))
    }

    fn answers(&self, template: &Template, slots: &[u32]) -> Vec<u32> {
        let holds = |&node: &u32| {
            template.branches.iter().all(|branch| match branch.slot {
                Some(slot) => self.reaches(slots[slot], &branch.steps, Some(node)),
                None => !self.reaches(node, &branch.steps, None),
            })
        };
        let nodes = (0..self.kb.n_nodes()).filter(|&n| self.kb.node_type(n) == template.target);
        nodes
            .filter(holds)
            .filter(|node| !(template.exclude_slots && slots.contains(node)))
            .collect()
    }
}

#[test]
fn the_templates_of_the_benchmark_execute_as_an_executor_that_looks_at_every_edge() {
    let mut seen = BTreeSet::new();
    for (kind, scale) in
        [(SampleKind::Amazon, 0.001), (SampleKind::Mag, 0.0006), (SampleKind::Prime, 0.008)]
    {
        let sample = Sample::new(kind, scale);
        let kb = sample.kb();
        let naive = Naive::new(&kb, sample.edges());
        let read = read_templates(&kb, BENCHMARK, "benchmark").unwrap();
        for template in &read.templates {
            let mut stream = Stream::new(1, &template.id, 0);
            let first = starts(&kb, &template.branches[0].steps[0]);
            let mut n_answered = 0;
            for _ in 0..400 {
                let back = stream.pick(kb.nodes_of_type(template.target));
                let slots = match template.slots.len() {
                    1 => Some(vec![stream.pick(&first)]),
                    _ => slots_of(&kb, template, back, &mut stream),
                };
                let Some(slots) = slots else { continue };
                let answers = template.answers(&kb, &slots).unwrap();
                assert_eq!(answers, naive.answers(template, &slots), "{} {slots:?}", template.id);
                n_answered += usize::from(!answers.is_empty());
                if n_answered == 3 {
                    break;
                }
            }
            assert!(n_answered > 0, "{} grounds nothing", template.id);
            seen.insert(template.id.clone());
        }
    }
    // Four, seven and twenty-eight of the benchmark, and one that composes two of them.
    assert_eq!(seen.len(), 4 + 7 + 28 + 1, "{seen:?}");
}

#[test]
fn an_invalid_file_of_templates_is_an_error_with_a_remedy() {
    let (_, base) = indexed();
    let error = |text: &str| read_templates(&base.kb, text, "my.json").unwrap_err().to_string();
    let entry = |metapath: &str, more: &str| {
        format!(
            r#"{{"templates": [{{"id": "x", "target_type": "paper",
                "slots": [{{"name": "a", "type": "author", "branch": 0}}],
                "branches": [{{"metapath": {metapath}{more}}}]}}]}}"#
        )
    };
    let writes = r#"["author", "author___writes___paper", "out", "paper"]"#;
    assert_eq!(read_templates(&base.kb, &entry(writes, ""), "f").unwrap().templates.len(), 1);
    for (text, expected) in [
        ("{".to_owned(), "my.json: EOF"),
        (r#"{"templates": []}"#.to_owned(), "contains no templates"),
        (entry(r#"["author"]"#, ""), "relation, direction, type"),
        (entry(&writes.replace("out", "up"), ""), "has direction \"up\""),
        (entry(writes, r#", "quantifier": "most""#), "has quantifier \"most\""),
        (entry(writes, r#", "quantifier": "not_exists""#), "has branch 0 that does not lead"),
        (entry(&writes.replace("___writes", "___draws"), ""), "it has no relation"),
    ] {
        let message = error(&text);
        assert!(message.starts_with("my.json") && message.contains(expected), "{message}");
    }
}

fn made(base: &IndexedBase, seed: u64, requester: Option<&Requester>, queries: usize) -> Synthesis {
    let stop = AtomicBool::new(false);
    let mut watch = Watch { progress: &mut |_, _, _| {}, stop: &stop };
    let options = Options { queries, seed, templates: None };
    synthesize(base, &options, requester, &mut watch).unwrap()
}

fn written(made: &Synthesis) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    made.write(Ids::Numbers, dir.path()).unwrap();
    let files = ["qa.csv", "split/train.index", "split/val.index", "split/test.index"];
    files.iter().map(|file| fs::read_to_string(dir.path().join(file)).unwrap()).collect()
}

#[test]
fn one_seed_gives_one_file_and_every_answer_has_relation_and_words() {
    let (_, base) = indexed();
    let first = made(base, 5, None, 120);
    assert_eq!(written(&first), written(&made(base, 5, None, 120)));
    assert_ne!(written(&first), written(&made(base, 6, None, 120)));
    assert_eq!(first.questions.len(), 120);
    let templates = discover::templates(&base.kb, wanted_templates(120), 5);
    let mut texts = BTreeSet::new();
    for question in &first.questions {
        assert!((1..=MAX_ANSWERS).contains(&question.answers.len()));
        assert!(question.answers.contains(&question.gold));
        assert!(texts.insert(folded(&question.text)), "twice: {}", question.text);
        assert!(!question.text.contains(['{', '}']), "{}", question.text);
        let text = format!(" {} ", folded(&question.text));
        let named = |&node: &NodeId| text.contains(&format!(" {} ", folded(base.kb.name(node))));
        assert!(!question.answers.iter().any(named), "{}", question.text);
        // Recomputes the answers from the relation and the words, one node at a time.
        let template = templates.iter().find(|one| one.id == question.template);
        let reached = template.map(|one| one.answers(&base.kb, &question.slots).unwrap());
        let all = base.kb.nodes_of_type(base.kb.node_type(question.gold)).to_vec();
        let stems = || question.properties.iter().flat_map(|one| one.words.split(' '));
        let has = |node: &&NodeId| {
            let document: BTreeSet<String> = base.stems.of(base.kb.text(**node)).collect();
            stems().all(|word| {
                document.contains(base.stems.stem(word.to_lowercase().as_str()).as_ref())
            })
        };
        let expected: Vec<NodeId> = reached.unwrap_or(all).iter().filter(has).copied().collect();
        assert_eq!(question.answers, expected, "{}", question.text);
    }
    let kinds: BTreeSet<&str> = first.quality.kinds.keys().copied().collect();
    assert_eq!(kinds, ["fused", "relational", "textual"].into());
    assert_eq!(first.quality.styles.len(), 4);
    let [train, val, test] = first.splits();
    assert!(train > 60 && val > 15 && test > 15, "{train} {val} {test}");
    assert!(first.quality.entropy > 5.0 && first.quality.type_token_ratio > 0.1);
    assert_eq!(first.quality.gold_pass, 1.0);
}

#[test]
fn questions_become_those_of_a_base_and_own_labels_stay() {
    let sample = Sample::new(SampleKind::Mag, 0.0006);
    let base = sample.home.get("base").unwrap();
    assert!(!has_own_labels(&base).unwrap());
    let write = |name: &str, source: &str| {
        let dir = sample.dir.path().join(name);
        fs::create_dir_all(dir.join("split")).unwrap();
        let rows: String =
            (0..3).map(|id| format!("{id},what is {id},[{id}],{source}\n")).collect();
        fs::write(dir.join("qa.csv"), format!("id,query,answer_ids,source\n{rows}")).unwrap();
        for (split, id) in [("train", 0), ("val", 1), ("test", 2)] {
            fs::write(dir.join(format!("split/{split}.index")), format!("{id}\n")).unwrap();
        }
        dir
    };
    for name in ["first", "second"] {
        let base = sample.home.get("base").unwrap();
        let labelled = attach_questions(&sample.home, &base, &write(name, "synthetic")).unwrap();
        assert_eq!(labelled, sample.home.get("base").unwrap());
        let train = load_split(&labelled, &Split::Train).unwrap();
        assert!(train.len() == 1 && is_synthetic(&train));
        assert!(!has_own_labels(&labelled).unwrap());
    }
    let base = sample.home.get("base").unwrap();
    let own = attach_questions(&sample.home, &base, &write("own", "people")).unwrap();
    assert!(has_own_labels(&own).unwrap());
    let refused = attach_questions(&sample.home, &own, &write("third", "synthetic")).unwrap_err();
    assert!(matches!(refused, DatasetError::HasOwnLabels { n: 3, .. }), "{refused}");
    // A base that was replaced while questions were made for it keeps its own.
    let changed = attach_questions(&sample.home, &base, &write("fourth", "synthetic")).unwrap_err();
    assert!(matches!(changed, DatasetError::BaseChanged { .. }), "{changed}");
    assert_eq!(sample.home.get("base").unwrap(), own);
    // Questions of people in human.csv are own labels, whatever qa.csv has.
    let mixed = write("mixed", "synthetic");
    fs::write(mixed.join("human.csv"), "id,query,answer_ids\n0,what is 0,[0]\n").unwrap();
    let other = Sample::new(SampleKind::Mag, 0.0006);
    let base = other.home.get("base").unwrap();
    assert!(has_own_labels(&attach_questions(&other.home, &base, &mixed).unwrap()).unwrap());
}

/// Returns the name of the reply's schema, which tells the step to which a request belongs; empty
/// without a schema.
fn step(request: &Request) -> &str {
    request.json.as_ref().map_or("", |schema| schema.name.as_str())
}

/// Returns the parts of a request about its items; the first is about item 1.
fn items(request: &Request) -> Vec<&str> {
    // A repair appends its messages to those of the first request.
    let marks = if step(request) == "synthesize_rewrite" { ". Style: " } else { "# Item " };
    request.messages[1].text.split(marks).skip(1).collect()
}

/// Returns the reply of a scripted model that writes one property, whose first filter quotes the
/// first words of every document for which `says` is true, and whose second filter takes all.
fn reply_if(request: &Request, says: impl Fn(&str) -> bool) -> String {
    let letter = |at: usize| char::from(b'A' + at as u8).to_string();
    let reply = |at: usize, item: &str| {
        let n = at + 1;
        let documents = blocks(item, "document");
        match step(request) {
            "synthesize_write" => {
                let seen = blake3::hash(item.as_bytes()).to_hex();
                let method = json!({"text": "is about a method", "source": "abstract"});
                json!({"n": n, "properties": [method], "query": format!("written {seen}")})
            }
            "synthesize_rewrite" => {
                let (_, written) = blocks(item, "query").remove(0);
                json!({"n": n, "query": format!("In other words {written}?")})
            }
            "synthesize_check" => {
                let quote = |(at, (_, text)): (usize, &(String, String))| {
                    let words: Vec<&str> = text.split_whitespace().take(3).collect();
                    says(text).then(|| json!({"letter": letter(at), "quotes": [words.join(" ")]}))
                };
                let documents: Vec<_> = documents.iter().enumerate().filter_map(quote).collect();
                json!({"n": n, "documents": documents})
            }
            _ => {
                let letters: Vec<String> = (0..documents.len()).map(letter).collect();
                json!({"n": n, "asked": true, "letters": letters})
            }
        }
    };
    let all: Vec<_> =
        items(request).into_iter().enumerate().map(|(at, item)| reply(at, item)).collect();
    json!({"items": all}).to_string()
}

/// Returns the reply of a scripted model both of whose filters take every document.
fn reply(request: &Request) -> String {
    reply_if(request, |_| true)
}

fn requester<F>(answer: F) -> Requester
where
    F: Fn(&Request) -> Result<(String, agent_llm::Finish), LlmError> + Send + Sync + 'static,
{
    Requester::new(llm(answer).0, Arc::new(Prompts::built_in().unwrap()))
}

#[test]
fn a_model_makes_questions_in_the_steps_of_the_benchmark() {
    let (_, base) = indexed();
    let (model, log) = llm(|request| said(reply(request)));
    let requester = Requester::new(model, Arc::new(Prompts::built_in().unwrap()))
        .in_manner(vec!["whatever on graphs".to_owned()]);
    let made = made(base, 1, Some(&requester), 30);
    assert_eq!(made.questions.len(), 30);
    for question in &made.questions {
        assert!(question.text.starts_with("In other words"), "{}", question.text);
        let of_kind = question.properties.is_empty() == (question.kind == Kind::Relational);
        assert!(of_kind && question.properties.is_empty() == question.votes.is_empty());
        for vote in &question.votes {
            assert_eq!((vote.check, vote.judge), (asking::Ballot::Yes, asking::Ballot::Yes));
        }
    }
    assert!(made.questions.iter().any(|one| one.kind == Kind::Fused));
    let requests = log.requests();
    assert!(requests.len() <= 12, "{} requests for 30 questions", requests.len());
    let of_step = |name: &'static str| requests.iter().filter(move |one| step(one) == name);
    assert!(of_step("synthesize_write").all(|one| question(one).contains("whatever on graphs")));
    assert!(of_step("synthesize_rewrite").all(|one| !question(one).contains("whatever")));
}

#[test]
fn an_unproven_property_disagreement_and_a_missing_reply_are_no_answers() {
    let (_, base) = indexed();
    let draw = |text: &str| blake3::hash(text.as_bytes()).as_bytes()[0] % 4;
    // The first filter finds nothing in a quarter of the documents, quotes what none of another
    // quarter says, and leaves the first item of each request out.
    let partly = requester(move |request| {
        let text = reply_if(request, |text| draw(text) != 0);
        if step(request) != "synthesize_check" {
            return said(text);
        }
        let mut reply: serde_json::Value = serde_json::from_str(&text).unwrap();
        let all = reply["items"].as_array_mut().unwrap();
        for one in all.iter_mut().flat_map(|item| item["documents"].as_array_mut().unwrap()) {
            let quote = one["quotes"][0].as_str().unwrap().to_owned();
            if draw(&quote) == 1 {
                one["quotes"][0] = "what nobody ever wrote".into();
            }
        }
        all.remove(0);
        said(reply.to_string())
    });
    let made = made(base, 1, Some(&partly), 60);
    let votes: Vec<Vote> = made.questions.iter().flat_map(|one| one.votes.clone()).collect();
    let ballots: BTreeSet<String> =
        votes.iter().map(|vote| format!("{:?} {:?}", vote.check, vote.judge)).collect();
    assert_eq!(ballots, ["No Yes".to_owned(), "Yes Yes".to_owned()].into());
    for question in made.questions.iter().filter(|one| !one.votes.is_empty()) {
        let passed = question
            .votes
            .iter()
            .filter(|vote| (vote.check, vote.judge) == (asking::Ballot::Yes, asking::Ballot::Yes));
        let passed: Vec<NodeId> = passed.map(|vote| vote.node).collect();
        assert_eq!(question.answers, passed);
        assert!(question.answers.contains(&question.gold));
    }
    assert!(made.quality.gold_pass < 1.0, "some gold answers must fail");
    assert!(made.quality.dropped[quality::GOLD_FAILED] > 0);
}

#[test]
fn what_nobody_would_ask_is_no_question_and_its_template_is_drawn_no_more() {
    let (_, base) = indexed();
    // Nobody asks who cites what: the writer leaves one half empty, the judge refuses the rest.
    let is_unasked = |item: &str| item.contains("citing") || item.contains("cites");
    let refusing = requester(move |request| {
        let mut reply: serde_json::Value = serde_json::from_str(&reply(request)).unwrap();
        let all = reply["items"].as_array_mut().unwrap();
        for (at, (item, text)) in all.iter_mut().zip(items(request)).enumerate() {
            match step(request) {
                "synthesize_write" if is_unasked(text) && at % 2 == 0 => item["query"] = "".into(),
                "synthesize_judge" if is_unasked(text) => item["asked"] = false.into(),
                _ => {}
            }
        }
        said(reply.to_string())
    });
    let of_citations = |made: &Synthesis| {
        made.questions.iter().filter(|one| one.template.contains("cites")).count()
    };
    let all = made(base, 1, Some(&requester(|request| said(reply(request)))), 120);
    let kept = made(base, 1, Some(&refusing), 120);
    // A link that is worded without the verb passes until its template is drawn no more.
    let counts = [of_citations(&all), of_citations(&kept)];
    assert!(counts[0] > 20 && 4 * counts[1] < counts[0], "{counts:?}");
    let unasked = kept.quality.dropped["asks what nobody would ask"];
    assert!((4..200).contains(&unasked), "{unasked} dropped");
}

#[test]
fn no_node_is_named_by_way_of_another_that_has_only_it() {
    let sample = Sample::new(SampleKind::Amazon, 0.002);
    let base = sample.indexed();
    let made = made(&base, 1, Some(&requester(|request| said(reply(request)))), 120);
    assert!(made.quality.dropped["names a node by way of another"] > 0);
    let graph = Naive::new(&base.kb, sample.edges());
    let templates = discover::templates(&base.kb, wanted_templates(120), 1);
    for question in &made.questions {
        let template = templates.iter().find(|one| one.id == question.template).unwrap();
        for branch in template.branches.iter().filter(|branch| branch.steps.len() > 1) {
            let Some(slot) = branch.slot else { continue };
            let from = question.slots[slot];
            let linked = (0..base.kb.n_nodes())
                .filter(|&to| graph.joined(from, &branch.steps[0], to))
                .count();
            assert_ne!(linked, 1, "{}", question.template);
        }
    }
}

#[test]
fn a_ceiling_ends_the_making_and_keeps_what_is_made() {
    let (_, base) = indexed();
    // The replies to 600 questions count more tokens than this, also if no requests overlap.
    let ceilings = Ceilings { usd: None, tokens: Some(45_000) };
    let stores = || vec![Arc::new(MemoryStore::default()) as Arc<dyn agent_llm::ReplyStore>];
    let prompts = Arc::new(Prompts::built_in().unwrap());
    let (model, _) = llm_within(|request| said(reply(request)), ceilings, stores());
    let made = made(base, 1, Some(&Requester::new(model, prompts.clone())), 600);
    assert!((1..600).contains(&made.questions.len()), "{}", made.questions.len());
    let Some(error) = &made.interruption else { panic!("nothing stopped it") };
    assert!(matches!(error, LlmError::Budget { .. }), "{error}");
    let outage = |_: &Request| Err(LlmError::Unrecorded("no service".to_owned()));
    let stop = AtomicBool::new(false);
    let mut watch = Watch { progress: &mut |_, _, _| {}, stop: &stop };
    let options = Options { queries: 5, seed: 1, templates: None };
    let nothing = synthesize(base, &options, Some(&requester(outage)), &mut watch).unwrap_err();
    assert!(matches!(nothing, SynthError::Llm(_)), "{nothing}");
}

#[test]
fn a_relation_within_a_type_is_followed_in_its_direction_if_it_has_one() {
    let directions = |kb: &Kb, relation: &str| -> BTreeSet<Direction> {
        let templates = discover::templates(kb, 200, 1);
        let branches = templates.iter().flat_map(|template| &template.branches);
        let steps = branches.flat_map(|branch| &branch.steps);
        let of_relation = |step: &&Step| kb.relation_name(step.relation).contains(relation);
        steps.filter(of_relation).map(|step| step.direction).collect()
    };
    let cited = directions(&indexed().1.kb, "cites");
    assert_eq!(cited, [Direction::Out, Direction::In].into());
    let bought = directions(&Sample::new(SampleKind::Amazon, 0.001).kb(), "also_buy");
    assert_eq!(bought, [Direction::Any].into());
}

#[test]
fn a_name_of_an_answer_and_a_repetition_are_dropped() {
    let (_, base) = indexed();
    let templates = discover::templates(&base.kb, 8, 1);
    let mut maker = QuestionMaker::new(base, &templates);
    let answer = base.kb.candidates()[0];
    let question = |text: &str, slots: Vec<NodeId>| Question {
        text: text.to_owned(),
        kind: Kind::Relational,
        style: Style::Question,
        template: "t".to_owned(),
        slots,
        gold: answer,
        properties: Vec::new(),
        votes: Vec::new(),
        answers: vec![answer],
    };
    let named = format!("Who wrote {}?", base.kb.name(answer).to_uppercase());
    assert_eq!(maker.accept(question(&named, vec![1])), None);
    assert!(maker.accept(question("Which one?", vec![2])).is_some());
    assert_eq!(maker.accept(question("which ONE", vec![3])), None, "the same words");
    assert_eq!(maker.accept(question("Another way", vec![2])), None, "the same slots and answers");
    assert_eq!(maker.dropped.values().sum::<usize>(), 3);
}

#[test]
fn files_are_never_written_over() {
    let (_, base) = indexed();
    let made = made(base, 1, None, 8);
    let dir = tempfile::tempdir().unwrap();
    made.write(Ids::Numbers, dir.path()).unwrap();
    let again = made.write(Ids::Numbers, dir.path()).unwrap_err();
    let path: &Path = &dir.path().join("qa.csv");
    assert!(matches!(&again, SynthError::Write { path: own, .. } if own == path), "{again}");
    assert!(again.to_string().contains("it already exists; remove it, or name another"), "{again}");
    // One file of others: none is written beside it.
    fs::remove_file(path).unwrap();
    fs::remove_file(dir.path().join("split/train.index")).unwrap();
    let again = made.write(Ids::Numbers, dir.path()).unwrap_err();
    assert!(again.to_string().contains("val.index"), "{again}");
    assert!(!path.exists() && !dir.path().join("split/train.index").exists());
}
