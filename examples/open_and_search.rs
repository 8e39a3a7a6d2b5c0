//! Opens a knowledge base and ranks its nodes for a question, with a baseline.
//!
//! ```sh
//! cargo run --release --example open_and_search
//! cargo run --release --example open_and_search -- "a glass bottle by Tidewell"
//! ```

mod installed;

use std::{
    env,
    error::Error,
    io::{self, Write},
    path::Path,
};

use agent::{
    dataset::Home,
    retrieve::{Baseline, Retriever, System},
};

fn main() -> Result<(), Box<dyn Error>> {
    let question = env::args().nth(1).unwrap_or("a durable steel bottle by Northpeak".to_owned());

    // A home directory holds any number of bases; this one is removed when the example ends.
    let dir = tempfile::tempdir()?;
    let home = Home::new(dir.path());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("toolkits/stark/base");
    let (_, base) = installed::install(&source, &home, "shop")?;

    // BM25 over documents with the names of neighbours: `agent search --system bm25+names`.
    let baseline = Baseline::new(base.clone(), System::Bm25Names);
    let mut out = io::stdout().lock();
    for (node, score) in baseline.retrieve(&question, 3)? {
        let node_type = base.kb.type_name(base.kb.node_type(node));
        writeln!(out, "{score:.4}  {node_type} {node}: {}", base.kb.name(node))?;
    }
    Ok(())
}
