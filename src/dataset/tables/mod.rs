//! Imports user tables: CSV, TSV, JSON lines and Parquet with one row per node or edge, and
//! databases of SQLite.
//!
//! A [`Mapping`] assigns tables and columns to nodes, edges and fields. It is read from
//! `mapping.toml`, made from options, or guessed from headers, samples and the schema of a
//! database, always in the same form:
//!
//! ```toml
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
//!
//! [[edges]]
//! file = "bought.csv"
//! source = { column = "buyer", type = "person" }
//! target = { column = "sku", type = "product" }
//! relation = "bought"          # or: relation_column = "kind"
//! ```
//!
//! Ids are unique within their type. Nodes are numbered in the order of the mapping's tables and,
//! within a table, of the rows. Files must be in the directory of the mapping or below it.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `mapping` | which table holds what, as a file, as options, in a line for people? |
//! | `guess` | here are tables: what is likely in them? |
//! | `rows` | here is a table of any kind: which columns and rows? |
//! | `delimited`, `sqlite`, `columnar` | the same of one kind |
//! | `import` | here are a mapping and tables: which nodes and edges? |

#[cfg(feature = "parquet")]
mod columnar;
mod delimited;
mod guess;
mod import;
mod mapping;
mod rows;
mod sqlite;

#[cfg(test)]
mod tests;

pub use guess::{Guess, guess};
pub use import::import_tables;
pub use mapping::{EdgesTable, End, Link, MAPPING_FILE, Mapping, NodesTable, TableHint};
pub use rows::holds_data;
