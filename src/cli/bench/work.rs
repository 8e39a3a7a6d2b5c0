//! The work that is measured: read from a file, or drawn from the base with a fixed seed.
//! Must not know how it is done.

use std::{fs, path::Path};

use anyhow::{Context as _, anyhow};
use rand::RngExt as _;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use agent_app::error::Result;
use agent_kb::{Direction, Kb, NodeId, RelationId};

/// Pieces that are drawn.
const DRAWN: usize = 20_000;
/// Draws for one piece: nodes without edges give none.
const DRAWS_PER_PIECE: usize = 100;
/// Largest file of work in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Candidates of a question; fewer where one is drawn twice.
const CANDIDATES: usize = 50;
/// Relations that a question names.
const NAMED_RELATIONS: usize = 4;
const SEED: u64 = 11;

/// A node, and the relations to follow from it one after the other.
pub(super) type Metapath<const N: usize> = (NodeId, [RelationId; N]);

/// Metapaths from a file, `node TAB relation..` a line.
pub(super) fn read_metapaths<const N: usize>(path: &Path, kb: &Kb) -> Result<Vec<Metapath<N>>> {
    read(path, |line| {
        let mut columns = line.split('\t');
        let node = id(columns.next()?)?;
        let relations: Option<Vec<RelationId>> = columns.map(|name| kb.relation_id(name)).collect();
        Some((node, <[RelationId; N]>::try_from(relations?).ok()?))
    })
}

/// Ranked nodes and answers from a file, `ids TAB ids` a line.
pub(super) fn read_rankings(path: &Path) -> Result<Vec<(Vec<NodeId>, Vec<NodeId>)>> {
    read(path, |line| {
        let (ranked, answers) = line.split_once('\t')?;
        Some((ids(ranked)?, ids(answers)?))
    })
}

/// Queries and candidates from a file, `text TAB ids` a line.
pub(super) fn read_questions(path: &Path) -> Result<Vec<(String, Vec<NodeId>)>> {
    read(path, |line| {
        let (query, candidates) = line.split_once('\t')?;
        Some((query.to_owned(), ids(candidates)?))
    })
}

fn read<T>(path: &Path, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>> {
    let cannot = || format!("cannot read {}", path.display());
    let bytes = fs::metadata(path).with_context(cannot)?.len();
    if bytes > MAX_FILE_BYTES {
        let place = path.display();
        return Err(anyhow!("{place} has {bytes} bytes; split it below {MAX_FILE_BYTES}").into());
    }
    let text = fs::read_to_string(path).with_context(cannot)?;
    let wrong = |number: usize| {
        anyhow!("{}:{number}: unknown relation, wrong id or wrong columns", path.display())
    };
    let lines = text.lines().zip(1..);
    lines.map(|(line, number)| parse(line).ok_or_else(|| wrong(number).into())).collect()
}

fn id(text: &str) -> Option<NodeId> {
    text.parse().ok()
}

fn ids(text: &str) -> Option<Vec<NodeId>> {
    text.split(' ').map(id).collect()
}

/// Draws metapaths that lead somewhere: half from any node, half from one met as a neighbor, so
/// that popular nodes come up as often as programs meet them.
pub(super) fn draw_metapaths<const N: usize>(kb: &Kb) -> Vec<Metapath<N>> {
    let random = &mut ChaCha8Rng::seed_from_u64(SEED);
    let mut metapaths = Vec::new();
    for _ in 0..DRAWN * DRAWS_PER_PIECE {
        if metapaths.len() == DRAWN {
            break;
        }
        let mut start = random.random_range(0..kb.n_nodes());
        if metapaths.len() % 2 == 1 {
            let Some((_, met)) = draw_step(kb, start, random) else { continue };
            start = met;
        }
        let mut node = start;
        let mut relations = [RelationId(0); N];
        let complete = relations.iter_mut().all(|relation| {
            let Some(step) = draw_step(kb, node, random) else { return false };
            (*relation, node) = step;
            true
        });
        if complete {
            metapaths.push((start, relations));
        }
    }
    metapaths
}

/// A relation of a node and one of its neighbors; none if the drawn relation has none.
fn draw_step(kb: &Kb, node: NodeId, random: &mut ChaCha8Rng) -> Option<(RelationId, NodeId)> {
    let relations: Vec<RelationId> = (0..kb.relations().len() as u16)
        .map(RelationId)
        .filter(|&relation| kb.degree(node, relation, Direction::Out) > 0)
        .collect();
    let relation = *relations.get(random.random_range(0..relations.len().max(1)))?;
    let neighbors = kb.neighbors(node, relation, Direction::Out);
    Some((relation, *neighbors.get(random.random_range(0..neighbors.len().max(1)))?))
}

/// Draws queries: five words from the documents of as many nodes.
pub(super) fn draw_queries(kb: &Kb) -> Vec<String> {
    let random = &mut ChaCha8Rng::seed_from_u64(SEED);
    let mut word = || {
        let words: Vec<&str> =
            kb.text(random.random_range(0..kb.n_nodes())).split_whitespace().collect();
        words.get(random.random_range(0..words.len().max(1))).copied().unwrap_or_default()
    };
    (0..DRAWN / 40).map(|_| [word(), word(), word(), word(), word()].join(" ")).collect()
}

/// Draws questions: the name of a node, relations and words, with candidates that metapaths start
/// from.
pub(super) fn draw_questions(kb: &Kb) -> Vec<(String, Vec<NodeId>)> {
    let metapaths = draw_metapaths::<1>(kb);
    let question = |(metapaths, words): (&[Metapath<1>], String)| {
        let name = metapaths.iter().take(1).map(|metapath| kb.name(metapath.0));
        let relations =
            metapaths.iter().take(NAMED_RELATIONS).map(|metapath| kb.relation_name(metapath.1[0]));
        let text: Vec<&str> = name.chain(relations).chain([words.as_str()]).collect();
        let mut candidates: Vec<NodeId> = metapaths.iter().map(|metapath| metapath.0).collect();
        candidates.sort_unstable();
        candidates.dedup();
        (text.join(" "), candidates)
    };
    metapaths.chunks(CANDIDATES).zip(draw_queries(kb)).map(question).collect()
}

/// Draws rankings of 100 distinct candidates with up to 20 answers, half of them ranked.
pub(super) fn draw_rankings(candidates: &[NodeId]) -> Vec<(Vec<NodeId>, Vec<NodeId>)> {
    let random = &mut ChaCha8Rng::seed_from_u64(SEED);
    let draw = |n: usize, random: &mut ChaCha8Rng| {
        let places: Vec<usize> =
            (0..n).map(|_| random.random_range(0..candidates.len().max(1))).collect();
        let mut drawn: Vec<NodeId> = Vec::new();
        for &node in places.iter().filter_map(|&place| candidates.get(place)) {
            if !drawn.contains(&node) {
                drawn.push(node);
            }
        }
        drawn
    };
    let ranking = |_| {
        let ranked = draw(100, random);
        let mut answers = draw(10, random);
        answers.extend(ranked.iter().skip(random.random_range(0..10)).step_by(11));
        (ranked, answers)
    };
    (0..DRAWN / 2).map(ranking).collect()
}
