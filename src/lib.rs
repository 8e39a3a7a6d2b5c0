//! Answers questions over semi-structured knowledge bases with small, optimized retrieval programs.
//!
//! ```text
//! dataset import -> knowledge base -> indexes (text, vectors, graph) -> tools -> sandbox -> program
//!    -> ranking -> eval -> optimizer -> frozen bundle -> query
//! ```
//!
//! # Glossary
//!
//! One word for each concept, everywhere. The last column lists other terms for it.
//!
//! | word | meaning | also known as |
//! | --- | --- | --- |
//! | knowledge base (KB) | typed nodes with text, joined by typed relations | semi-structured knowledge base, text-attributed graph; "base" for short |
//! | node | a typed thing with a name and fields; its id is a [`kb::NodeId`] in `0..n` | entity, vertex, record |
//! | field | one named piece of a node's text | attribute, property |
//! | document | a node's fields as one text | passage, text attribute |
//! | relation | a named, directed type of edge between nodes | predicate, edge type |
//! | metapath | a walk over relations of given types, without its nodes | typed path, path pattern, relation path |
//! | query | a question in words, with a set of answers when it is labelled | question, topic |
//! | ranking | nodes with scores, best first; ties by ascending node id | result list, run (of TREC) |
//! | system | a named method that ranks nodes for a query | retriever, pipeline |
//! | baseline | a system without any program | reference system |
//! | `bm25+names` | BM25 over documents extended by the names of the node's neighbours | document expansion |
//! | `bm25f` | BM25F over a node's document and its neighbours' names, by stems | Robertson, Zaragoza & Taylor 2004 |
//! | entity linking | finding the nodes that a text names, each with a strength in `0..=1` | mention detection and disambiguation |
//! | linked entity | a node that a query names (by entity linking) or describes (by search), from which a metapath starts | seed, topic entity, anchor |
//! | entity index | the names, aliases and identifiers of all nodes, for entity linking | alias table, gazetteer |
//! | typo | one edit in a word of five letters or more; linking tolerates it | misspelling |
//! | embedder | gives each text one vector | encoder, embedding model |
//! | word pieces | the tokens of a text for an encoder | subwords |
//! | chunk | a part of a document with a vector of its own | passage, segment |
//! | quantized vectors | vectors with one byte per number, which give bounds of the exact score | codes, scalar quantization |
//! | late interaction | matching each token of a query with each token of a document | multi-vector retrieval, ColBERT |
//! | tool | one function that a program may call; a toolkit is a set of tools | function, API |
//! | program | Rhai source, or a WebAssembly module, with `params()` and `retrieve(query, candidates, params)` | retrieval pipeline |
//! | parameter | a number that a program declares with bounds | hyperparameter, weight |
//! | shortlist | the nodes that a program receives as its candidates | candidates, first stage |
//! | execution trace | the tool calls of one run of a program, with their results | provenance, log |
//! | category | a group of similar queries that one program answers | intent, query class |
//! | router | predicts the categories of a query, with probabilities | query classifier |
//! | query expansion | searching with the query and texts that would answer it | pseudo-relevance feedback, generated documents |
//! | fusion | joining several rankings into one | rank aggregation |
//! | learned re-ranker | a linear model that orders the nodes put forward by all programs | learning to rank |
//! | feature | one number about a node, an input of the re-ranker | signal |
//! | plain question | a question that consists only of names and relations, so that metapaths answer it | graph query, multi-hop question |
//! | bundle | frozen programs, one per category, with a router and all fingerprints | model, artifact |
//! | ensemble | a bundle with several members, each a router, a fusion and a re-ranker over some categories; their rankings are joined | committee, stacking |
//! | actor | proposes programs: the search actor by mining and mutation, or a language model | proposer, agent |
//! | comparator | a language model that contrasts queries answered well and badly | critic, reviewer |
//! | tuner | moves the parameters of programs, without a language model | hyperparameter search |
//! | trial | one program with its parameters on some queries | evaluation |
//! | archive | the measured programs of a run, from which plans are merged | population |
//! | e-value | the capital of a bet against the claim of no improvement; a large one is evidence of improvement | test martingale |
//! | sequential test | a test that may stop at any query, by its e-value | anytime-valid inference |
//! | split | the queries for training, validation or test | fold, partition |
//! | rate limiter, circuit breaker, retry | spaces, holds back and repeats requests to a service | throttle; fuse; back-off |
//! | fingerprint | a digest of the data and settings that something was made from | content hash |
//!
//! # Layers
//!
//! Every part is a crate below `src/`, re-exported here by name. A crate can use only the crates
//! that its `Cargo.toml` names; `docs/architecture.md` has the table.

pub use agent_app as app;
pub use agent_ask as ask;
pub use agent_cli as cli;
pub use agent_dataset as dataset;
pub use agent_embed as embed;
pub use agent_embed::gpu;
pub use agent_ground::clock;
pub use agent_ground::files;
pub use agent_ground::tarball;
pub use agent_ground::units;
pub use agent_ground::words;
pub use agent_index as index;
pub use agent_infer as infer;
pub use agent_infer::bundle;
pub use agent_infer::explain;
pub use agent_infer::rag;
pub use agent_kb as kb;
pub use agent_kb::answer;
pub use agent_kb::table;
pub use agent_llm as llm;
pub use agent_llm::prompts;
pub use agent_optimize as optimize;
pub use agent_remote as remote;
pub use agent_retrieve as retrieve;
pub use agent_retrieve::eval;
pub use agent_retrieve::expand;
pub use agent_retrieve::measure;
pub use agent_sandbox as sandbox;
pub use agent_sandbox::program;
pub use agent_serve as serve;
pub use agent_synth as synth;
pub use agent_systems as systems;
pub use agent_tools as tools;
pub use agent_train as train;
