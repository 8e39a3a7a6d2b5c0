//! The list of all operations. The command line, HTTP, MCP and Python offer each operation under
//! the same name.

use std::collections::HashMap;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use crate::{
    App, AppError, Explain as _, Result, answer, ask, compare, data, eval, index, optimize,
    program, query, refused, report, search, train, verify,
};

/// All operations, in the order in which the reference documentation lists them.
pub const OPERATIONS: &[Operation] = &[
    Operation::new::<data::import::Request>(),
    Operation::new::<data::update::Request>(),
    Operation::new::<data::list::Request>(),
    Operation::new::<data::show::Request>(),
    Operation::new::<data::facets::Request>(),
    Operation::new::<data::remove::Request>(),
    Operation::new::<data::synthesize::Request>(),
    Operation::new::<index::Request>(),
    Operation::new::<train::mfar::Request>(),
    Operation::new::<train::dense::Request>(),
    Operation::new::<train::graph::Request>(),
    Operation::new::<program::run::Request>(),
    Operation::new::<program::diff::Request>(),
    Operation::new::<search::Request>(),
    Operation::new::<query::Request>(),
    Operation::new::<ask::Request>(),
    Operation::new::<answer::Request>(),
    Operation::new::<compare::Request>(),
    Operation::new::<eval::Request>(),
    Operation::new::<verify::Request>(),
    Operation::new::<report::Request>(),
    Operation::new::<optimize::Request>(),
];

/// The request of an operation, which can be executed.
pub trait Perform: DeserializeOwned + ToSchema {
    /// Name of the operation, such as `data_import`.
    const NAME: &'static str;
    /// What the operation does, in one sentence.
    const SUMMARY: &'static str;
    /// Whether the operation changes what is installed: bases, indexes, models, runs.
    const CHANGES: bool = false;
    /// The operation's result; its JSON is the output of the command line with `--json`.
    type Reply: Serialize;

    /// Executes the request.
    ///
    /// # Errors
    /// If the request is invalid ([`AppError::is_usage`]) or its execution fails.
    fn perform(&self, app: &App) -> Result<Self::Reply>;
}

/// An operation whose requests and replies are JSON.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Name of the operation, such as `data_import`.
    pub name: &'static str,
    /// What the operation does, in one sentence.
    pub summary: &'static str,
    /// Whether the operation changes what is installed: bases, indexes, models, runs.
    pub changes: bool,
    /// Returns the JSON schema of the operation's request.
    pub schema: fn() -> Value,
    perform: fn(&App, Value) -> Result<String>,
}

impl Operation {
    const fn new<R: Perform>() -> Operation {
        Operation {
            name: R::NAME,
            summary: R::SUMMARY,
            changes: R::CHANGES,
            schema: schema::<R>,
            perform: |app, request| {
                let request: R = serde_json::from_value(request)
                    .map_err(|error| AppError::usage(anyhow::anyhow!("{}: {error}", R::NAME)))?;
                Ok(serde_json::to_string(&request.perform(app)?)?)
            },
        }
    }

    /// Returns the operation with this name; `None` if there is none.
    pub fn find(name: &str) -> Option<&'static Operation> {
        OPERATIONS.iter().find(|operation| operation.name == name)
    }

    /// Executes a JSON request. Returns the reply as JSON text, with numbers written as on the
    /// command line.
    ///
    /// # Errors
    /// If the request does not match [`Operation::schema`], if it changes what is installed and
    /// comes over a network that may not do so, or if the operation fails.
    pub fn call(&self, app: &App, request: Value) -> Result<String> {
        if self.changes && app.network.as_ref().is_some_and(|network| !network.changes) {
            let name = self.name.replace('_', " ");
            return refused(format!("this server does not allow {name}")).hint(
                "start the server with --allow-changes, or run the command on the server's \
                 machine",
            );
        }
        (self.perform)(app, request)
    }
}

/// Returns the JSON schema of a type, with the schemas of the types that it refers to in place.
fn schema<T: ToSchema>() -> Value {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let json = |schema: RefOr<Schema>| serde_json::to_value(schema).unwrap_or_default();
    let named = named.into_iter().map(|(name, schema)| (name, json(schema))).collect();
    resolved(json(T::schema()), &named)
}

/// Replaces each reference by the schema that it names, with the description beside the reference.
fn resolved(schema: Value, named: &HashMap<String, Value>) -> Value {
    match schema {
        Value::Array(items) => items.into_iter().map(|item| resolved(item, named)).collect(),
        Value::Object(object) => {
            let name = object.get("$ref").and_then(|to| to.as_str()?.rsplit('/').next());
            let Some(found) = name.and_then(|name| named.get(name)) else {
                return object.into_iter().map(|(key, of)| (key, resolved(of, named))).collect();
            };
            let mut found = resolved(found.clone(), named);
            if let (Some(found), Some(text)) = (found.as_object_mut(), object.get("description")) {
                found.insert("description".to_owned(), text.clone());
            }
            found
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_schema_are_one_schema() {
        for operation in OPERATIONS {
            let schema = (operation.schema)();
            for part in ["allOf", "$ref"] {
                assert!(!schema.to_string().contains(part), "{schema}");
            }
            assert_eq!(schema["additionalProperties"], false, "{schema}");
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                assert!(field["description"].is_string(), "{name}: {field}");
            }
            let options = &schema["properties"]["options"]["properties"];
            let llm =
                if options.is_object() { &options["llm"] } else { &schema["properties"]["llm"] };
            assert!(llm.is_null() || llm["properties"]["model"].is_object(), "{schema}");
        }
        let search = Operation::find("search").unwrap();
        let k = &(search.schema)()["properties"]["k"];
        assert_eq!((&k["type"], &k["maximum"]), (&"integer".into(), &10_000.into()), "{k}");
    }
}
