//! Guesses which columns become node types: columns with few distinct values.

use std::collections::{BTreeMap, HashSet};

use super::{Column, Guess, TableFacts};
use agent_ground::words::{singular, snake};

/// Maps the values of columns with few distinct values to nodes. Columns with the same name share a
/// node type if enough values occur in both: at least half of the values of the column with fewer
/// values.
pub(super) fn add_values(facts: &[TableFacts], guess: &mut Guess) {
    let mut taken: HashSet<String> = facts.iter().map(|entry| entry.node_type.clone()).collect();
    let mut types: BTreeMap<String, HashSet<u64>> = BTreeMap::new();
    for spec in &mut guess.mapping.nodes {
        let is_its = |entry: &&TableFacts| {
            entry.file == spec.file && entry.table.name() == spec.table.as_deref()
        };
        let Some(entry) = facts.iter().find(is_its) else { continue };
        let mut told = Vec::new();
        for column in spec.fields.iter().flatten() {
            let found = entry.column(column).and_then(|values| values.few_values(entry.rows));
            let Some((separator, values)) = found else { continue };
            let own = singular(&snake(column));
            let shares = |known: &HashSet<u64>| {
                let common = values.iter().filter(|value| known.contains(value)).count();
                common * 2 >= values.len().min(known.len())
            };
            let node_type = match types.get(&own) {
                Some(known) if shares(known) => own,
                None if !taken.contains(&own) => own,
                _ => format!("{}_{own}", spec.node_type),
            };
            if node_type.is_empty()
                || (taken.contains(&node_type) && !types.contains_key(&node_type))
            {
                continue;
            }
            taken.insert(node_type.clone());
            types.entry(node_type.clone()).or_default().extend(values);
            told.push(format!("{column} ({} values)", values.len()));
            if let Some(separator) = separator {
                spec.lists.insert(column.clone(), separator.to_owned());
            }
            spec.values.insert(column.clone(), node_type);
            let codes = entry.column(column).into_iter().flat_map(Column::codes);
            let codes: BTreeMap<String, String> =
                codes.map(|code| (code.clone(), String::new())).collect();
            if !codes.is_empty() {
                spec.meanings.insert(column.clone(), codes);
            }
        }
        if !told.is_empty() {
            let (place, rows) = (entry.table.label(), entry.rows);
            guess.notes.push(format!(
                "{place}: columns with few values in {rows} rows become nodes: {}; use --no-values \
                 to keep them as texts",
                told.join(", ")
            ));
        }
        if !spec.meanings.is_empty() {
            let columns: Vec<&str> = spec.meanings.keys().map(String::as_str).collect();
            guess.notes.push(format!(
                "{}: {} {} codes; write what they mean under `meanings` in the mapping",
                entry.table.label(),
                columns.join(", "),
                if columns.len() == 1 { "has" } else { "have" },
            ));
        }
    }
}
