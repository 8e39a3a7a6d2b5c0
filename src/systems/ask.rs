//! `ask`: answers questions over many nodes with numbers, names, tables and tests.

use crate::{
    ask::Analyst,
    retrieve::{Answer, Detail, RetrieveError, Retriever},
    systems::SystemSpec,
};

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "ask",
    arguments: "",
    summary: "tables, SQL and statistics, for questions over many nodes; ranks nothing",
    needs: &[],
    open: |_, opener| Ok(Box::new(Tables(Analyst::new(opener.base.clone())))),
};

/// An analyst as a system.
struct Tables(Analyst);

impl Retriever for Tables {
    fn name(&self) -> String {
        "ask".to_owned()
    }

    fn answer(&self, query: &str, _: usize, _: Detail) -> Result<Answer, RetrieveError> {
        let answered =
            self.0.ask(query).map_err(|error| RetrieveError::Program(error.to_string()))?;
        Ok(Answer { value: answered.value(), ..Answer::default() })
    }
}
