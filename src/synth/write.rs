//! Writes questions as files: `qa.csv` with their provenance, and the splits.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use crate::{Question, SynthError};
use agent_dataset::{SYNTHETIC, id_list, id_of};
use agent_kb::{Kb, NodeId};

/// Columns; the first three are those of every query file.
const COLUMNS: [&str; 12] = [
    "id",
    "query",
    "answer_ids",
    "kind",
    "template",
    "source",
    "style",
    "slots",
    "gold",
    "properties",
    "votes",
    "seed",
];
/// Splits of five successive questions of one template: 0 is train, 1 val, 2 test.
const TURNS: [usize; 5] = [0, 1, 0, 2, 0];
const SPLITS: [&str; 3] = ["train", "val", "test"];

/// Assigns each question a split (0 is train, 1 val, 2 test) by its template, with shares of 60, 20
/// and 20 per cent of each template. Templates start at different turns, so that rare ones are not
/// all in one split.
pub fn splits<'a>(templates: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for template in templates {
        let first = turns.len();
        let turn = turns.entry(template).or_insert(first);
        found.push(TURNS[*turn % TURNS.len()]);
        *turn += 1;
    }
    found
}

/// Returns the numbers of questions in the training, validation and test split.
pub fn split_sizes(assigned: &[usize]) -> [usize; 3] {
    [0, 1, 2].map(|split| assigned.iter().filter(|assigned| **assigned == split).count())
}

/// Form of the node ids in a file of questions.
#[derive(Clone, Copy)]
pub enum Ids<'a> {
    /// Node numbers, as an installed base keeps them.
    Numbers,
    /// Ids from the data of this base, for people and for an import.
    Own(&'a Kb),
}

impl Ids<'_> {
    fn id(self, node: NodeId) -> String {
        match self {
            Ids::Numbers => node.to_string(),
            Ids::Own(kb) => id_of(kb, node).into_owned(),
        }
    }

    fn list(self, nodes: &[NodeId]) -> io::Result<String> {
        let unlisted = |id| {
            io::Error::other(format!(
                "a list cannot hold the id {id:?}, which has a comma and both kinds of quotes; leave \
                 --to out, or give the node another id"
            ))
        };
        match self {
            Ids::Numbers => Ok(format!("{nodes:?}")),
            Ids::Own(kb) => id_list(kb, nodes).map_err(unlisted),
        }
    }
}

/// Returns one row per question, in the order of [`COLUMNS`].
fn rows(questions: &[Question], seed: u64, ids: Ids<'_>) -> io::Result<Vec<Vec<String>>> {
    let row = |(id, question): (usize, &Question)| {
        let votes = match question.votes.is_empty() {
            true => String::new(),
            false => serde_json::to_string(&question.votes)?,
        };
        Ok(vec![
            id.to_string(),
            question.text.clone(),
            ids.list(&question.answers)?,
            question.kind.name().to_owned(),
            question.template.clone(),
            SYNTHETIC.to_owned(),
            question.style.name().to_owned(),
            ids.list(&question.slots)?,
            ids.id(question.gold),
            serde_json::to_string(&question.properties)?,
            votes,
            seed.to_string(),
        ])
    };
    questions.iter().enumerate().map(row).collect()
}

/// Writes the files into a directory; none of them may exist.
pub(super) fn write(
    questions: &[Question],
    seed: u64,
    ids: Ids<'_>,
    dir: &Path,
) -> Result<(), SynthError> {
    let assigned = splits(questions.iter().map(|question| question.template.as_str()));
    write_files(dir, &COLUMNS, rows(questions, seed, ids), &assigned)
}

/// Writes `qa.csv`, with these columns and a row per question, and the files of `split/` into a
/// directory; none of them may exist. Ids are row indexes, and `assigned` has the split of each.
///
/// # Errors
/// [`SynthError::Write`].
pub fn write_files(
    dir: &Path,
    columns: &[&str],
    rows: io::Result<Vec<Vec<String>>>,
    assigned: &[usize],
) -> Result<(), SynthError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SynthError::Write { path, source }
    };
    let path = dir.join("qa.csv");
    let csv = || -> io::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(columns)?;
        rows?.iter().try_for_each(|row| writer.write_record(row))?;
        writer.into_inner().map_err(csv::IntoInnerError::into_error)
    };
    let bytes = csv().map_err(failed(&path))?;
    let folder = dir.join("split");
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let make = |path: &Path, bytes: &[u8]| {
        File::create_new(path).and_then(|mut file| file.write_all(bytes)).map_err(failed(path))
    };
    make(&path, &bytes)?;
    for (split, name) in SPLITS.iter().enumerate() {
        let members = assigned.iter().enumerate().filter(|(_, assigned)| **assigned == split);
        let ids: String = members.map(|(id, _)| format!("{id}\n")).collect();
        make(&folder.join(format!("{name}.index")), ids.as_bytes())?;
    }
    Ok(())
}
