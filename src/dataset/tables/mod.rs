//! Imports user tables: CSV, TSV, JSON and Parquet files with one row per node or edge, and SQLite
//! databases.
//!
//! A [`Mapping`] assigns tables and columns to nodes, edges and fields. It is read from
//! `mapping.toml`, made from options, or guessed from headers, samples and the schema of a
//! database. It always has this form:
//!
//! ```toml
//! encoding = "cp1252"          # default: detected
//! missing = ["NULL", "n/a"]    # markers of missing values; default: common markers
//!
//! [[nodes]]
//! file = "products.csv"        # in a database, also: table = "products"
//! type = "product"
//! id = "sku"                   # default: rows are numbered
//! name = "title"               # default: the id
//! fields = ["description"]     # default: all columns without another role
//! lists = { tags = ";" }       # columns with lists, with the separator; "json": a JSON list
//! relations = [
//!   { column = "brand_id", relation = "has_brand", to = "brand" },
//! ]
//! values = { color = "color" } # columns whose values become nodes, with the type of these nodes
//!
//! [[edges]]
//! file = "bought.csv"
//! source = { column = "buyer", type = "person" }
//! target = { column = "sku", type = "product" }
//! relation = "bought"          # or: relation_column = "kind"
//! ```
//!
//! Ids are unique within their type. Nodes are numbered in the order of the mapping's tables and of
//! the rows in a table. The nodes made from values follow, in the order in which the values first
//! occur. Values that differ only in case become one node. Nodes made from values may be answers
//! only if `candidate_types` lists their type. Files must be in the directory of the mapping or in
//! a folder below it.
//!
//! | module | does |
//! | --- | --- |
//! | `mapping` | reads and writes mappings: as a file, from options, as one line per table |
//! | `guess` | guesses the mapping of tables |
//! | `rows` | reads columns and rows of a table of any kind |
//! | `delimited`, `json`, `sqlite`, `columnar` | read columns and rows of one kind of table |
//! | `cleaning` | normalizes cells: missing values, numbers, dates |
//! | `import` | imports tables by a mapping |

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
mod tests;

pub use cleaning::{Reading, Repair};
pub use guess::{Guess, GuessOptions, guess};
pub use import::import_tables;
pub use mapping::{EdgesTable, End, Link, MAPPING_FILE, Mapping, NodesTable, TableHint};
pub(super) use rows::file_name;
pub use rows::holds_data;
