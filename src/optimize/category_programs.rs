//! Categories during a run: each has a program, and the program's reciprocal ranks on training
//! queries.

use crate::{
    discover,
    plan::Plan,
    trial::{Origin, largest, sum},
};
use agent_infer::ParamValues;
use agent_sandbox::program::Program;

/// Maximum number of categories of a run.
pub(super) const MAX_CATEGORIES: usize = 12;
/// Minimum increase of the mean reciprocal rank over all training queries that a category must
/// bring to be kept.
const MIN_CATEGORY_GAIN: f64 = 0.006;

/// A query is answered well if its reciprocal rank is at least this value, that is, if an answer is
/// first.
pub(super) const GOOD: f32 = 1.0;

/// Queries that were assigned to a category: positions in the training pool and in the validation
/// pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Queries {
    pub(super) train: Vec<usize>,
    pub(super) validation: Vec<usize>,
}

/// A category and its current program.
#[derive(Clone)]
pub(super) struct CategoryProgram {
    /// The plan from which the program was rendered, if the search actor composed the program.
    pub(super) plan: Option<Plan>,
    pub(super) program: Program,
    pub(super) params: ParamValues,
    pub(super) proposed_by: String,
    /// Name of the category, if it differs from the name in the program's header.
    pub(super) name: Option<String>,
    /// The queries that were assigned to the category; if `None`, the category has the queries that
    /// its program answers best.
    pub(super) queries: Option<Queries>,
    /// The program's reciprocal rank on each training query; 0 if the program did not run on the
    /// query.
    pub(super) train: Vec<f32>,
    /// Positions of the training queries that the program runs on; `None` for all.
    pub(super) part: Option<Vec<usize>>,
}

impl CategoryProgram {
    /// Creates a category whose program has this source and these reciprocal ranks on the training
    /// queries.
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

    /// Whether both categories have the same program and parameters.
    pub(super) fn answers_as(&self, other: &Self) -> bool {
        self.program.id() == other.program.id() && self.params == other.params
    }

    /// Whether both categories have the same name, program and parameters.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.answers_as(other) && self.name() == other.name()
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().or(self.program.category()).unwrap_or_default()
    }

    /// Returns the record of the program's origin, with `change`; its parent stays unset.
    pub(super) fn origin(&self, change: &str) -> Origin {
        Origin::new(&self.proposed_by, change, None)
    }

    /// Returns the program's summed reciprocal rank on `queries` (positions of training queries).
    pub(super) fn sum_on(&self, queries: &[usize]) -> f64 {
        sum(&self.train_on(queries))
    }

    /// Returns the program's reciprocal rank on each of `queries` (positions of training queries).
    pub(super) fn train_on(&self, queries: &[usize]) -> Vec<f32> {
        queries.iter().map(|&at| self.train[at]).collect()
    }
}

/// Selects the programs that become categories and returns their positions. Each next program is
/// the one that adds most to the mean reciprocal rank over all `n` training queries
/// ([`discover::cover`]), as long as it adds more than `MIN_CATEGORY_GAIN`.
pub(super) fn best_together(worths: &[impl AsRef<[(usize, f64)]>], n: usize) -> Vec<usize> {
    discover::cover(worths, n, MAX_CATEGORIES, n as f64 * MIN_CATEGORY_GAIN)
}

/// Selects the categories to keep ([`best_together`]). If no category adds enough, keeps the first
/// category.
pub(super) fn needed(categories: Vec<CategoryProgram>, n: usize) -> Vec<CategoryProgram> {
    let worths: Vec<discover::Worth> = categories
        .iter()
        .map(|category| category.train.iter().map(|&rank| f64::from(rank)).enumerate().collect())
        .collect();
    let mut kept = best_together(&worths, n);
    if kept.is_empty() {
        kept.push(0);
    }
    let mut categories: Vec<Option<CategoryProgram>> = categories.into_iter().map(Some).collect();
    kept.into_iter().filter_map(|at| categories.get_mut(at)?.take()).collect()
}

/// Returns the training queries of each category, as positions: the queries assigned to the
/// category or, if it has no assignment, the queries on which its program has the highest
/// reciprocal rank. Ties go to the earlier category; queries that no program answers are omitted.
pub(super) fn assign(categories: &[CategoryProgram], n: usize) -> Vec<Vec<usize>> {
    let mut assigned = vec![Vec::new(); categories.len()];
    for query in 0..n {
        let ranks = categories.iter().map(|category| f64::from(category.train[query]));
        if let Some((_, at)) = largest(ranks.zip(0_usize..)).filter(|best| best.0 > 0.0) {
            assigned[at].push(query);
        }
    }
    for (queries, category) in assigned.iter_mut().zip(categories) {
        if let Some(own) = &category.queries {
            queries.clone_from(&own.train);
        }
    }
    assigned
}

/// Returns a weight for each category: the maximum of the summed reciprocal rank on its training
/// queries minus the actual sum, plus 0.5. Thus a perfect category keeps a weight. Categories
/// without queries have weight 0.
pub(super) fn lacking(categories: &[CategoryProgram], assigned: &[Vec<usize>]) -> Vec<f64> {
    let lack = |(category, queries): (&CategoryProgram, &Vec<usize>)| match queries.is_empty() {
        true => 0.0,
        false => queries.len() as f64 - category.sum_on(queries) + 0.5,
    };
    categories.iter().zip(assigned).map(lack).collect()
}
