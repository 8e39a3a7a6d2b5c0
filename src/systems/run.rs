//! The system `run:FILE`: the rankings in a TREC run file, to compare with other retrieval
//! software.
//!
//! A run file has the ids of queries, but a system receives only their texts; therefore, the system
//! is opened with the ids and texts of all queries. `agent eval` writes strictly decreasing scores
//! to run files. nDCG averages over nodes with equal scores, and such a file has none. So the nDCG
//! of a run file may differ from that of the system that made the file; other metrics do not
//! differ.

use std::{
    collections::{HashMap, HashSet},
    io::BufReader,
};

use crate::{Need, Opener, SystemError, SystemSpec, file_of};
use agent_ground::files;
use agent_retrieve::{
    Answer, Detail, Ranking, RetrieveError, Retriever,
    eval::trec::{self, DocIds},
    rank_explanation,
};

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "run",
    arguments: ":FILE",
    summary: "the rankings of a TREC run file, with the query and node ids of agent eval",
    needs: &[Need::File, Need::Queries],
    open,
};

/// The rankings in a run file.
struct Run {
    name: String,
    /// For each query text, without surrounding white space, its ranking.
    rankings: HashMap<String, Ranking>,
}

fn open(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (name, path) = (format!("{}{arguments}", SPEC.name), file_of(arguments));
    let wrong = |why: String| SystemError::Run { file: path.display().to_string(), why };
    if opener.queries.is_empty() {
        return Err(SystemError::NoQueries(name));
    }
    let ids: HashSet<i64> = opener.queries.iter().map(|query| query.0).collect();
    let file = files::open(path).map_err(|error| wrong(format!("cannot read it: {error}")))?;
    let nodes = DocIds::of_base(&opener.base.kb);
    let read = trec::read_run(&mut BufReader::new(file), nodes, &ids)
        .map_err(|error| wrong(error.to_string()))?;
    let (n, lacking) = (ids.len(), ids.len() - read.len());
    if read.is_empty() {
        let why = format!("it ranks none of the {n} queries; give a run file of this split");
        return Err(wrong(why));
    }
    if lacking > 0 {
        let counted = "each of these counts with an empty ranking";
        (opener.notice)(&format!("{name} lacks {lacking} of {n} queries; {counted}"));
    }
    let rankings = by_words(opener.queries, read).map_err(wrong)?;
    Ok(Box::new(Run { name, rankings }))
}

/// Converts rankings by query id to rankings by query text, without surrounding white space.
/// Queries without a ranking get an empty ranking.
///
/// # Errors
/// A message if two queries have the same text but different rankings.
fn by_words(
    queries: &[(i64, String)],
    mut read: HashMap<i64, Ranking>,
) -> Result<HashMap<String, Ranking>, String> {
    let mut rankings = HashMap::<String, (i64, Ranking)>::with_capacity(queries.len());
    for (id, text) in queries {
        let ranking = read.remove(id).unwrap_or_default();
        match rankings.get(text.trim()) {
            Some((other, same)) if *same != ranking => {
                return Err(format!(
                    "queries {other} and {id} have the same text and different rankings; evaluate \
                     them separately"
                ));
            }
            Some(_) => {}
            None => {
                rankings.insert(text.trim().to_owned(), (*id, ranking));
            }
        }
    }
    Ok(rankings.into_iter().map(|(text, (_, ranking))| (text, ranking)).collect())
}

impl Retriever for Run {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let unknown =
            || RetrieveError::Program(format!("{} was not opened for this query", self.name));
        let ranking = self.rankings.get(query.trim()).ok_or_else(unknown)?;
        let ranking = ranking.iter().take(k).copied().collect();
        Ok(Answer::with_explanations(ranking, detail, |at, _, score| {
            rank_explanation(&self.name, at, score)
        }))
    }
}
