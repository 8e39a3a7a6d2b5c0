//! Categories of queries: a model finds categories in a sample of training queries, then assigns
//! all other queries to them.
//!
//! Every assignment in a reply is checked. If a reply omits a query, or assigns it to two
//! categories or to an unknown category, the model is asked about this query once more. If that
//! fails too, the query stays unassigned. If many training queries are unassigned, the model is
//! asked once for further categories among them. Small categories join [`OTHERS`]. The model sees
//! no answers.

use rand::seq::SliceRandom;
use serde_json::{Value, json};

use crate::{
    Result, Run,
    actor::{Actor, CategoryRecord, only},
    category_programs::MAX_CATEGORIES,
    trial::{Pool, generator},
};
use agent_ground::words::one_line;
use agent_kb::distinct;
use agent_llm::RoleSpec;

/// The role that finds categories of queries and assigns queries to them.
pub(crate) const CATEGORIES_ROLE: RoleSpec = RoleSpec {
    name: "categories",
    summary: "finds categories of queries, and assigns queries to them",
    temperature: Some(0.0),
    max_tokens: 4_096,
};

/// Maximum number of training queries in a request for categories.
pub(super) const SAMPLE: usize = 200;
/// Maximum number of queries in one request that assigns queries to categories.
pub(super) const BATCH: usize = 120;
/// A category must have at least `1 / MIN_SHARE` of all training queries.
const MIN_SHARE: usize = 25;
/// Minimum number of training queries of a category, however few training queries there are.
pub(super) const MIN_QUERIES: usize = 3;
/// If more than `1 / MAX_LEFT_SHARE` of the training queries are unassigned, the model is asked for
/// further categories among them.
const MAX_LEFT_SHARE: usize = 10;
/// Maximum length in characters of a category's name.
const NAME_CHARS: usize = 80;
/// Maximum length in characters of a category's description.
const DESCRIPTION_CHARS: usize = 400;
/// Name of the category for all queries that are in no other category.
pub(super) const OTHERS: &str = "other questions";
/// Number of the random generator's stream from which the sample of training queries is drawn.
const SAMPLE_STREAM: u64 = 1 << 40;

impl Run<'_> {
    /// Asks a model for categories and for the category of each training and validation query.
    /// Returns at least one category. The last one is [`OTHERS`] if it has training queries or
    /// there is no other category.
    pub(super) fn find_categories(&mut self, actor: &mut Actor) -> Result<Vec<CategoryRecord>> {
        let n = self.train.queries.len();
        let mut sample: Vec<usize> = (0..n).collect();
        sample.shuffle(&mut generator(self.options.seed, SAMPLE_STREAM));
        sample.truncate(SAMPLE);
        let mut train: Vec<Option<usize>> = vec![None; n];
        let mut named = self.discover_categories(actor, &sample, MAX_CATEGORIES - 1, &mut train)?;
        let left = |train: &[Option<usize>]| -> Vec<usize> {
            (0..n).filter(|&query| train[query].is_none()).collect()
        };
        let open = left(&train);
        let assigned = self.assign_queries(actor, &named, true, &open)?;
        open.iter().zip(assigned).for_each(|(&query, category)| train[query] = category);
        let left = left(&train);
        if left.len() * MAX_LEFT_SHARE > n && left.len() >= MIN_QUERIES && actor.stop.is_none() {
            let room = (MAX_CATEGORIES - 1).saturating_sub(named.len());
            let more: Vec<usize> = left.iter().copied().take(SAMPLE).collect();
            let known = named.len();
            let mut places: Vec<Option<usize>> = vec![None; n];
            named.extend(self.discover_categories(actor, &more, room, &mut places)?);
            for &query in &more {
                train[query] = places[query].map(|category| known + category);
            }
        }
        let all: Vec<usize> = (0..self.validation.queries.len()).collect();
        let validation = self.assign_queries(actor, &named, false, &all)?;
        Ok(grouped(named, &train, &validation))
    }

    /// Asks a model for at most `max_categories` categories of the training queries in `sample`;
    /// returns the names and descriptions of the categories. Stores in `places`, for each assigned
    /// training query, the index of its category in the returned list.
    fn discover_categories(
        &mut self,
        actor: &mut Actor,
        sample: &[usize],
        max_categories: usize,
        places: &mut [Option<usize>],
    ) -> Result<Vec<(String, String)>> {
        if max_categories == 0 || actor.stop.is_some() {
            return Ok(Vec::new());
        }
        let inputs = json!({
            "schema": actor.briefing.schema,
            "queries": numbered(&self.train, sample),
        });
        let replies =
            actor.ask_json_all(CATEGORIES_ROLE.role(), "categories/discover", vec![inputs], 0)?;
        match only(replies) {
            Ok(reply) => {
                let found = proposed_categories(&reply, sample.len(), max_categories);
                for (index, category) in found.iter().enumerate() {
                    category.queries.iter().for_each(|&place| places[sample[place]] = Some(index));
                }
                Ok(found.into_iter().map(|found| (found.name, found.description)).collect())
            }
            Err(why) => {
                self.report(format!("no categories found: {why}"));
                Ok(Vec::new())
            }
        }
    }

    /// Asks a model to assign queries of the training pool (if `in_train`) or the validation pool
    /// to the categories in `named`, given by name and description. Returns, in the order of
    /// `queries`, the index of each query's category in `named`; `None` if the query is unassigned.
    fn assign_queries(
        &mut self,
        actor: &mut Actor,
        named: &[(String, String)],
        in_train: bool,
        queries: &[usize],
    ) -> Result<Vec<Option<usize>>> {
        if named.is_empty() {
            return Ok(vec![None; queries.len()]);
        }
        let mut assigned: Vec<Option<Option<usize>>> = vec![None; queries.len()];
        let mut listed = Vec::new();
        for (n, (name, description)) in (1..).zip(named) {
            listed.push(json!({ "n": n, "name": name, "description": description }));
        }
        // The second pass asks about the queries that the replies of the first pass omitted.
        for pass in 0..2 {
            let open: Vec<usize> =
                (0..queries.len()).filter(|&at| assigned[at].is_none()).collect();
            self.trials.check_stop()?;
            if actor.stop.is_some() {
                break;
            }
            let pool = if in_train { &self.train } else { &self.validation };
            let inputs = open.chunks(BATCH).map(|batch| {
                let ids: Vec<usize> = batch.iter().map(|&at| queries[at]).collect();
                json!({ "categories": listed, "queries": numbered(pool, &ids) })
            });
            let (role, inputs) = (CATEGORIES_ROLE.role(), inputs.collect());
            let replies = actor.ask_json_all(role, "categories/assign", inputs, pass)?;
            for (batch, reply) in open.chunks(BATCH).zip(replies) {
                let reply = reply.unwrap_or_default();
                for (place, category) in assignments(&reply, batch.len(), named.len()) {
                    assigned[batch[place]] = Some(category);
                }
            }
        }
        Ok(assigned.into_iter().map(Option::flatten).collect())
    }
}

/// Returns the texts of queries, numbered from 1, for a prompt.
fn numbered(pool: &Pool, queries: &[usize]) -> Vec<Value> {
    let one = |(&at, n): (&usize, usize)| json!({ "n": n, "text": pool.queries[at].text });
    queries.iter().zip(1..).map(one).collect()
}

/// A category that a model's reply proposes.
#[derive(Debug, PartialEq)]
struct ProposedCategory {
    name: String,
    description: String,
    /// The queries that the reply puts into this category and no other: positions in the prompt
    /// from 0, ascending.
    queries: Vec<usize>,
}

/// Parses the categories in a model's reply to a prompt with `n_queries` queries; returns at most
/// `max_categories`. Cuts long names and descriptions. Drops categories with a repeated name, and
/// queries that are in several categories.
fn proposed_categories(
    reply: &Value,
    n_queries: usize,
    max_categories: usize,
) -> Vec<ProposedCategory> {
    let text = |value: &Value, limit| -> String {
        one_line(value.as_str().unwrap_or_default()).chars().take(limit).collect()
    };
    let mut found: Vec<ProposedCategory> = Vec::new();
    let mut times = vec![0_usize; n_queries];
    for category in reply["categories"].as_array().into_iter().flatten() {
        let numbers = category["queries"].as_array().into_iter().flatten();
        let places = numbers.filter_map(|n| usize::try_from(n.as_u64()?.checked_sub(1)?).ok());
        let queries: Vec<usize> = distinct(places.filter(|&place| place < n_queries).collect());
        let name = text(&category["name"], NAME_CHARS);
        let taken = name == OTHERS || found.iter().any(|other| other.name == name);
        if name.is_empty() || taken || found.len() == max_categories {
            continue;
        }
        queries.iter().for_each(|&place| times[place] += 1);
        let description = text(&category["description"], usize::MAX);
        let description = first_sentences(&description, DESCRIPTION_CHARS).to_owned();
        found.push(ProposedCategory { name, description, queries });
    }
    for category in &mut found {
        category.queries.retain(|&place| times[place] == 1);
    }
    found
}

/// Cuts a text to the whole sentences that fit into `chars` characters, or to whole words if not
/// even the first sentence fits.
fn first_sentences(text: &str, chars: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(chars) else { return text };
    let head = &text[..end];
    let sentences = head.rfind(". ").map(|at| at + 1);
    let end = sentences.or_else(|| head.rfind(' ')).unwrap_or(end);
    &text[..end]
}

/// Parses the assignments in a model's reply: pairs of a query's position in the batch and the
/// index of its category, or `None` if the model assigns the query to no category. Drops invalid
/// and contradictory assignments.
fn assignments(
    reply: &Value,
    n_queries: usize,
    n_categories: usize,
) -> Vec<(usize, Option<usize>)> {
    let mut votes: Vec<Vec<Option<usize>>> = vec![Vec::new(); n_queries];
    for one in reply["assignments"].as_array().into_iter().flatten() {
        let number = |name: &str| one[name].as_u64().and_then(|n| usize::try_from(n).ok());
        let query = number("query").filter(|n| (1..=n_queries).contains(n));
        let category = match one["category"].is_null() {
            true => Some(None),
            false => number("category").filter(|n| (1..=n_categories).contains(n)).map(Some),
        };
        if let (Some(query), Some(category)) = (query, category) {
            votes[query - 1].push(category.map(|n| n - 1));
        }
    }
    let agreed = |votes: &[Option<usize>]| match votes {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => Some(*first),
        _ => None,
    };
    (0..n_queries).filter_map(|at| agreed(&votes[at]).map(|category| (at, category))).collect()
}

/// Groups the training and validation queries by category. `train` and `validation` have, for each
/// query, the index of its category in `named`. Queries without a category or in a small one join
/// [`OTHERS`], which comes last.
fn grouped(
    named: Vec<(String, String)>,
    train: &[Option<usize>],
    validation: &[Option<usize>],
) -> Vec<CategoryRecord> {
    let of = |pool: &[Option<usize>], wanted: Option<usize>| -> Vec<usize> {
        (0..pool.len()).filter(|&query| pool[query] == wanted).collect()
    };
    let least = (train.len() / MIN_SHARE).max(MIN_QUERIES);
    let record = |name, description, at| {
        let (train, validation) = (of(train, at), of(validation, at));
        CategoryRecord { name, description, train, validation }
    };
    let description = "Questions of any kind that are in no other category.".to_owned();
    let mut others = record(OTHERS.to_owned(), description, None);
    let mut found = Vec::new();
    for (at, (name, description)) in named.into_iter().enumerate() {
        let category = record(name, description, Some(at));
        if category.train.len() >= least {
            found.push(category);
        } else {
            others.train.extend(category.train);
            others.validation.extend(category.validation);
        }
    }
    others.train.sort_unstable();
    others.validation.sort_unstable();
    if !others.train.is_empty() || found.is_empty() {
        found.push(others);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_ends_with_a_sentence_or_a_word() {
        assert_eq!(first_sentences("One. Two.", 9), "One. Two.");
        assert_eq!(first_sentences("One. Two. Three", 12), "One. Two.");
        assert_eq!(first_sentences("One two three", 9), "One two");
        assert_eq!(first_sentences("äöüß", 2), "äö");
    }

    #[test]
    fn an_assignment_counts_only_when_it_is_one() {
        let reply = json!({ "assignments": [
            { "query": 1, "category": 2 },
            { "query": 2, "category": null },
            { "query": 3, "category": 3 },
            { "query": 4, "category": 1 },
            { "query": 4, "category": 2 },
            { "query": 5, "category": 1 },
            { "query": 5, "category": 1 },
            { "query": 9, "category": 1 },
            { "query": 0, "category": 1 },
            { "query": "6", "category": 1 },
        ] });
        let expected = [(0, Some(1)), (1, None), (4, Some(0))];
        assert_eq!(assignments(&reply, 6, 2), expected);
        assert_eq!(assignments(&Value::Null, 6, 2), []);
    }

    #[test]
    fn names_are_cut_and_come_once_and_so_do_queries() {
        let category = |name: &str, queries: &[i64]| json!({ "name": name, "description": "a\n b", "queries": queries });
        let reply = json!({ "categories": [
            category("by brand", &[1, 3, 3, 9, 0, -1]), category("by brand", &[2]),
            category("", &[5]), category(OTHERS, &[5]), category(&"x".repeat(100), &[3, 4]),
            category("one too many", &[6]),
        ] });
        let found = proposed_categories(&reply, 6, 2);
        assert_eq!((&*found[0].name, &*found[0].description), ("by brand", "a b"));
        assert_eq!((found.len(), found[1].name.len()), (2, NAME_CHARS));
        let queries: Vec<&[usize]> = found.iter().map(|one| &*one.queries).collect();
        assert_eq!(queries, [&[0][..], &[3]]);
    }

    #[test]
    fn every_query_is_in_one_category_and_small_ones_join_the_others() {
        let named = ["large", "small"].map(|name| (name.to_owned(), String::new())).to_vec();
        let train = [Some(0), Some(0), Some(1), None, Some(0), Some(0)];
        let found = grouped(named, &train, &[Some(1), Some(0), None]);
        let shown: Vec<(&str, &[usize], &[usize])> =
            found.iter().map(|one| (one.name.as_str(), &*one.train, &*one.validation)).collect();
        assert_eq!(shown, [("large", &[0, 1, 4, 5][..], &[1][..]), (OTHERS, &[2, 3], &[0, 2])]);
        assert_eq!(grouped(Vec::new(), &[None], &[None])[0].name, OTHERS);
    }
}
