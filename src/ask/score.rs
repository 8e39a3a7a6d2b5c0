//! Questions over many nodes whose answers are known, and whether an answer is right. Must not know
//! who answers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    ask::{
        answer::{Answered, Outcome, shown_value},
        kind::Kind,
    },
    table::SqlValue,
};

/// Two numbers are the same if they differ by less than this share of the larger.
const TOLERANCE: f64 = 1e-6;

/// A question whose answer is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labelled {
    /// Its kind.
    pub kind: Kind,
    /// Its text.
    pub question: String,
    /// Its answer.
    pub answer: Expected,
}

/// A known answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// A number.
    Number(f64),
    /// Names, in any order.
    Names(Vec<String>),
    /// Yes or no.
    Truth(bool),
    /// A number for each name, in any order.
    Table(Vec<(String, f64)>),
}

/// Whether two numbers are the same.
pub fn same_number(one: f64, other: f64) -> bool {
    (one - other).abs() <= TOLERANCE * one.abs().max(other.abs()).max(f64::MIN_POSITIVE)
}

/// How right an answer is, in `0..=1`: one or nothing, and of a table the harmonic mean of the share
/// of its rows that are right and the share of the right rows that it has.
pub fn score(answered: &Answered, expected: &Expected) -> f64 {
    let one_if = |right: bool| if right { 1.0 } else { 0.0 };
    match (expected, &answered.outcome) {
        (Expected::Number(known), Outcome::Number { value, .. }) => {
            one_if(same_number(*known, *value))
        }
        (Expected::Truth(known), Outcome::Truth(truth)) => one_if(known == truth),
        (Expected::Names(known), Outcome::Names { names, .. }) => {
            let set = |names: &Vec<String>| names.iter().cloned().collect::<BTreeSet<String>>();
            one_if(set(known) == set(names))
        }
        (Expected::Table(known), Outcome::Table) => f1(known, &answered.result.rows),
        _ => 0.0,
    }
}

/// The harmonic mean of precision and recall of rows.
fn f1(known: &[(String, f64)], rows: &[Vec<SqlValue>]) -> f64 {
    let known: BTreeMap<&str, f64> =
        known.iter().map(|(name, number)| (name.as_str(), *number)).collect();
    let is_right = |row: &&Vec<SqlValue>| {
        let (Some(name), Some(number)) = (row.first(), row.get(1).and_then(SqlValue::number))
        else {
            return false;
        };
        known.get(shown_value(name).as_str()).is_some_and(|known| same_number(*known, number))
    };
    let right = rows.iter().filter(is_right).count() as f64;
    let all = (rows.len() + known.len()) as f64;
    if all == 0.0 { 1.0 } else { 2.0 * right / all }
}
