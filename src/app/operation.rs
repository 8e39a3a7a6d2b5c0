//! The registry of operations: what every face offers under the same name.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{App, AppError, Result, answer, ask, query, search};

/// All operations, in the order of their reference.
pub const OPERATIONS: &[Operation] = &[
    Operation::new::<search::Request>(),
    Operation::new::<query::Request>(),
    Operation::new::<ask::Request>(),
    Operation::new::<answer::Request>(),
];

/// A request that can be carried out.
pub trait Perform: DeserializeOwned + ToSchema {
    /// The operation's name.
    const NAME: &'static str;
    /// What it does, in one sentence.
    const SUMMARY: &'static str;
    /// What it gives; as JSON it is what the command line prints with `--json`.
    type Reply: Serialize;

    /// Carries it out.
    ///
    /// # Errors
    /// That the request is wrong ([`AppError::is_usage`]), or what failed.
    fn perform(&self, app: &App) -> Result<Self::Reply>;
}

/// An operation as faces without types see it.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The JSON schema of its request.
    pub schema: fn() -> Value,
    perform: fn(&App, Value) -> Result<Value>,
}

impl Operation {
    const fn new<R: Perform>() -> Operation {
        Operation {
            name: R::NAME,
            summary: R::SUMMARY,
            schema: || serde_json::to_value(R::schema()).unwrap_or_default(),
            perform: |app, request| {
                let request: R = serde_json::from_value(request)
                    .map_err(|error| AppError::usage(anyhow::anyhow!("{}: {error}", R::NAME)))?;
                Ok(serde_json::to_value(request.perform(app)?)?)
            },
        }
    }

    /// The operation of a name.
    pub fn find(name: &str) -> Option<&'static Operation> {
        OPERATIONS.iter().find(|operation| operation.name == name)
    }

    /// Carries out a request in JSON; the reply is JSON too.
    ///
    /// # Errors
    /// That the request does not fit [`Operation::schema`]; those of the operation.
    pub fn call(&self, app: &App, request: Value) -> Result<Value> {
        (self.perform)(app, request)
    }
}
