//! Tools over text: linking entities, searching the base, and matching within a set of nodes.

use std::sync::Arc;

use crate::{
    ArgSpec, Args, Kind, NodeFlow, ToolCtx, ToolError, ToolSpec, Value, cost, lookup, spec::Run,
};
use agent_ground::words::{name_words, quoted};
use agent_index::{IndexError, TextPart, query::QueryError, terms::QueryTerms};
use agent_kb::{NodeId, Scores};

/// Maximum number of nodes that one search returns.
const MAX_FOUND: usize = 5_000;
/// Number of vectors scored between two polls of the meter.
const CHUNK_ROWS: usize = 16_384;
/// Cost of linking or searching a text, as shown on the reference page; the cost of most tools of
/// this group.
pub(super) const PER_WORD: &str = "1,000 per word (per 64 bytes of a longer one)";
/// Cost of comparing nodes with a text, as shown on the reference page.
const PER_SCORED: &str = "1 per byte of the text; per node 10, or 1 per 4 different words of the \
                          text if that is more";

const TEXT: ArgSpec = ArgSpec::new("text", Kind::Text);
const TYPES: ArgSpec = ArgSpec::optional("types", Kind::Texts, "[]");
const NODES: ArgSpec = ArgSpec::new("nodes", Kind::Nodes);

const fn k(default: &'static str) -> ArgSpec {
    ArgSpec::optional("k", Kind::Int, default)
}

/// Describes a tool that finds nodes by a text.
const fn find_tool(
    name: &'static str,
    args: &'static [ArgSpec],
    doc: &'static str,
    example: &'static str,
    run: Run,
) -> ToolSpec {
    ToolSpec::new(name, args, Kind::Scores, doc, example, run).with_flow(NodeFlow::Find).cached()
}

/// Describes a tool that scores given nodes by a text.
const fn score_tool(
    name: &'static str,
    doc: &'static str,
    example: &'static str,
    run: Run,
) -> ToolSpec {
    find_tool(name, &[TEXT, NODES], doc, example, run)
        .with_flow(NodeFlow::Carry)
        .with_cost(PER_SCORED)
}

pub(super) const TOOLS: &[ToolSpec] = &[
    find_tool(
        "link",
        &[TEXT, TYPES, k("10")],
        "Nodes that the text names, by name, alias, identifier or initials, with strength in \
         0..1: an identifier 1, a full name in order m / (m + 1.5), with m the rarity of its \
         words, so that a name of one common word is weak; a part of a name c * c * m / (m + \
         6), with c the share of it that the text has; with one typo 0.9 of that. Names may \
         overlap: of nested ones all are given, the longest strongest. Words that only shape \
         questions (which, find, like) name nothing in part, but other words of the question \
         do; give only the part of the text that names something, such as one of \
         quoted(query). The k strongest of each given type, of every type when none is given.",
        r#"link(query, ["brand", "category"], 3)"#,
        link,
    )
    .with_flow(NodeFlow::Link),
    find_tool(
        "search",
        &[TEXT, TYPES, k("50")],
        "The k nodes whose documents match the text best by BM25, of the given types or of \
         all.",
        r#"search(query, "product", 10)"#,
        |ctx, args| search(ctx, args, 1, TextPart::Document),
    ),
    find_tool(
        "search_with_names",
        &[TEXT, TYPES, k("50")],
        "As search, over documents that also hold the names of the node's neighbours.",
        r#"search_with_names(query, "product", 10)"#,
        |ctx, args| search(ctx, args, 1, TextPart::DocumentWithNames),
    ),
    find_tool(
        "search_fields",
        &[TEXT, TYPES, k("50")],
        "The k nodes that match the text best by BM25F, with stemming: one score of the document \
         and of the names of the node's neighbours, of the given types or of all. The best \
         search by words where nothing is linked.",
        r#"search_fields(query, "product", 10)"#,
        search_fields,
    ),
    find_tool(
        "search_field",
        &[TEXT, ArgSpec::new("field", Kind::Text), TYPES, k("50")],
        "As search, over one field.",
        r#"search_field(query, "description", "product")"#,
        |ctx, args| {
            let field = lookup::field(ctx.base, args.text(1)?)?;
            search(ctx, args, 2, TextPart::Field(field))
        },
    ),
    find_tool(
        FIND,
        &[ArgSpec::new("expression", Kind::Text), TYPES, k("50")],
        "The k nodes that an expression wants, of the given types or of all, best first by \
         BM25: words (in name or document), +must, -not, \"a phrase\", \"a phrase\"~2 with \
         words moved, word* by its beginning, word~1 with a typo, field:word, relation:word \
         in the name of a neighbour, field:[5 TO 20] or field:>=5 for numbers, AND, OR, NOT \
         and parentheses. No stems. A text of the query is best quoted: \"...\". What cannot \
         be read fails, with the character where it is wrong.",
        r#"find("+steel bottl* -mug", "product", 10)"#,
        find,
    )
    .with_cost("1 per node of the base and 1,000 per word"),
    find_tool(
        "search_vectors",
        &[TEXT, TYPES, k("50")],
        "The k nodes whose embeddings are most similar to that of the text (exact search), of \
         the given types or of all.",
        r#"search_vectors(query, "product", 10)"#,
        search_vectors,
    )
    .with_cost("1 per 4 nodes of the types, 1 per byte of the text"),
    score_tool(
        "match_text",
        "BM25 of the documents of the given nodes, with stemming; 0 for nodes without a common \
         word. Use it to rank what hops reached.",
        r#"match_text(query, hop(link(query, "brand"), "has_brand"))"#,
        |ctx, args| score(ctx, args, false, |ctx, query, node| ctx.base.terms.bm25(query, node)),
    ),
    score_tool(
        "match_names",
        "BM25 of the names of the neighbours of the given nodes, with stemming; 0 for nodes \
         without a common word.",
        r#"match_names(query, nodes([0, 1, 2]))"#,
        |ctx, args| {
            score(ctx, args, true, |ctx, query, node| ctx.base.neighbor_names.bm25(query, node))
        },
    ),
    score_tool(
        "match_fields",
        "BM25F of the documents and of the names of the neighbours of the given nodes, with \
         stemming, as search_fields scores them; 0 for nodes without a common word.",
        r#"match_fields(query, nodes([0, 1, 2]))"#,
        match_fields,
    ),
    score_tool(
        "cover",
        "Share of the text's words, weighted by rarity, that each node's document has, in \
         0..1, with stemming; words that no document of the base has are left out.",
        r#"cover(query, nodes([0, 1, 2]))"#,
        |ctx, args| {
            score(ctx, args, false, |ctx, query, node| ctx.base.terms.coverage(query, node))
        },
    ),
    score_tool(
        "similarity",
        "Cosine similarity of the embeddings of the text and of each node, in -1..1.",
        r#"similarity(query, nodes([0, 1, 2]))"#,
        similarity,
    )
    .with_cost("1 per byte of the text, 10 per node"),
    ToolSpec::new(
        "without_names",
        &[TEXT, NODES],
        Kind::Text,
        "The text without the words that name any of the nodes, wherever they stand: what is \
         left describes the answer rather than the nodes it is linked to. Every word of a \
         name or alias goes, also an ordinary one, so give it sure links only; signs between \
         words go too.",
        r#"without_names(query, link(query, "brand", 1))"#,
        |ctx, args| {
            let (text, nodes) = (args.text(0)?, args.nodes(1)?);
            cost::charge_words(ctx, text)?;
            cost::charge_scored(ctx, nodes.len(), 0)?;
            let nodes = lookup::nodes(ctx.base, &nodes)?;
            let left =
                ctx.base.entities.without_names_while(text, nodes, &mut || ctx.meter.poll())?;
            Ok(Value::text(&left))
        },
    )
    .with_cost("1,000 per word (per 64 bytes of a longer one), 10 per node")
    .cached(),
    ToolSpec::new(
        "words",
        &[TEXT],
        Kind::Texts,
        "The words of a text in order, lower case, without accents.",
        "words(query)",
        |ctx, args| {
            let text = args.text(0)?;
            cost::charge_text(ctx, text)?;
            Ok(Value::List(name_words(text).map(|(_, word)| Value::text(&word)).collect()))
        },
    )
    .with_cost("1 per byte of the text"),
    ToolSpec::new(
        "quoted",
        &[TEXT],
        Kind::Texts,
        "The parts of a text between double quotation marks (straight, curly or angular, no \
         single ones), in order, without the marks, at most 32; none where nothing is \
         quoted. A mark behind a number is no quotation mark where \
         another closes the quotation.",
        r#"quoted("like \"Steel Bottle\" by Northpeak")"#,
        |ctx, args| {
            let text = args.text(0)?;
            cost::charge_text(ctx, text)?;
            Ok(Value::List(quoted(text).into_iter().map(Value::text).collect()))
        },
    )
    .with_cost("1 per byte of the text"),
    ToolSpec::new(
        "name_of",
        &[ArgSpec::new("node", Kind::Node)],
        Kind::Text,
        "The name of a node.",
        "name_of(0)",
        |ctx, args| {
            let node = lookup::node(ctx.base, args.node(0)?)?;
            Ok(Value::text(ctx.base.kb.name(node)))
        },
    )
    .with_cost("1"),
    ToolSpec::new(
        "field_of",
        &[ArgSpec::new("node", Kind::Node), ArgSpec::new("field", Kind::Text)],
        Kind::Text,
        "The text of one field of a node, empty when it has none.",
        r#"field_of(0, "description")"#,
        |ctx, args| {
            let node = lookup::node(ctx.base, args.node(0)?)?;
            let field = lookup::field(ctx.base, args.text(1)?)?;
            Ok(Value::text(ctx.base.kb.field(node, field).unwrap_or_default()))
        },
    )
    .with_cost("1"),
];

/// Name of the tool that needs an index of the query language.
pub(super) const FIND: &str = "find";

/// Wraps the error of a failed index, which the program did not cause.
pub(super) fn internal(error: impl std::fmt::Display) -> ToolError {
    ToolError::Internal(error.to_string())
}

fn search_size(args: &Args<'_>, index: usize) -> Result<usize, ToolError> {
    let k = args.count(index)?;
    if k > MAX_FOUND {
        return Err(ToolError::BadArgs(format!("k = {k} exceeds the limit of {MAX_FOUND} nodes")));
    }
    Ok(k)
}

fn link(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (text, k) = (args.text(0)?, search_size(args, 2)?);
    let types = lookup::node_types(ctx.base, &args.texts(1)?)?;
    cost::charge_words(ctx, text)?;
    let names = &ctx.base.entities;
    let found = names.link_while(&ctx.base.kb, text, &types, k, &mut || ctx.meter.poll())?;
    Ok(Value::scores(found))
}

fn search(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    types_index: usize,
    part: TextPart,
) -> Result<Value, ToolError> {
    let (text, k) = (args.text(0)?, search_size(args, types_index + 1)?);
    let types = lookup::node_types(ctx.base, &args.texts(types_index)?)?;
    cost::charge_words(ctx, text)?;
    Ok(Value::scores(Scores::new(ctx.base.text.search(text, part, &types, k))))
}

fn search_fields(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (text, k) = (args.text(0)?, search_size(args, 2)?);
    let types = lookup::node_types(ctx.base, &args.texts(1)?)?;
    cost::charge_words(ctx, text)?;
    Ok(Value::scores(Scores::new(ctx.base.search_fields(text, &types, k))))
}

fn match_fields(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (text, nodes) = (args.text(0)?, args.nodes(1)?);
    cost::charge_text(ctx, text)?;
    let query = ctx.base.fields_query(text);
    cost::charge_scored(ctx, nodes.len(), 2 * query.len())?;
    let nodes = lookup::nodes(ctx.base, &nodes)?;
    let score = |ctx: &mut ToolCtx<'_>, node| Ok((node, ctx.base.match_fields(&query, node)));
    Ok(Value::scores(Scores::new(cost::map_nodes(ctx, nodes, score)?)))
}

fn find(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (expression, k) = (args.text(0)?, search_size(args, 2)?);
    let types = lookup::node_types(ctx.base, &args.texts(1)?)?;
    let index = ctx.base.query_index().map_err(|error| match error {
        IndexError::MissingPart { .. } => ToolError::NotFound(error.to_string()),
        error => internal(error),
    })?;
    ctx.meter.touch(ctx.base.kb.n_nodes() as usize)?;
    cost::charge_words(ctx, expression)?;
    let found = index.search(&ctx.base.kb, expression, &types, k).map_err(|error| match error {
        QueryError::Index(error) => internal(error),
        error => ToolError::BadArgs(error.to_string()),
    })?;
    Ok(Value::scores(Scores::new(found)))
}

fn search_vectors(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let (text, k) = (args.text(0)?, search_size(args, 2)?);
    let types = lookup::node_types(ctx.base, &args.texts(1)?)?;
    cost::charge_rows(ctx, &types)?;
    cost::charge_text(ctx, text)?;
    let ranking = ctx.base.search_vectors(text, &types, k).map_err(internal)?;
    Ok(Value::scores(Scores::new(ranking)))
}

fn similarity(ctx: &mut ToolCtx<'_>, args: &Args<'_>) -> Result<Value, ToolError> {
    let nodes = args.nodes(1)?;
    let nodes = lookup::nodes(ctx.base, &nodes)?;
    let cosines = cosines(ctx, args.text(0)?, nodes)?;
    Ok(Value::scores(Scores::new(nodes.iter().copied().zip(cosines).collect())))
}

/// Computes the cosine similarity between the embeddings of the text and of each node, in the order
/// of the nodes; charges the cost.
pub(super) fn cosines(
    ctx: &mut ToolCtx<'_>,
    text: &str,
    nodes: &[NodeId],
) -> Result<Vec<f32>, ToolError> {
    cost::charge_text(ctx, text)?;
    cost::charge_scored(ctx, nodes.len(), 0)?;
    let vector: Arc<[f32]> = ctx.base.embed_query(text).map_err(internal)?;
    let mut cosines = Vec::with_capacity(nodes.len());
    for chunk in nodes.chunks(CHUNK_ROWS) {
        ctx.meter.poll()?;
        cosines.extend(ctx.base.vectors.score(&vector, chunk).map_err(internal)?);
    }
    Ok(cosines)
}

/// Scores the nodes of the second argument by the words of the first, with `score_node`. If
/// `in_names` is set, the words are matched with the names of neighbours instead of documents.
fn score(
    ctx: &mut ToolCtx<'_>,
    args: &Args<'_>,
    in_names: bool,
    score_node: impl Fn(&ToolCtx<'_>, &QueryTerms, NodeId) -> f32,
) -> Result<Value, ToolError> {
    let (text, nodes) = (args.text(0)?, args.nodes(1)?);
    cost::charge_text(ctx, text)?;
    let query = ctx.query_terms.terms(ctx.base, in_names, text);
    cost::charge_scored(ctx, nodes.len(), query.len())?;
    let nodes = lookup::nodes(ctx.base, &nodes)?;
    let pairs = cost::map_nodes(ctx, nodes, |ctx, node| Ok((node, score_node(ctx, &query, node))))?;
    Ok(Value::scores(Scores::new(pairs)))
}
