//! Checks the results of a program, which are its declared parameters and its ranking, by the same
//! rules for every engine.

use std::collections::BTreeMap;

use crate::{Failure, FailureKind, Limits, Param, given::Given};
use agent_kb::{NodeId, best};

/// Maximum length of a parameter name, in bytes.
pub const PARAM_NAME_BYTES: usize = 64;

/// Reads the declared parameters from `given`, the result of `params()`, in the order of its
/// entries.
///
/// # Errors
/// [`FailureKind::Result`] if the result is not a valid declaration.
pub(super) fn read_params(given: &Given, limits: &Limits) -> Result<Vec<Param>, Failure> {
    let wrong = |message: String| Err(Failure::new(FailureKind::Result, &message, limits));
    let Given::Map(entries) = given else {
        return wrong(
            "params() must return a map such as #{ k: #{ value: 50, min: 10, max: 400 } }"
                .to_owned(),
        );
    };
    if entries.len() > limits.parameters {
        return wrong(format!("more than {} parameters", limits.parameters));
    }
    let mut params = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        if name.is_empty() || name.len() > PARAM_NAME_BYTES {
            return wrong(format!("a parameter name must have 1 to {PARAM_NAME_BYTES} bytes"));
        }
        let (value, min, max) = match (number(entry), entry) {
            (Some(fixed), _) => (Some(fixed), Some(fixed), Some(fixed)),
            (None, Given::Map(parts)) => {
                let unknown =
                    parts.iter().find(|part| !["value", "min", "max"].contains(&&*part.0));
                if let Some((key, _)) = unknown {
                    return wrong(format!("parameter {name} has an unknown entry {key}"));
                }
                let part = |key: &str| {
                    parts.iter().find(|part| part.0 == key).and_then(|part| number(&part.1))
                };
                (part("value"), part("min"), part("max"))
            }
            _ => (None, None, None),
        };
        let (Some(value), Some(min), Some(max)) = (value, min, max) else {
            return wrong(format!(
                "parameter {name} must be a number or #{{ value, min, max }} of numbers"
            ));
        };
        let integer = value.1 && min.1 && max.1;
        let (value, min, max) = (value.0, min.0, max.0);
        if ![value, min, max].iter().all(|number| number.is_finite()) {
            return wrong(format!("parameter {name} is not finite"));
        }
        if !(min <= value && value <= max) {
            return wrong(format!("parameter {name}: {value} is not within {min} and {max}"));
        }
        params.push(Param { name: name.clone(), value, min, max, integer });
    }
    Ok(params)
}

/// Returns a number as `f64`, and whether it is an integer; `None` for other values.
fn number(value: &Given) -> Option<(f64, bool)> {
    match value {
        Given::Int(integer) => Some((*integer as f64, true)),
        Given::Float(float) => Some((*float, false)),
        _ => None,
    }
}

/// Value of a parameter, as passed to a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BoundValue {
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
}

/// Returns the name and value of each declared parameter: the value in `given` or, without one, the
/// default.
///
/// # Errors
/// [`FailureKind::Runtime`] if `given` has an undeclared parameter or a value out of bounds.
pub(super) fn bind_params(
    declared: &[Param],
    given: &BTreeMap<String, f64>,
    limits: &Limits,
) -> Result<Vec<(String, BoundValue)>, Failure> {
    let wrong = |message: String| Err(Failure::new(FailureKind::Runtime, &message, limits));
    if let Some(name) = given.keys().find(|name| !declared.iter().any(|p| p.name == **name)) {
        let known: Vec<&str> = declared.iter().map(|param| param.name.as_str()).collect();
        return wrong(format!("no parameter is named {name}; declared are: {}", known.join(", ")));
    }
    let mut bound = Vec::with_capacity(declared.len());
    for param in declared {
        let value = given.get(&param.name).copied().unwrap_or(param.value);
        let value = if param.integer { value.round() } else { value };
        if !(param.min <= value && value <= param.max) {
            return wrong(format!(
                "parameter {} is {value}, not within {} and {}",
                param.name, param.min, param.max
            ));
        }
        let value =
            if param.integer { BoundValue::Int(value as i64) } else { BoundValue::Float(value) };
        bound.push((param.name.clone(), value));
    }
    Ok(bound)
}

/// Checks the result of `retrieve`, and returns it as a ranking: highest score first, equal scores
/// by ascending id.
///
/// # Errors
/// [`FailureKind::Result`] if the result is not a valid ranking of nodes below `n_nodes`.
pub(super) fn read_ranking(
    given: &Given,
    n_nodes: usize,
    limits: &Limits,
) -> Result<Vec<(NodeId, f32)>, Failure> {
    let wrong = |message: String| Err(Failure::new(FailureKind::Result, &message, limits));
    let max = limits.max_answers;
    let too_many = |n: usize| format!("{n} answers, more than {max}; end with `.top({max})`");
    let known = |id: NodeId| (id as usize) < n_nodes;
    let mut pairs = Vec::new();
    match given {
        Given::Scores(scores) => {
            if scores.len() > max {
                return wrong(too_many(scores.len()));
            }
            if let Some((id, _)) = scores.as_slice().iter().find(|pair| !known(pair.0)) {
                return wrong(format!("node {id} does not exist; there are {n_nodes} nodes"));
            }
            pairs.extend_from_slice(scores.as_slice());
        }
        Given::Map(entries) => {
            if entries.len() > max {
                return wrong(too_many(entries.len()));
            }
            for (key, value) in entries {
                let digits = key.bytes().all(|byte| byte.is_ascii_digit());
                let id = key.parse().ok().filter(|&id: &NodeId| digits && known(id));
                let Some(id) = id else {
                    return wrong(format!(
                        "{key} is not the id of a node; there are {n_nodes} nodes, and keys are \
                         ids as text, such as `{{}}[id.to_string()]`"
                    ));
                };
                let score = number(value).map(|score| score.0 as f32);
                let Some(score) = score.filter(|score| score.is_finite()) else {
                    return wrong(format!(
                        "the score of node {id} is {}; give a finite number",
                        value.describe()
                    ));
                };
                pairs.push((id, score));
            }
            // Keys such as "7" and "07" name the same node.
            if let Some(twice) = repeated_node(&pairs) {
                return wrong(format!("node {twice} is given twice"));
            }
        }
        Given::Ranking(given) => {
            if given.len() > max {
                return wrong(too_many(given.len()));
            }
            for &(id, score) in given {
                if !known(id) {
                    return wrong(format!("node {id} does not exist; there are {n_nodes} nodes"));
                }
                if !score.is_finite() {
                    return wrong(format!(
                        "the score of node {id} is {score}; give a finite number"
                    ));
                }
            }
            if let Some(twice) = repeated_node(given) {
                return wrong(format!("node {twice} is given twice"));
            }
            pairs.extend_from_slice(given);
        }
        other => {
            return wrong(format!(
                "retrieve returned {}; return scores, or a map from node ids as text to numbers",
                other.describe()
            ));
        }
    }
    let n = pairs.len();
    Ok(best(pairs, n))
}

/// Checks a ranking that another process computed, by the rules for the ranking of a program. In
/// addition, the ranking must already be sorted: highest score first, equal scores by ascending id.
///
/// # Errors
/// [`FailureKind::Result`] if the ranking is not valid or not sorted.
pub fn check_ranking(
    ranking: &[(NodeId, f32)],
    n_nodes: usize,
    limits: &Limits,
) -> Result<(), Failure> {
    let sorted = read_ranking(&Given::Ranking(ranking.to_vec()), n_nodes, limits)?;
    let is_sorted = sorted == ranking;
    let message = "the ranking is not sorted, best first and ties by ascending id";
    is_sorted.then_some(()).ok_or_else(|| Failure::new(FailureKind::Result, message, limits))
}

/// Returns the smallest id of a node that occurs more than once, if there is one.
fn repeated_node(pairs: &[(NodeId, f32)]) -> Option<NodeId> {
    let mut ids: Vec<NodeId> = pairs.iter().map(|pair| pair.0).collect();
    ids.sort_unstable();
    ids.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
