//! The system `ask`: answers questions about many nodes with numbers, names, tables and statistical
//! tests.

use crate::{SystemSpec, bundle::Effort};
use agent_ask::{Analyst, AskError, Helps};
use agent_retrieve::{Answer, Detail, RetrieveError, Retriever};

pub(super) const SPEC: SystemSpec = SystemSpec::plain(
    "ask",
    "tables, SQL and statistics for questions over many nodes; returns no ranking",
    |_, opener| {
        let analyst = Analyst::new(opener.base.clone());
        let helps = match opener.effort {
            Effort::None => return Ok(Box::new(Tables(analyst))),
            Effort::Reads => Helps::Unread,
            Effort::Judges => Helps::All,
        };
        Ok(Box::new(Tables(analyst.helped(opener.model("ask with --effort")?, helps))))
    },
);

/// Adapts an [`Analyst`] to the trait [`Retriever`]; an answer has a value and an empty ranking.
struct Tables(Analyst);

impl Retriever for Tables {
    fn name(&self) -> String {
        "ask".to_owned()
    }

    fn answer(&self, query: &str, _: usize, _: Detail) -> Result<Answer, RetrieveError> {
        let answered = self.0.ask(query).map_err(|error| match error {
            AskError::Llm(error) => RetrieveError::Llm(error),
            other => RetrieveError::Program(other.to_string()),
        })?;
        let (value, unassisted) = (answered.value(), answered.unassisted);
        Ok(Answer { value, unassisted, ..Answer::default() })
    }
}
