//! Imports user tables: CSV, TSV, JSON and Parquet with one row per node or edge, and
//! databases of SQLite.
//!
//! A [`Mapping`] assigns tables and columns to nodes, edges and fields. It is read from
//! `mapping.toml`, made from options, or guessed from headers, samples and the schema of a
//! database, always in the same form:
//!
//! ```toml
//! encoding = "cp1252"          # missing: what the bytes look like
//! missing = ["NULL", "n/a"]    # markers of missing values; missing: common ones
//!
//! [[nodes]]
//! file = "products.csv"        # of a database also: table = "products"
//! type = "product"
//! id = "sku"                   # missing: rows are numbered
//! name = "title"               # missing: the id
//! fields = ["description"]     # missing: all columns that are nothing else
//! lists = { tags = ";" }       # columns of several values, by what parts them; "json": a JSON list
//! relations = [
//!   { column = "brand_id", relation = "has_brand", to = "brand" },
//! ]
//! values = { color = "color" } # columns whose values are nodes, by the type of these nodes
//!
//! [[edges]]
//! file = "bought.csv"
//! source = { column = "buyer", type = "person" }
//! target = { column = "sku", type = "product" }
//! relation = "bought"          # or: relation_column = "kind"
//! ```
//!
//! Ids are unique within their type. Nodes are numbered in the order of the mapping's tables and,
//! within a table, of the rows; then follow the nodes of values, in the order in which rows have them.
//! Values that differ in case alone are one. They are no candidates unless the mapping says so. Files must be in the directory of the mapping or below it.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `mapping` | which table holds what, as a file, as options, in a line for people? |
//! | `guess` | here are tables: what is likely in them? |
//! | `rows` | here is a table of any kind: which columns and rows? |
//! | `delimited`, `json`, `sqlite`, `columnar` | the same of one kind |
//! | `cleaning` | here are cells: which are missing, numbers or dates, in another form? |
//! | `import` | here are a mapping and tables: which nodes and edges? |

mod cleaning;
mod columnar;
mod delimited;
mod guess;
mod import;
mod json;
mod mapping;
mod rows;
mod sqlite;

#[cfg(test)]
mod export_tests;
#[cfg(test)]
mod tests;

pub use cleaning::{Reading, Repair};
pub use guess::{Guess, GuessOptions, guess};
pub use import::import_tables;
pub use mapping::{EdgesTable, End, Link, MAPPING_FILE, Mapping, NodesTable, TableHint};
pub use rows::holds_data;
