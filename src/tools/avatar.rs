//! The functions of the AvaTaR tool API under their own names, with defects fixed.
//!
//! Source: Wu et al. 2024 (AvaTaR) and its tool list for STaRK. Empty lists give empty results.
//! Unknown ids and names are errors that describe the known ones. Long texts are cut and end with a
//! marker. The tools that ask a language model are in `llm.rs`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write,
};

use crate::{
    ArgSpec, Args, Kind, NodeFlow, Steps, ToolCtx, ToolError, ToolSpec, Value, cost, lookup,
    text::{cosines, internal},
};
use agent_embed::matrix::dot;
use agent_ground::words::{self, fold};
use agent_index::IndexedBase;
use agent_kb::{Direction, NodeId, NodeSet, RelationId, best};

/// Maximum length in characters of a text that a tool returns; a longer text is cut, and a marker
/// is appended.
const MAX_TEXT_CHARS: usize = 20_000;
/// Maximum number of neighbours whose names are listed per relation.
const MAX_NAMED: usize = 200;
/// Maximum number of texts or nodes embedded in one call.
const MAX_EMBEDDED: usize = 1_000;
/// Maximum number of pairs of vectors compared in one call; the engine rejects longer lists.
const MAX_PAIRS: usize = 100_000;
/// Minimum cost of embedding one text, in cost units.
const EMBEDDED_TEXT: usize = 100;
/// Number of multiplications of vector components per cost unit.
const NUMBERS_PER_UNIT: usize = 64;
/// Maximum number of chunks into which a document is split.
const MAX_CHUNKS: usize = 500;

const NODE: ArgSpec = ArgSpec::new("node_id", Kind::Node);
const NODES: ArgSpec = ArgSpec::new("node_ids", Kind::Nodes);
const QUERY: ArgSpec = ArgSpec::new("query", Kind::Text);
const STRING: ArgSpec = ArgSpec::new("string", Kind::Text);

pub(super) const TOOLS: &[ToolSpec] = &[
    ToolSpec::new(
        "debug_print",
        &[ArgSpec::new("value", Kind::Any)],
        Kind::Unit,
        "Notes a value in the trace of the call; `print` writes text to the call's output.",
        r#"debug_print("entities linked")"#,
        |_, _| Ok(Value::Unit),
    )
    .with_flow(NodeFlow::Note),
    ToolSpec::new(
        "get_node_ids_by_type",
        &[ArgSpec::new("node_type", Kind::Text)],
        Kind::Nodes,
        "All nodes of a type.",
        r#"get_node_ids_by_type("brand")"#,
        |ctx, args| {
            let nodes = ctx.base.kb.nodes_of_type(lookup::node_type(ctx.base, args.text(0)?)?);
            ctx.meter.touch(nodes.len())?;
            Ok(Value::nodes(nodes.iter().copied().collect()))
        },
    )
    .with_flow(NodeFlow::Find),
    ToolSpec::new(
        "get_node_type_by_id",
        &[NODE],
        Kind::Text,
        "The type of a node.",
        "get_node_type_by_id(0)",
        |ctx, args| {
            let node = lookup::node(ctx.base, args.node(0)?)?;
            Ok(Value::text(ctx.base.kb.type_name(ctx.base.kb.node_type(node))))
        },
    ),
    ToolSpec::new(
        "get_full_info",
        &[NODE],
        Kind::Text,
        "The document of a node and its relations; cut after 20,000 characters.",
        "get_full_info(0)",
        |ctx, args| {
            let node = lookup::node(ctx.base, args.node(0)?)?;
            let mut text = ctx.base.kb.text(node).to_owned();
            text.push_str(&relation_text(ctx, node)?);
            cut(ctx, &text)
        },
    ),
    ToolSpec::new(
        "get_text_info",
        &[NODE],
        Kind::Text,
        "The document of a node without relations; cut after 20,000 characters.",
        "get_text_info(0)",
        |ctx, args| {
            let node = lookup::node(ctx.base, args.node(0)?)?;
            let text = ctx.base.kb.text(node);
            cut(ctx, text)
        },
    ),
    ToolSpec::new(
        "get_relation_info",
        &[NODE],
        Kind::Text,
        "The relations of a node with the names of its neighbours, at most 200 for each relation.",
        "get_relation_info(0)",
        |ctx, args| {
            let node = lookup::node(ctx.base, args.node(0)?)?;
            let text = relation_text(ctx, node)?;
            cut(ctx, &text)
        },
    ),
    ToolSpec::new(
        "get_relevant_chunk",
        &[
            NODE,
            ArgSpec::new("attribute", Kind::Text),
            ArgSpec::optional("k", Kind::Int, "3"),
            ArgSpec::optional("chunk_size", Kind::Int, "256"),
        ],
        Kind::Text,
        "The field of exactly that name; without one, the k chunks of the document with relations \
         (of at most chunk_size characters, at least 16, at word borders) whose embeddings are \
         most similar to the attribute, joined by \";\\n\".",
        r#"get_relevant_chunk(0, "what it is made of")"#,
        relevant_chunk,
    )
    .with_cost(
        "1 per 100 characters of a field; without one 1 per neighbour, and 1 per byte of the \
         attribute and of each chunk",
    ),
    ToolSpec::new(
        "get_text_embedding",
        &[ArgSpec::new("texts", Kind::Texts)],
        Kind::Vectors,
        "One vector per text, of length 1; at most 1,000 texts.",
        r#"get_text_embedding(["warm socks", "hiking"])"#,
        |ctx, args| {
            let texts = args.texts(0)?;
            check_limit(texts.len(), MAX_EMBEDDED, "texts")?;
            ctx.meter.touch(texts.iter().map(|text| text.len().max(EMBEDDED_TEXT)).sum())?;
            let vectors = texts.into_iter().map(|text| {
                ctx.meter.poll()?;
                ctx.base.embed_query(text).map(Value::Vector).map_err(internal)
            });
            vectors.collect::<Result<_, _>>().map(Value::List)
        },
    )
    .with_cost("1 per byte of the texts, at least 100 per text"),
    ToolSpec::new(
        "get_node_embedding",
        &[NODES],
        Kind::Vectors,
        "One vector per node, of length 1, in the order of the ids given; at most 1,000 nodes.",
        "get_node_embedding([0, 1])",
        |ctx, args| {
            let nodes = known_list(ctx, args, 0)?;
            check_limit(nodes.len(), MAX_EMBEDDED, "nodes")?;
            let vectors: Result<Vec<Value>, ToolError> = nodes
                .into_iter()
                .map(|node| ctx.base.vectors.row(node).map(|row| Value::Vector(row.into())))
                .map(|vector| vector.map_err(internal))
                .collect();
            Ok(Value::List(vectors?))
        },
    ),
    ToolSpec::new(
        "get_relation_dict",
        &[NODE],
        Kind::Map,
        "Every relation of the base with the node's neighbours by it in any direction; empty ones \
         are kept.",
        "get_relation_dict(0)",
        |ctx, args| {
            let node = lookup::node(ctx.base, args.node(0)?)?;
            let mut relations = BTreeMap::new();
            for (index, name) in ctx.base.kb.relations().iter().enumerate() {
                let neighbors = neighbors(ctx, node, RelationId(index as u16))?;
                relations.insert(name.clone(), Value::nodes(neighbors));
            }
            Ok(Value::Map(relations))
        },
    ),
    ToolSpec::new(
        "get_related_nodes",
        &[NODE, ArgSpec::new("relation_type", Kind::Text)],
        Kind::Nodes,
        "The node's neighbours by a relation, in any direction.",
        r#"get_related_nodes(0, "has_brand")"#,
        |ctx, args| {
            let node = lookup::node(ctx.base, args.node(0)?)?;
            let relation = lookup::relation(ctx.base, args.text(1)?)?;
            neighbors(ctx, node, relation).map(Value::nodes)
        },
    )
    .with_flow(NodeFlow::Metapath(Steps::Either)),
    ToolSpec::new(
        "compute_query_node_similarity",
        &[QUERY, NODES],
        Kind::Numbers,
        "Cosine similarity of the query's embedding and each node's, in the order of the ids given.",
        "compute_query_node_similarity(query, [0, 1])",
        |ctx, args| {
            let nodes = known_list(ctx, args, 1)?;
            let cosines = cosines(ctx, args.text(0)?, &nodes)?;
            Ok(Value::List(cosines.into_iter().map(|cosine| Value::Float(cosine.into())).collect()))
        },
    )
    .with_cost("1 per byte of the query, 10 per node"),
    ToolSpec::new(
        "compute_exact_match_score",
        &[STRING, NODES],
        Kind::Numbers,
        "1 where the string stands in the node's document between word borders, case and accents \
         ignored, else 0; in the order of the ids given.",
        r#"compute_exact_match_score("wool", [0, 1])"#,
        |ctx, args| {
            let string = args.text(0)?.trim();
            cost::charge_text(ctx, string)?;
            let words = fold(string).into_owned();
            per_node(ctx, args, |ctx, node| {
                let text = ctx.base.kb.text(node);
                cost::charge_read(ctx, text)?;
                Ok(f64::from(u8::from(contains_words(&fold(text), &words))))
            })
        },
    )
    .with_cost("1 per byte of the string; 1 per node and per 100 bytes of its document"),
    ToolSpec::new(
        "compute_recall_score",
        &[STRING, NODES],
        Kind::Numbers,
        "Share of the string's words that the node's document has, with stemming, repeats counted, \
         in 0..1; in the order of the ids given.",
        r#"compute_recall_score("warm wool socks", [0, 1])"#,
        |ctx, args| {
            let string = args.text(0)?;
            cost::charge_text(ctx, string)?;
            let mut counts: HashMap<Option<u32>, u32> = HashMap::new();
            for stem in ctx.base.stems.of(string) {
                *counts.entry(ctx.base.terms.stem_id(&stem)).or_default() += 1;
            }
            let total: u32 = counts.values().sum();
            cost::charge_scored(ctx, args.node_list(1)?.len(), 0)?;
            per_node(ctx, args, |ctx, node| {
                let shared: u32 = ctx
                    .base
                    .terms
                    .stems_of(node)
                    .map(|(stem, count)| counts.get(&Some(stem)).map_or(0, |&n| n.min(count)))
                    .sum();
                Ok(f64::from(shared) / f64::from(total.max(1)))
            })
        },
    )
    .with_cost("1 per byte of the string; 10 per node"),
    ToolSpec::new(
        "compute_cosine_similarity",
        &[ArgSpec::new("embedding_1", Kind::Vectors), ArgSpec::new("embedding_2", Kind::Vectors)],
        Kind::Any,
        "Cosine similarities as a list of rows: row i holds vector i of the first list against \
         every vector of the second; 0 for a vector of zeros. At most 100,000 pairs.",
        "compute_cosine_similarity(get_text_embedding(query), get_node_embedding([0, 1]))",
        cosine_similarity,
    )
    .with_cost("1 per pair, and 1 per 64 numbers of each vector and pair"),
];

pub(super) fn check_limit(n: usize, limit: usize, items: &str) -> Result<(), ToolError> {
    if n > limit {
        return Err(ToolError::BadArgs(format!(
            "{n} {items} exceed the limit of {limit} per call"
        )));
    }
    Ok(())
}

/// Returns the node ids of an argument in the given order; fails if the base lacks any of them.
fn known_list(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    index: usize,
) -> Result<Vec<NodeId>, ToolError> {
    let nodes = args.node_list(index)?;
    ctx.meter.touch(nodes.len())?;
    nodes.into_iter().map(|node| lookup::node(ctx.base, node)).collect()
}

/// Computes `number` for each node of the second argument, and returns the results in the given
/// order.
fn per_node(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    mut number: impl FnMut(&mut ToolCtx<'_>, NodeId) -> Result<f64, ToolError>,
) -> Result<Value, ToolError> {
    let nodes = known_list(ctx, args, 1)?;
    cost::map_nodes(ctx, &nodes, |ctx, node| number(ctx, node).map(Value::Float)).map(Value::List)
}

/// Whether the text contains the words between word boundaries; `false` if `words` is empty.
/// O(length of `text`), even for longer `words`.
fn contains_words(text: &str, words: &str) -> bool {
    let is_border = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    (1..=text.len()).contains(&words.len())
        && text.match_indices(words).any(|(start, found)| {
            is_border(text[..start].chars().next_back())
                && is_border(text[start + found.len()..].chars().next())
        })
}

fn cut(ctx: &mut ToolCtx<'_>, text: &str) -> Result<Value, ToolError> {
    let text = words::cut(text, MAX_TEXT_CHARS, " [cut]");
    ctx.meter.touch(text.len() / 100)?;
    Ok(Value::text(&text))
}

fn neighbors(
    ctx: &mut ToolCtx<'_>,
    node: NodeId,
    relation: RelationId,
) -> Result<NodeSet, ToolError> {
    let neighbors = ctx.base.kb.neighbors(node, relation, Direction::Any);
    ctx.meter.touch(neighbors.len())?;
    Ok(neighbors.iter().copied().collect())
}

/// Describes the relations of a node as [`relations_in_words`] does; charges the work.
fn relation_text(ctx: &mut ToolCtx<'_>, node: NodeId) -> Result<String, ToolError> {
    charge_relations(ctx, node)?;
    Ok(relations_in_words(ctx.base, node))
}

/// Charges the cost of reading the neighbours of a node to the meter.
pub(super) fn charge_relations(ctx: &mut ToolCtx<'_>, node: NodeId) -> Result<(), ToolError> {
    (0..ctx.base.kb.relations().len()).try_for_each(|relation| {
        ctx.meter.touch(ctx.base.kb.degree(node, RelationId(relation as u16), Direction::Any))
    })
}

/// Describes the relations of a node: `- relations:`, then a line per relation with its name and
/// the names of the neighbours. Empty if the node has no neighbours.
pub(super) fn relations_in_words(base: &IndexedBase, node: NodeId) -> String {
    let mut text = String::new();
    for (index, relation) in base.kb.relations().iter().enumerate() {
        let neighbors = base.kb.neighbors(node, RelationId(index as u16), Direction::Any);
        let neighbors: NodeSet = neighbors.iter().copied().collect();
        if neighbors.is_empty() {
            continue;
        }
        let names: Vec<&str> =
            neighbors.as_slice().iter().take(MAX_NAMED).map(|&other| base.kb.name(other)).collect();
        let more = if neighbors.len() > MAX_NAMED { ", [cut]" } else { "" };
        let header = if text.is_empty() { "- relations:\n" } else { "" };
        let _ = writeln!(text, "{header}  {relation}: {}{more}", names.join(", "));
    }
    text
}

fn relevant_chunk(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let node = lookup::node(ctx.base, args.node(0)?)?;
    let (attribute, k, size) = (args.text(1)?, args.count(2)?, args.count(3)?.max(16));
    if let Some(text) = ctx.base.kb.field_id(attribute).and_then(|f| ctx.base.kb.field(node, f)) {
        return cut(ctx, text);
    }
    let mut text = ctx.base.kb.text(node).to_owned();
    text.push_str(&relation_text(ctx, node)?);
    let chunks = pieces(&text, size);
    cost::charge_text(ctx, attribute)?;
    ctx.meter.touch(chunks.iter().map(|chunk| chunk.len().max(10)).sum())?;
    let vector = ctx.base.embed_query(attribute).map_err(internal)?;
    let mut scored = Vec::with_capacity(chunks.len());
    for (index, chunk) in chunks.iter().enumerate() {
        ctx.meter.poll()?;
        let of_chunk = ctx.base.embed_query(chunk).map_err(internal)?;
        scored.push((index as u32, dot(&vector, &of_chunk)));
    }
    let best = best(scored, k);
    let texts: Vec<&str> = best.iter().map(|&(index, _)| chunks[index as usize].as_str()).collect();
    cut(ctx, &texts.join(";\n"))
}

/// Splits a text at whitespace into pieces of at most `size` characters; a longer word is a piece
/// of its own. Text after [`MAX_CHUNKS`] pieces is dropped.
fn pieces(text: &str, size: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut n_chars = 0;
    for word in text.split_whitespace() {
        let (n, more) = (pieces.len(), word.chars().count());
        match pieces.last_mut() {
            Some(piece) if n_chars + more < size => {
                n_chars += 1 + more;
                piece.push(' ');
                piece.push_str(word);
            }
            _ if n == MAX_CHUNKS => break,
            _ => {
                n_chars = more;
                pieces.push(word.to_owned());
            }
        }
    }
    pieces
}

fn cosine_similarity(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (first, second) = (args.vectors(0)?, args.vectors(1)?);
    check_limit(first.len().saturating_mul(second.len()), MAX_PAIRS, "pairs of vectors")?;
    check_widths(&first, &second)?;
    let width = first.first().map_or(0, |vector| vector.len());
    let per_vector = 1 + width / NUMBERS_PER_UNIT;
    ctx.meter.touch((first.len() + second.len() + first.len() * second.len()) * per_vector)?;
    let norm = |vector: &&[f32]| dot(vector, vector).sqrt();
    let norms: Vec<f32> = second.iter().map(norm).collect();
    let mut rows = Vec::with_capacity(first.len());
    for a in &first {
        ctx.meter.poll()?;
        let norm_a = norm(a);
        let cosine = |(b, norm_b): (&&[f32], &f32)| {
            let norms = norm_a * norm_b;
            Value::Float(if norms > 0.0 { f64::from(dot(a, b) / norms) } else { 0.0 })
        };
        rows.push(Value::List(second.iter().zip(&norms).map(cosine).collect()));
    }
    Ok(Value::List(rows))
}

/// Checks that all vectors have the same length.
fn check_widths(first: &[&[f32]], second: &[&[f32]]) -> Result<(), ToolError> {
    let widths: BTreeSet<usize> = first.iter().chain(second).map(|vector| vector.len()).collect();
    if widths.len() > 1 {
        return Err(ToolError::BadArgs(format!(
            "vectors must have the same length, got {widths:?}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check_widths, contains_words};

    #[test]
    fn vectors_of_several_widths_are_refused_and_none_are_fine() {
        assert_eq!(check_widths(&[], &[&[1.0, 2.0]]), Ok(()));
        assert_eq!(check_widths(&[&[1.0]], &[&[2.0]]), Ok(()));
        assert!(check_widths(&[&[1.0]], &[&[1.0, 2.0]]).is_err());
        assert!(check_widths(&[&[1.0], &[1.0, 2.0]], &[]).is_err());
    }

    #[test]
    fn words_are_found_between_borders_only() {
        assert!(contains_words("warm ion lotion", "ion"));
        assert!(!contains_words("warm lotion", "ion"));
        assert!(contains_words("size 10-inch", "10-inch"));
        assert!(!contains_words("anything", "") && !contains_words("ion", "ions"));
    }
}
