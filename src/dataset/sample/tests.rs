//! Guarantees of samples: the same seed gives the same bytes, the base is valid, and an independent
//! executor finds the same answers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::sample::facts::Facts;
use crate::sample::graph::World;
use crate::sample::queries::{MAX_ANSWERS, MIN_SHARING, Source, construct};
use crate::sample::wording::{TEMPLATES, Template};

/// Returns a scale at which a sample has a few hundred nodes.
fn tiny(kind: SampleKind) -> f64 {
    kind.default_scale() / 5.0
}

fn write_sample(kind: SampleKind, seed: u64, scale: f64) -> (tempfile::TempDir, SampleReport) {
    let folder = tempfile::tempdir().unwrap();
    let options = SampleOptions { seed, scale: Some(scale) };
    let report = generate(kind, options, folder.path(), &mut |_| {}).unwrap();
    (folder, report)
}

const FILES: [&str; 7] = [
    "nodes.jsonl",
    "edges.tsv",
    "qa.csv",
    "dataset.toml",
    "split/train.index",
    "split/val.index",
    "split/test.index",
];

fn digest(folder: &Path) -> String {
    let mut hasher = blake3::Hasher::new();
    for name in FILES {
        hasher.update(&fs::read(folder.join(name)).unwrap());
    }
    hasher.finalize().to_hex().to_string()
}

fn nodes(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("nodes.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn edges(folder: &Path) -> Vec<(usize, String, usize)> {
    let text = fs::read_to_string(folder.join("edges.tsv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("src_id\trelation\tdst_id"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            assert_eq!(cells.len(), 3, "{line}");
            (cells[0].parse().unwrap(), cells[1].to_owned(), cells[2].parse().unwrap())
        })
        .collect()
}

/// Returns the tuples (source type, relation, target type) of a schema in one direction, as in the
/// published bases.
fn schema_tuples(kind: SampleKind) -> BTreeSet<(String, String, String)> {
    let text = match kind {
        SampleKind::Amazon => {
            "product/also_buy/product product/also_view/product product/has_brand/brand \
             product/has_category/category product/has_color/color"
        }
        SampleKind::Mag => {
            "author/author___affiliated_with___institution/institution \
             paper/paper___cites___paper/paper \
             paper/paper___has_topic___field_of_study/field_of_study \
             author/author___writes___paper/paper"
        }
        SampleKind::Prime => {
            "anatomy/expression_absent/gene anatomy/expression_present/gene \
             anatomy/parent-child/anatomy biological_process/interacts_with/gene \
             biological_process/parent-child/biological_process \
             cellular_component/interacts_with/gene \
             cellular_component/parent-child/cellular_component disease/associated_with/gene \
             disease/contraindication/drug disease/indication/drug disease/off-label_use/drug \
             disease/parent-child/disease disease/phenotype_absent/effect \
             disease/phenotype_present/effect drug/carrier/gene drug/enzyme/gene \
             drug/side_effect/effect drug/synergistic_interaction/drug drug/target/gene \
             drug/transporter/gene effect/associated_with/gene effect/parent-child/effect \
             exposure/interacts_with/biological_process exposure/interacts_with/cellular_component \
             exposure/interacts_with/gene exposure/interacts_with/molecular_function \
             exposure/linked_to/disease exposure/parent-child/exposure gene/ppi/gene \
             gene/interacts_with/molecular_function gene/interacts_with/pathway \
             molecular_function/parent-child/molecular_function pathway/parent-child/pathway"
        }
    };
    let long = |name: &str| match name {
        "gene" => "gene/protein".to_owned(),
        "effect" => "effect/phenotype".to_owned(),
        other => other.to_owned(),
    };
    text.split(' ')
        .map(|tuple| {
            let parts: Vec<&str> = tuple.split('/').collect();
            let relation = match kind {
                SampleKind::Prime => parts[1].replace('_', " "),
                SampleKind::Amazon | SampleKind::Mag => parts[1].to_owned(),
            };
            (long(parts[0]), relation, long(parts[2]))
        })
        .collect()
}

#[test]
fn same_seed_gives_the_same_bytes_and_another_seed_others() {
    for kind in SampleKind::ALL {
        let (first, first_report) = write_sample(kind, 7, tiny(kind));
        let (second, second_report) = write_sample(kind, 7, tiny(kind));
        let (other, _) = write_sample(kind, 8, tiny(kind));
        assert_eq!(digest(first.path()), digest(second.path()), "{kind}");
        assert_eq!(first_report, second_report);
        assert_ne!(digest(first.path()), digest(other.path()), "{kind}");
    }
}

/// Samples are the same as when their questions were first generated: if the executor or a draw
/// changed, so would users' measurements.
#[test]
fn a_sample_stays_the_same_from_version_to_version() {
    use sha2::Digest as _;
    let stated = [
        "b2c17755602d52342de4a83ce929e4df4147a62a9f6ba7dc6ea42aa6f78c09d3",
        "0f8acd2d627700db20c75ef7341995ff69ad5ddacf9e7a6b319e1cf425b8d0b8",
        "39bd4b0b9517ff0a6a30ffb5e2f034f853af1216ff83a6629eb8dddf0b117a12",
    ];
    let scales = [0.001, 0.0006, 0.008];
    for ((kind, scale), stated) in SampleKind::ALL.into_iter().zip(scales).zip(stated) {
        let (folder, _) = write_sample(kind, 7, scale);
        let mut hasher = sha2::Sha256::new();
        for name in FILES {
            hasher.update(fs::read(folder.path().join(name)).unwrap());
        }
        let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, stated, "{kind}");
    }
}

#[test]
fn base_has_dense_ids_in_type_blocks_and_every_tuple_of_the_schema_and_no_other() {
    for kind in SampleKind::ALL {
        let (folder, report) = write_sample(kind, 1, tiny(kind));
        let nodes = nodes(folder.path());
        assert_eq!(nodes.len() as u64, report.n_nodes);
        let mut order: Vec<&str> = Vec::new();
        for (id, node) in nodes.iter().enumerate() {
            assert_eq!(node["id"].as_u64(), Some(id as u64));
            assert!(!node["name"].as_str().unwrap().is_empty());
            let node_type = node["type"].as_str().unwrap();
            if order.last() != Some(&node_type) {
                order.push(node_type);
            }
        }
        let wanted = kind.types();
        assert_eq!(order, wanted);

        let edges = edges(folder.path());
        assert_eq!(edges.len() as u64, report.n_edges);
        assert_eq!(edges.iter().collect::<HashSet<_>>().len(), edges.len(), "repeated edge");
        let type_of = |id: usize| nodes[id]["type"].as_str().unwrap().to_owned();
        let found: BTreeSet<(String, String, String)> =
            edges.iter().map(|(a, r, b)| (type_of(*a), r.clone(), type_of(*b))).collect();
        assert_eq!(found, schema_tuples(kind));
        assert!(edges.iter().all(|(a, _, b)| a != b), "loop");
    }
}

#[test]
fn questions_are_distinct_answered_and_spread_over_the_splits() {
    for kind in SampleKind::ALL {
        let (folder, report) = write_sample(kind, 2, tiny(kind));
        let nodes = nodes(folder.path());
        let mut reader = csv::Reader::from_path(folder.path().join("qa.csv")).unwrap();
        assert_eq!(reader.headers().unwrap(), vec!["id", "query", "answer_ids", "template"]);
        let mut texts = HashSet::new();
        let mut template_of = BTreeMap::new();
        for (row, record) in reader.records().enumerate() {
            let record = record.unwrap();
            assert_eq!(record[0].parse::<usize>().unwrap(), row);
            assert!(
                !record[1].trim().is_empty() && !record[1].contains(['{', '}']),
                "{}",
                &record[1]
            );
            assert!(texts.insert(record[1].to_lowercase()), "repeated: {}", &record[1]);
            let answers: Vec<usize> = serde_json::from_str(&record[2]).unwrap();
            assert!((1..=MAX_ANSWERS).contains(&answers.len()));
            let template = TEMPLATES.iter().find(|template| template.id == record[3]).unwrap();
            assert!(answers.iter().all(|&id| nodes[id]["type"] == template.target));
            template_of.insert(row, template.id.as_str());
        }
        let all: BTreeSet<&str> = TEMPLATES
            .iter()
            .filter(|template| template.kind == kind)
            .map(|template| template.id.as_str())
            .collect();
        let mut placed = BTreeSet::new();
        for (split, name) in ["train", "val", "test"].iter().enumerate() {
            let text =
                fs::read_to_string(folder.path().join(format!("split/{name}.index"))).unwrap();
            let ids: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!(ids.len(), report.n_queries[split]);
            let present: BTreeSet<&str> = ids.iter().map(|id| template_of[id]).collect();
            assert_eq!(present, all, "{kind} {name}");
            assert!(ids.iter().all(|&id| placed.insert(id)), "in two splits");
        }
        assert_eq!(placed.len(), template_of.len());
        let train = report.n_queries[0] as f64 / template_of.len() as f64;
        assert!((0.45..0.56).contains(&train), "{train}");
    }
}

/// Recomputes the answers from the written edges by nested loops over hash sets, target by target.
struct NaiveExecutor {
    /// Neighbours by relation, node and neighbour type.
    links: HashMap<(String, u32, String), HashSet<u32>>,
    types: Vec<String>,
}

impl NaiveExecutor {
    fn new(folder: &Path) -> NaiveExecutor {
        let types: Vec<String> =
            nodes(folder).iter().map(|node| node["type"].as_str().unwrap().to_owned()).collect();
        let mut links: HashMap<(String, u32, String), HashSet<u32>> = HashMap::new();
        for (a, relation, b) in edges(folder) {
            for (from, to) in [(a, b), (b, a)] {
                let key = (relation.clone(), from as u32, types[to].clone());
                links.entry(key).or_default().insert(to as u32);
            }
        }
        NaiveExecutor { links, types }
    }

    fn reaches(&self, from: u32, hops: &[(String, String)], wanted: Option<u32>) -> bool {
        let Some(((relation, to), rest)) = hops.split_first() else {
            return wanted.is_none_or(|wanted| wanted == from);
        };
        let key = (relation.clone(), from, to.clone());
        self.links
            .get(&key)
            .is_some_and(|ends| ends.iter().any(|&end| self.reaches(end, rest, wanted)))
    }

    fn answers(&self, template: &Template, slots: &[u32]) -> Vec<u32> {
        (0..self.types.len() as u32)
            .filter(|&node| self.types[node as usize] == template.target)
            .filter(|node| !(template.exclude_slots && slots.contains(node)))
            .filter(|&node| {
                template.branches.iter().all(|branch| {
                    if branch.negated {
                        !self.reaches(node, &branch.hops, None)
                    } else {
                        self.reaches(slots[branch.slot], &branch.hops, Some(node))
                    }
                })
            })
            .collect()
    }
}

#[test]
fn answers_equal_those_of_a_naive_executor_for_every_template() {
    let mut seen = BTreeSet::new();
    for kind in SampleKind::ALL {
        let options = SampleOptions { seed: 3, scale: Some(tiny(kind)) };
        let (folder, _) = write_sample(kind, 3, tiny(kind));
        let naive = NaiveExecutor::new(folder.path());
        let world = world(kind, options).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let (graph, _) = write::edges(&world, scratch.path(), &mut |_, _| {}).unwrap();
        let facts = all_facts(&world);
        let source = Source { world: &world, graph: &graph, facts: &facts };
        let texts: Vec<String> = nodes(folder.path()).iter().map(Value::to_string).collect();
        for question in construct(&source, default_nodes(kind), &mut |_, _| {}) {
            let template = &TEMPLATES[question.template];
            seen.insert(template.id.as_str());
            let slots: Vec<u32> = (template.slots.iter().zip(&question.slots))
                .map(|(name, &slot)| world.id(world.type_of(name), slot))
                .collect();
            let target = world.type_of(&template.target);
            let facts = &facts[target];
            let offset = world.offsets[target];
            let expected: Vec<u32> = naive
                .answers(template, &slots)
                .into_iter()
                .filter(|id| {
                    let own = facts.of(id - offset);
                    question.properties.iter().all(|&(aspect, value)| own[aspect] == value)
                })
                .collect();
            let answers: Vec<u32> =
                question.answers.iter().map(|&index| world.id(target, index)).collect();
            assert_eq!(answers, expected, "{}: {}", template.id, question.text);
            check_wording(&world, facts, target, &question.properties, &answers, &texts);
        }
    }
    assert_eq!(seen.len(), 40);
}

/// Checks that every answer's document states the properties, and that many nodes share the
/// properties.
fn check_wording(
    world: &World,
    facts: &Facts,
    target: usize,
    properties: &[(usize, u8)],
    answers: &[u32],
    texts: &[String],
) {
    let states = |id: u32, (aspect, value): (usize, u8)| {
        let text = texts[id as usize].to_lowercase();
        let synonyms = &facts.aspects[aspect].values[value as usize];
        synonyms.iter().any(|synonym| text.contains(&synonym.to_lowercase()))
    };
    for &id in answers {
        assert!(properties.iter().all(|&property| states(id, property)), "{}", texts[id as usize]);
    }
    if !properties.is_empty() {
        let sharing = (0..world.counts[target]).filter(|&index| facts.has(index, properties));
        assert!(sharing.count() >= MIN_SHARING);
    }
}

#[test]
fn node_counts_are_proportional_to_the_scale_and_reach_the_benchmark_at_one() {
    for (kind, published) in [
        (SampleKind::Amazon, 1_035_542),
        (SampleKind::Mag, 1_872_968),
        (SampleKind::Prime, 129_375),
    ] {
        let size = |scale: f64| {
            world(kind, SampleOptions { seed: 0, scale: Some(scale) }).unwrap().n_nodes() as f64
        };
        assert_eq!(size(1.0), f64::from(published));
        assert!((size(10.0) - 10.0 * size(1.0)).abs() < 1.0, "{kind}");
        let ratio = size(0.4) / size(0.2);
        assert!((1.97..2.03).contains(&ratio), "{kind}: {ratio}");
        let default = default_nodes(kind);
        assert!((4_000..=6_000).contains(&default), "{kind}: {default}");
        let (_, small) = write_sample(kind, 0, tiny(kind));
        let (_, large) = write_sample(kind, 0, 2.0 * tiny(kind));
        let ratio = large.n_edges as f64 / small.n_edges as f64;
        assert!((1.4..3.0).contains(&ratio), "{kind}: {ratio}");
    }
}

#[test]
fn bad_scales_and_full_folders_are_refused_before_anything_is_written() {
    for scale in [0.0, -0.5, 10.0001, f64::NAN, f64::INFINITY] {
        let folder = tempfile::tempdir().unwrap();
        let options = SampleOptions { seed: 0, scale: Some(scale) };
        let error = generate(SampleKind::Mag, options, folder.path(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, SampleError::Scale { .. }));
        assert!(error.to_string().contains("above 0 and at most 10"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.txt"), "keep").unwrap();
    let error = generate(SampleKind::Mag, SampleOptions::default(), folder.path(), &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, SampleError::NotEmpty { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn documents_do_not_repeat_the_relations() {
    let (folder, _) = write_sample(SampleKind::Amazon, 4, tiny(SampleKind::Amazon));
    let nodes = nodes(folder.path());
    let texts: Vec<String> = nodes.iter().map(|node| node.to_string().to_lowercase()).collect();
    let mut n_leaks = 0;
    let mut n_brands = 0;
    for (product, relation, other) in edges(folder.path()) {
        if relation == "has_brand" {
            n_brands += 1;
            let brand = nodes[other]["name"].as_str().unwrap().to_lowercase();
            n_leaks += usize::from(texts[product].contains(&brand));
        }
    }
    assert!(n_brands > 500 && n_leaks == 0, "{n_leaks} of {n_brands} products name their brand");
}

#[test]
fn tiniest_scale_still_answers_every_template() {
    for kind in SampleKind::ALL {
        let (folder, report) = write_sample(kind, 5, 1e-9);
        let text = fs::read_to_string(folder.path().join("qa.csv")).unwrap();
        for template in TEMPLATES.iter().filter(|template| template.kind == kind) {
            assert!(text.contains(&template.id), "{}", template.id);
        }
        assert!(report.n_nodes < 1_500, "{report:?}");
    }
}
