//! Builds `words/`, the indexes that do not depend on the embedder. [`read_words`] analyses the
//! words of a range of nodes, on any computer; a build on one computer then combines the results
//! for all ranges.

use std::{
    env, fs,
    io::{self, Read, Write},
    ops::Range,
    path::Path,
    sync::Mutex,
};

use crate::{
    IndexError, Result, bm25f,
    build::{Watch, has_no_name, is_numbered, names_of_neighbors},
    documents::Documents,
    entities,
    language::languages,
    layout::{NAMES, NAMES_TERMS, Record, Staging, TERMS, TEXT, WORDS, WordsRecord},
    postings::{is_much, settle},
    stream::{failed, invalid_data},
    terms::{TermIndex, TermIndexBuilder},
    text::{TextIndexBuilder, WEIGHTED},
};
use agent_ground::{locks::locked, words::Languages};
use agent_kb::{Direction, Kb, NodeId, RelationId, TypeId};

/// Maximum number of nodes per relation that a node refers to and whose column values are indexed
/// with it; also the maximum number of these values per relation of such a node.
const MAX_REFERRED: usize = 20;
/// Maximum number of rows that refer to a node by one relation and whose names are indexed with the
/// node; see [`is_hub`].
const MAX_ROWS_OF_HUB: usize = 20;
/// Name of the stage in progress reports.
const STAGE: &str = "text";
/// Tag before the output of the text builders. One range may have several such outputs, each with
/// this tag.
const POSTINGS: u8 = 1;
/// Tag before the output of the term builders; this output is the last of a range.
const ENTRIES: u8 = 2;

/// Where a build gets the words of a base from.
#[derive(Clone, Copy)]
pub enum WordSource<'a> {
    /// The texts of the nodes, analysed during the build.
    Nodes,
    /// The output of [`read_words`] for all nodes: its ranges one after another, in node order.
    Read(&'a Mutex<&'a mut (dyn Read + Send)>),
}

/// Builders of the indexes over the texts of nodes and the names of their neighbours.
struct Builders {
    /// Types whose nodes represent values of a column ([`Kb::value_types`]).
    values: Vec<TypeId>,
    documents: Documents,
    text: TextIndexBuilder,
    terms: TermIndexBuilder,
    names_terms: TermIndexBuilder,
}

/// Builds the words of a base and publishes them in the directory `index`.
pub(super) fn build(
    kb: &Kb,
    languages: Languages,
    index: &Path,
    source: WordSource<'_>,
    watch: &Watch<'_>,
) -> Result<()> {
    let staging = Staging::new(index)?;
    let dir = staging.path();
    entities::build(kb, languages, &dir.join(NAMES), &mut || watch.check_stop())?;
    let text = dir.join(TEXT);
    fs::create_dir(&text).map_err(IndexError::io(&text))?;
    let mut builders = Builders::create(kb, languages, dir)?;
    match source {
        WordSource::Nodes => {
            for node in 0..kb.n_nodes() {
                builders.add(kb, node, watch)?;
                settle(&mut builders.text.parts)?;
            }
        }
        WordSource::Read(input) => {
            let mut input = locked(input);
            builders.take(kb, *input, watch)?;
        }
    }
    builders.finish(kb)?;
    let [documents, names] = [TERMS, NAMES_TERMS].map(|name| TermIndex::open(&dir.join(name)));
    let n = kb.n_nodes() as usize;
    bm25f::build(&text.join(WEIGHTED), languages, [&documents?, &names?], n)?;
    watch.progress(STAGE, kb.n_nodes().into(), kb.n_nodes().into())?;
    WordsRecord::new(kb.fingerprint(), languages).write(dir)?;
    staging.publish(&index.join(WORDS))
}

/// Analyses the words of a range of nodes and writes them to `out`, as input for
/// [`WordSource::Read`]. Memory is bounded as in a build. The output depends only on the base and
/// the range.
///
/// # Errors
/// [`IndexError::Io`] when `out` fails or the temporary directory is full, [`IndexError::Stopped`].
pub fn read_words(
    kb: &Kb,
    nodes: Range<NodeId>,
    out: &mut dyn Write,
    watch: &Watch<'_>,
) -> Result<()> {
    let failed = IndexError::io(Path::new("the analysed words"));
    let mut builders = Builders::create(kb, languages(kb), &env::temp_dir())?;
    for node in nodes {
        builders.add(kb, node, watch)?;
        if is_much(&builders.text.parts) {
            builders.give_text(out).map_err(failed)?;
        }
    }
    builders.give(out).map_err(failed)
}

impl Builders {
    fn create(kb: &Kb, languages: Languages, dir: &Path) -> Result<Self> {
        Ok(Self {
            values: kb.value_types(),
            documents: Documents::new(kb),
            text: TextIndexBuilder::create(&dir.join(TEXT), kb.field_names().len(), languages),
            terms: TermIndexBuilder::create(&dir.join(TERMS), languages)?,
            names_terms: TermIndexBuilder::create(&dir.join(NAMES_TERMS), languages)?,
        })
    }

    /// Adds the words of a node; ids must ascend between calls.
    fn add(&mut self, kb: &Kb, node: NodeId, watch: &Watch<'_>) -> Result<()> {
        watch.step(STAGE, node.into(), kb.n_nodes().into())?;
        let names = neighbor_names(kb, node, &self.values);
        let document = self.documents.of_whole(kb, node);
        self.text.add(node, &document, &names, kb.fields(node));
        self.terms.add(&document)?;
        self.names_terms.add(&names)
    }

    fn give_text(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&[POSTINGS])?;
        self.text.give(out)
    }

    fn give(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.give_text(out)?;
        out.write_all(&[ENTRIES])?;
        self.terms.give(out)?;
        self.names_terms.give(out)
    }

    /// Adds the output of [`read_words`] for all nodes: its ranges one after another, in node
    /// order.
    fn take(&mut self, kb: &Kb, input: &mut dyn Read, watch: &Watch<'_>) -> Result<()> {
        let mut tag = [0];
        while input.read(&mut tag).map_err(failed)? > 0 {
            let there = self.terms.n_nodes();
            watch.progress(STAGE, there as u64, kb.n_nodes().into())?;
            let left = kb.n_nodes() as usize - there;
            match tag[0] {
                POSTINGS => self.text.take(input, kb.n_nodes())?,
                ENTRIES => {
                    let taken = self.terms.take(input, left)?;
                    if self.names_terms.take(input, left)? != taken {
                        return Err(failed(invalid_data("names do not match the nodes")));
                    }
                }
                _ => return Err(failed(invalid_data("unknown kind of data"))),
            }
        }
        match self.terms.n_nodes() == kb.n_nodes() as usize {
            true => Ok(()),
            false => Err(failed(invalid_data("the input ends before the last node"))),
        }
    }

    fn finish(self, kb: &Kb) -> Result<()> {
        self.text.finish((0..kb.n_nodes()).map(|node| kb.node_type(node)))?;
        self.terms.finish()?;
        self.names_terms.finish()
    }
}

/// Whether a node that may be an answer is one to which more than [`MAX_ROWS_OF_HUB`] rows of other
/// types refer by a relation, each row to this node alone: a component with hundreds of issues. A
/// question with words of their names asks for these rows, not for the node.
fn is_hub(kb: &Kb, node: NodeId, relation: RelationId) -> bool {
    let is_row = |row: &NodeId| {
        kb.is_candidate(*row)
            && kb.node_type(*row) != kb.node_type(node)
            && kb.degree(*row, relation, Direction::Out) == 1
    };
    kb.is_candidate(node)
        && kb.degree(node, relation, Direction::In) > MAX_ROWS_OF_HUB
        && kb.neighbors(node, relation, Direction::In).iter().all(is_row)
}

/// Returns the names of a node's neighbours, one per line. In a base with value types, the column
/// values of the nodes that this node refers to come next. A node without a name of its own also
/// gets the name of a node two relations away if each relation leads to a single node: a repair
/// gets the area of its property.
fn neighbor_names(kb: &Kb, node: NodeId, values: &[TypeId]) -> String {
    let relations = || (0..kb.relations().len()).map(|at| RelationId(at as u16));
    let mut names = String::new();
    let mut add = |name: &str| {
        names.push_str(name);
        names.push('\n');
    };
    for relation in relations() {
        let direction = if is_hub(kb, node, relation) { Direction::Out } else { Direction::Any };
        names_of_neighbors(kb, node, relation, direction).into_iter().for_each(&mut add);
    }
    if values.is_empty() || values.contains(&kb.node_type(node)) {
        return names;
    }
    let is_value = |node: NodeId| values.contains(&kb.node_type(node));
    let has_no_name = has_no_name(kb, node);
    for relation in relations() {
        let referred = kb.neighbors(node, relation, Direction::Out);
        let is_alone = has_no_name && referred.len() == 1;
        for &neighbor in referred.iter().take(MAX_REFERRED).filter(|node| !is_value(**node)) {
            for relation in relations() {
                let ends = kb.neighbors(neighbor, relation, Direction::Out);
                match &*ends {
                    &[end] if is_alone && end != node && !is_numbered(kb, end) => add(kb.name(end)),
                    _ => {
                        let values = ends.iter().filter(|node| is_value(**node));
                        values.take(MAX_REFERRED).for_each(|&value| add(kb.name(value)));
                    }
                }
            }
        }
    }
    names
}
