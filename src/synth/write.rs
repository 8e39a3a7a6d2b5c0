//! Writes questions as files: `qa.csv`, with a record of how each question was made, and the
//! splits.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::Path,
};

use crate::{Question, SynthError};
use agent_dataset::{SYNTHETIC, id_list, id_of};
use agent_ground::files;
use agent_kb::{Kb, NodeId};

/// Names of the columns of `qa.csv`, separated by spaces; the first three are required in every
/// query file.
pub(super) const COLUMNS: &str =
    "id query answer_ids kind template source style slots gold properties votes seed";
/// Splits of five successive questions of one template: 0 is train, 1 is val, 2 is test.
const TURNS: [usize; 5] = [0, 1, 0, 2, 0];
const SPLITS: [&str; 3] = ["train", "val", "test"];

/// Returns the split of each question: 0 (train), 1 (val) or 2 (test), with shares of 60, 20 and 20
/// per cent of the questions of each template. `templates` has the template id of each question.
/// The first questions of different templates go to different splits, so that rare templates are
/// not all in one split.
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

/// Counts the questions assigned to each split: train (0), val (1) and test (2).
pub fn split_sizes(assigned: &[usize]) -> [usize; 3] {
    [0, 1, 2].map(|split| assigned.iter().filter(|assigned| **assigned == split).count())
}

/// How a file of questions writes node ids.
#[derive(Clone, Copy)]
pub enum Ids<'a> {
    /// As node numbers, as in the query files of an installed base.
    Numbers,
    /// As the ids in the data from which this base was imported, for people and for a new import.
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

/// Returns the cells of `qa.csv`: one row per question, in the order of [`COLUMNS`].
pub(super) fn rows(
    questions: &[Question],
    seed: u64,
    ids: Ids<'_>,
) -> io::Result<Vec<Vec<String>>> {
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

/// Writes `qa.csv` and the files of `split/` into the directory `dir`. Writes nothing if one of
/// these files exists. `rows` has the cells of each question for the columns. The id of a question
/// is the index of its row, and `assigned` has its split: 0 (train), 1 (val) or 2 (test).
///
/// # Errors
/// [`SynthError::Write`], also for an error in `rows`.
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
    let mut contents = vec![(path, bytes)];
    for (split, name) in SPLITS.iter().enumerate() {
        let members = assigned.iter().enumerate().filter(|(_, assigned)| **assigned == split);
        let ids: String = members.map(|(id, _)| format!("{id}\n")).collect();
        contents.push((folder.join(format!("{name}.index")), ids.into_bytes()));
    }
    if let Some((path, _)) = contents.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        let why = "it already exists; remove it, or name another directory";
        return Err(failed(path)(io::Error::new(io::ErrorKind::AlreadyExists, why)));
    }
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    // Files are moved into place only after all are written, so that a full disk leaves none of
    // them.
    let mut written = Vec::new();
    for (path, bytes) in contents {
        let folder = path.parent().unwrap_or(dir);
        let mut file = files::temporary_file(folder, ".questions-").map_err(failed(&path))?;
        file.write_all(&bytes).map_err(failed(&path))?;
        written.push((file, path));
    }
    for (file, path) in written {
        file.persist_noclobber(&path).map_err(|error| failed(&path)(error.error))?;
    }
    Ok(())
}
