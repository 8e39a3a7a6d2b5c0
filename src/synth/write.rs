//! Questions as files: `qa.csv` with everything that says how they came about, and the splits.
//!
//! Must not know: how questions are made, where a base keeps them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use crate::{
    dataset::SYNTHETIC,
    kb::NodeId,
    synth::{Question, SynthError},
};

/// The columns, the first three those of every query file.
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
/// The splits of five questions of one template, train 0, val 1, test 2.
const TURNS: [usize; 5] = [0, 1, 0, 2, 0];
const SPLITS: [&str; 3] = ["train", "val", "test"];

/// The split of each question: of each template 60, 20 and 20 per cent. Where the turns of a
/// template begin changes from one to the next, so that rare ones are not all in one split.
pub(super) fn splits(questions: &[Question]) -> Vec<usize> {
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::with_capacity(questions.len());
    for question in questions {
        let first = turns.len();
        let turn = turns.entry(&question.template).or_insert(first);
        found.push(TURNS[*turn % TURNS.len()]);
        *turn += 1;
    }
    found
}

fn list(nodes: &[NodeId]) -> String {
    let ids: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    format!("[{}]", ids.join(", "))
}

fn csv_of(questions: &[Question], seed: u64) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for (id, question) in questions.iter().enumerate() {
        let json = |value: serde_json::Result<String>| value.map_err(io::Error::from);
        let votes = match question.votes.is_empty() {
            true => String::new(),
            false => json(serde_json::to_string(&question.votes))?,
        };
        writer.write_record([
            &id.to_string(),
            &question.text,
            &list(&question.answers),
            question.kind.name(),
            &question.template,
            SYNTHETIC,
            question.style.name(),
            &list(&question.slots),
            &question.gold.to_string(),
            &json(serde_json::to_string(&question.properties))?,
            &votes,
            &seed.to_string(),
        ])?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}

/// Writes the files of a directory; none of them may be there.
pub(super) fn write(questions: &[Question], seed: u64, dir: &Path) -> Result<(), SynthError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SynthError::Write { path, source }
    };
    let folder = dir.join("split");
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let make = |path: &Path, bytes: &[u8]| {
        File::create_new(path).and_then(|mut file| file.write_all(bytes)).map_err(failed(path))
    };
    let path = dir.join("qa.csv");
    let bytes = csv_of(questions, seed).map_err(failed(&path))?;
    make(&path, &bytes)?;
    let assigned = splits(questions);
    for (split, name) in SPLITS.iter().enumerate() {
        let own = assigned.iter().enumerate().filter(|(_, assigned)| **assigned == split);
        let ids: String = own.map(|(id, _)| format!("{id}\n")).collect();
        make(&folder.join(format!("{name}.index")), ids.as_bytes())?;
    }
    Ok(())
}
