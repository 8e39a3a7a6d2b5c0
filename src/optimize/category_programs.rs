//! Categories during a run, each with its program and the program's reciprocal ranks.

use crate::{discover, plan::Plan};
use agent_infer::ParamValues;
use agent_sandbox::program::Program;

/// Maximum number of categories.
pub(super) const MAX_CATEGORIES: usize = 12;
/// Mean reciprocal rank over all training queries that a category must add to be kept.
pub(super) const MIN_CATEGORY_GAIN: f64 = 0.006;

/// Minimum reciprocal rank of a well answered query: an answer is first.
pub(super) const GOOD: f32 = 1.0;

/// Queries that were assigned to a category, by position in their pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Queries {
    pub(super) train: Vec<usize>,
    pub(super) validation: Vec<usize>,
}

/// A category and its current program.
#[derive(Clone)]
pub(super) struct CategoryProgram {
    /// The plan that the program was rendered from, if any.
    pub(super) plan: Option<Plan>,
    pub(super) program: Program,
    pub(super) params: ParamValues,
    pub(super) proposed_by: String,
    /// Name of the category, if it differs from the program's header.
    pub(super) name: Option<String>,
    /// The assigned queries; if `None`, the queries that its program answers best.
    pub(super) queries: Option<Queries>,
    /// Reciprocal rank on each training query; 0 if the program did not run on it.
    pub(super) train: Vec<f32>,
    /// The training queries that the program runs on; `None` for all.
    pub(super) part: Option<Vec<usize>>,
}

impl CategoryProgram {
    /// Creates a category with a program and its reciprocal ranks on training queries.
    #[cfg(test)]
    pub(super) fn for_test(source: &str, train: &[f32]) -> Self {
        Self {
            plan: None,
            program: Program::new(source),
            params: ParamValues::new(),
            proposed_by: "a test".to_owned(),
            name: None,
            queries: None,
            train: train.to_vec(),
            part: None,
        }
    }

    /// Whether both have the same program and parameters.
    pub(super) fn answers_as(&self, other: &Self) -> bool {
        self.program.id() == other.program.id() && self.params == other.params
    }

    /// Whether both have the same name, program and parameters.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.answers_as(other) && self.name() == other.name()
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().or(self.program.category()).unwrap_or_default()
    }

    /// Returns the validation queries of the category's test: the assigned ones, or else `routed`.
    pub(super) fn routed(&self, routed: &[usize]) -> Vec<usize> {
        match &self.queries {
            Some(own) => own.validation.clone(),
            None => routed.to_vec(),
        }
    }

    /// Returns the program's summed reciprocal rank on some training queries.
    pub(super) fn sum_on(&self, queries: &[usize]) -> f64 {
        queries.iter().map(|&at| f64::from(self.train[at])).sum()
    }

    /// Returns the program's reciprocal ranks on some training queries.
    pub(super) fn train_on(&self, queries: &[usize]) -> Vec<f32> {
        queries.iter().map(|&at| self.train[at]).collect()
    }
}

/// Selects categories greedily by the mean reciprocal rank that each adds on all `n` training
/// queries ([`discover::cover`]). Keeps at least the first category.
pub(super) fn needed(category_programs: Vec<CategoryProgram>, n: usize) -> Vec<CategoryProgram> {
    let worths: Vec<discover::Worth> = category_programs
        .iter()
        .map(|category_program| {
            category_program.train.iter().map(|&rank| f64::from(rank)).enumerate().collect()
        })
        .collect();
    let borrowed: Vec<&[(usize, f64)]> = worths.iter().map(Vec::as_slice).collect();
    let mut kept = discover::cover(&borrowed, n, MAX_CATEGORIES, n as f64 * MIN_CATEGORY_GAIN);
    if kept.is_empty() {
        kept.push(0);
    }
    let mut category_programs: Vec<Option<CategoryProgram>> =
        category_programs.into_iter().map(Some).collect();
    kept.into_iter().filter_map(|at| category_programs[at].take()).collect()
}

/// Returns the training queries of each category: the assigned ones, or else those that its program
/// answers best. Ties go to the earlier category; queries that no program answers are omitted.
pub(super) fn assign(category_programs: &[CategoryProgram], n: usize) -> Vec<Vec<usize>> {
    let mut assigned = vec![Vec::new(); category_programs.len()];
    for query in 0..n {
        let best = category_programs.iter().enumerate().fold(
            None,
            |best: Option<(usize, f32)>, (at, category_program)| match best {
                Some((_, most)) if category_program.train[query] <= most => best,
                _ if category_program.train[query] > 0.0 => {
                    Some((at, category_program.train[query]))
                }
                _ => best,
            },
        );
        if let Some((at, _)) = best {
            assigned[at].push(query);
        }
    }
    for (queries, category_program) in assigned.iter_mut().zip(category_programs) {
        if let Some(own) = &category_program.queries {
            queries.clone_from(&own.train);
        }
    }
    assigned
}

/// Returns each category's distance from a perfect summed reciprocal rank on its training queries,
/// plus 0.5, so that every category has a weight; 0 without queries.
pub(super) fn lacking(category_programs: &[CategoryProgram], assigned: &[Vec<usize>]) -> Vec<f64> {
    let lack =
        |(category_program, queries): (&CategoryProgram, &Vec<usize>)| match queries.is_empty() {
            true => 0.0,
            false => queries.len() as f64 - category_program.sum_on(queries) + 0.5,
        };
    category_programs.iter().zip(assigned).map(lack).collect()
}
