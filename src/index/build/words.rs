//! Builds `words/`: all indexes that depend on the base alone.

use std::{fs, path::Path};

use crate::{
    index::{
        IndexError,
        build::Watch,
        entities,
        layout::{NAMES, NAMES_TERMS, Staging, TERMS, TEXT, WORDS, WordsRecord},
        terms::TermIndexBuilder,
        text::TextIndexBuilder,
    },
    kb::{Direction, Kb, NodeId, RelationId},
};

/// Neighbours of one relation whose names are indexed with a node.
const MAX_NAMED_NEIGHBORS: usize = 1_000;
/// Nodes between two reports of progress.
const REPORT_EVERY: u32 = 4_096;

/// Builds and publishes the words of an index directory.
pub(super) fn build(kb: &Kb, index: &Path, watch: &Watch<'_>) -> Result<(), IndexError> {
    let staging = Staging::new(index)?;
    let dir = staging.path();
    entities::build(kb, &dir.join(NAMES), &mut || watch.go_on())?;
    build_text(kb, dir, watch)?;
    WordsRecord::new(kb.fingerprint()).write(dir)?;
    staging.publish(&index.join(WORDS))
}

fn build_text(kb: &Kb, dir: &Path, watch: &Watch<'_>) -> Result<(), IndexError> {
    let text_dir = dir.join(TEXT);
    fs::create_dir(&text_dir).map_err(|error| IndexError::io(&text_dir, error))?;
    let mut text = TextIndexBuilder::create(&text_dir, kb.field_names().len());
    let mut terms = TermIndexBuilder::create(&dir.join(TERMS))?;
    let mut names_terms = TermIndexBuilder::create(&dir.join(NAMES_TERMS))?;
    for node in 0..kb.n_nodes() {
        if node % REPORT_EVERY == 0 {
            watch.at("text", node.into(), kb.n_nodes().into())?;
        }
        watch.go_on()?;
        let names = neighbor_names(kb, node);
        text.add(kb.node_type(node), kb.text(node), &names, kb.fields(node))?;
        terms.add(kb.text(node))?;
        names_terms.add(&names)?;
    }
    text.finish()?;
    terms.finish()?;
    names_terms.finish()?;
    watch.at("text", kb.n_nodes().into(), kb.n_nodes().into())
}

/// The names of a node's neighbours by every relation, one a line.
fn neighbor_names(kb: &Kb, node: NodeId) -> String {
    let mut names = String::new();
    for relation in 0..kb.relations().len() {
        let neighbors = kb.neighbors(node, RelationId(relation as u16), Direction::Any);
        for &neighbor in neighbors.iter().take(MAX_NAMED_NEIGHBORS) {
            names.push_str(kb.name(neighbor));
            names.push('\n');
        }
    }
    names
}
