//! Builds typed columns of nodes from fields and metapaths.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    FieldId, Kb, MetapathStep, NodeId, TypeId, distinct,
    table::{
        Budget, Cell, Column, ColumnKind, ColumnSpec, Key, MAX_BYTES, MAX_TIME, MAX_VALUES,
        NamedValue, column_name, fulfilling,
        value::{YEARS, category, date, quantity},
    },
};

/// Maximum number of steps of a metapath from which a column is built.
pub const MAX_STEPS: usize = 3;
/// Number of nodes that a step collects before duplicates are dropped.
const GATHERED: usize = 100_000;
/// Maximum number of nodes that are read to determine the kind of a field; they are evenly spaced.
const SAMPLED: usize = 1_000;
/// Minimum share of the values, in `0..=1`, that must fit a kind, such as numbers of one unit.
const FITS: f64 = 0.95;
/// Maximum number of distinct values in a field of categories, as a share of the number of sampled
/// values.
const MAX_DISTINCT: f64 = 0.4;
/// Number of distinct values that a field of categories may always have, even if few values are
/// sampled.
const FEW_DISTINCT: usize = 12;
/// Maximum mean length in bytes of the values in a field of categories.
const MAX_CATEGORY_BYTES: usize = 60;
/// Maximum mean length in bytes of short values such as cities; for them, [`MAX_DISTINCT`] is 0.9
/// and [`FEW_DISTINCT`] 50.
const MAX_SHORT_BYTES: usize = 20;
/// Separator of the items of a list in the text of a field.
const SEPARATOR: &str = "; ";
/// Share of values with several items above which a field holds lists.
const LISTS: f64 = 0.05;

/// Why a column cannot be read. Each variant holds the source of the column in words, or the name
/// of a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The columns of the table are too large together.
    #[error(
        "{0} makes the table larger than {most} MiB; ask about fewer rows",
        most = MAX_BYTES >> 20
    )]
    Memory(String),
    /// Building the table took too long.
    #[error(
        "time limit of {time} s exceeded: {0}; ask about fewer rows",
        time = MAX_TIME.as_secs()
    )]
    Time(String),
    /// A metapath leads from one node to too many names for a cell.
    #[error("{0} leads to more than {MAX_VALUES} names in one row; ask for their number")]
    Cell(String),
    /// A cell would hold several values that cannot be joined, because they are not categories.
    #[error(
        "{0} has several values per row, so it cannot be a column; ask about the type that has the \
         field"
    )]
    Several(String),
}

/// Statistics of one field of a type, from a sample of nodes.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Id of the field.
    pub field: FieldId,
    /// Kind of the values in the field.
    pub kind: ColumnKind,
    /// Unit of most of the numbers in the field; `None` if they have none.
    pub unit: Option<String>,
    /// Number of nodes in the sample.
    pub seen: usize,
    /// Number of nodes in the sample that have a value in the field.
    pub filled: usize,
    /// Number of distinct values in the sample; spellings of one category count once.
    pub distinct: usize,
    /// The values of a field of categories or years, each in its commonest spelling, the commonest
    /// value first; empty for other kinds.
    pub values: Vec<String>,
}

/// Returns statistics of each field of a type, from an evenly spaced sample of its nodes, in the
/// order of the fields' ids.
pub fn sample(kb: &Kb, kind: TypeId) -> Vec<Sample> {
    let looked: Vec<NodeId> = sampled(kb, kind, SAMPLED).collect();
    let mut texts: BTreeMap<FieldId, Vec<&str>> = BTreeMap::new();
    for &node in &looked {
        for (field, text) in kb.fields(node) {
            texts.entry(field).or_default().push(text);
        }
    }
    let of = |(field, texts): (FieldId, Vec<&str>)| {
        let (kind, unit) = field_kind(kb.field_name(field), &texts);
        let filled = texts.iter().filter(|text| !text.is_empty()).count();
        let counted = counted(kind, &texts);
        let (distinct, groups) = (counted.len(), kind.groups());
        let values =
            if groups { counted.into_iter().map(|(text, _)| text).collect() } else { vec![] };
        Sample { field, kind, unit, seen: looked.len(), filled, distinct, values }
    };
    texts.into_iter().map(of).collect()
}

/// Iterates over at most `n` nodes of a type, evenly spaced by id.
pub fn sampled(kb: &Kb, kind: TypeId, n: usize) -> impl Iterator<Item = NodeId> {
    let nodes = kb.nodes_of_type(kind);
    nodes.iter().step_by(nodes.len().div_ceil(n).max(1)).copied()
}

/// Returns the distinct values of texts, each in its commonest spelling and with its number of
/// occurrences: by descending number, ties by ascending text.
fn counted(kind: ColumnKind, texts: &[&str]) -> Vec<(String, usize)> {
    let spellings = Spellings::new(kind, texts);
    let known = spellings.counts.iter().filter(|(key, _)| !key.is_empty());
    let mut counted: Vec<(String, usize)> =
        known.map(|(_, own)| (commonest(own).to_owned(), own.values().sum())).collect();
    counted.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counted
}

/// Returns the spelling that occurs most often; of equally frequent spellings, the alphabetically
/// first.
fn commonest<'a>(spellings: &BTreeMap<&'a str, usize>) -> &'a str {
    let best = spellings.iter().max_by(|one, other| one.1.cmp(other.1).then(other.0.cmp(one.0)));
    best.map_or("", |(text, _)| text)
}

/// Returns the values in a text: the items of a list if the kind is categories, otherwise the text
/// itself; none for an empty text.
fn items(kind: ColumnKind, text: &str) -> impl Iterator<Item = &str> {
    let separator = if kind == ColumnKind::Categories { SEPARATOR } else { "\u{0}" };
    text.split(separator).map(str::trim).filter(|item| !item.is_empty())
}

/// Whether some node of the type `kind` has a value in `field` whose normal form ([`category`]) is
/// `key`; `values` is the kind of the field. Stops at the first such node.
pub fn has_value(kb: &Kb, kind: TypeId, field: FieldId, values: ColumnKind, key: &str) -> bool {
    let has = |node: &NodeId| {
        kb.field(*node, field)
            .is_some_and(|text| items(values, text).any(|item| category(item) == key))
    };
    kb.nodes_of_type(kind).iter().any(has)
}

/// Words in the names of fields that mark their whole numbers as years.
const YEAR_NAMES: [&str; 12] = [
    "born",
    "died",
    "birth",
    "death",
    "built",
    "formed",
    "founded",
    "established",
    "opened",
    "since",
    "published",
    "released",
];

/// Returns the kind of values of a field, judged by its name and some texts, and the unit of most
/// of its numbers. Numbers of which some are 1 and all others 0 mean yes and no, so they are
/// categories.
pub fn field_kind(name: &str, texts: &[&str]) -> (ColumnKind, Option<String>) {
    let filled: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
    let enough = |n: usize| !filled.is_empty() && n as f64 >= FITS * filled.len() as f64;
    // Codes and phone numbers such as `0117 939249` are not numbers.
    let is_code = |text: &&&str| {
        let behind = text.strip_prefix('0').unwrap_or_default();
        behind.starts_with(|c: char| c.is_ascii_digit())
    };
    let plain = filled.iter().filter(|text| !is_code(text));
    let numbers: Vec<_> = plain.filter_map(|text| quantity(text)).collect();
    if enough(numbers.len()) {
        let mut units: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for number in &numbers {
            *units.entry(number.unit.as_deref()).or_default() += 1;
        }
        let most = units.iter().max_by_key(|(_, n)| **n);
        let is_flag = || {
            let has = |flag: &str| filled.contains(&flag);
            [["0", "1"], ["0.0", "1.0"]].iter().any(|[no, yes]| {
                has(no) && has(yes) && filled.iter().all(|text| text == no || text == yes)
            })
        };
        if let Some((&unit, &n)) = most
            && enough(n)
            && !is_flag()
        {
            let is_year = |number: f64| number.fract() == 0.0 && YEARS.contains(&(number as i64));
            let lower = name.to_lowercase();
            let mut words = lower.split(|c: char| !c.is_alphanumeric());
            let named = lower.contains("year") || words.any(|word| YEAR_NAMES.contains(&word));
            let years = named && unit.is_none() && numbers.iter().all(|one| is_year(one.number));
            let kind = if years { ColumnKind::Year } else { ColumnKind::Number };
            return (kind, unit.map(str::to_owned));
        }
    }
    if enough(filled.iter().filter(|text| date(text).is_some()).count()) {
        return (ColumnKind::Date, None);
    }
    let several = filled.iter().filter(|text| text.contains(SEPARATOR)).count();
    let lists = several as f64 > LISTS * filled.len() as f64;
    let kind = if lists { ColumnKind::Categories } else { ColumnKind::Category };
    let counted = counted(kind, &filled);
    let n: usize = counted.iter().map(|(_, n)| n).sum();
    let bytes: usize = counted.iter().map(|(text, n)| text.len() * n).sum();
    let (most, few) = match bytes <= MAX_SHORT_BYTES * n {
        true => (0.9, 50),
        false => (MAX_DISTINCT, FEW_DISTINCT),
    };
    let few = counted.len() <= few.max((most * n as f64) as usize);
    if n > 0 && few && bytes <= MAX_CATEGORY_BYTES * n {
        return (kind, None);
    }
    (ColumnKind::Text, None)
}

/// Returns the nodes at the ends of a metapath from the node `from`, ascending, each once. Without
/// steps, returns `from`. If the metapath has several steps, `from` itself is left out.
pub fn reached(kb: &Kb, from: NodeId, steps: &[MetapathStep]) -> Vec<NodeId> {
    let mut nodes = vec![from];
    for step in steps {
        let mut next: Vec<NodeId> = Vec::new();
        let mut most = GATHERED;
        for &node in &nodes {
            let ends = kb.neighbors(node, step.relation, step.direction);
            next.extend(ends.iter().copied().filter(|&end| kb.node_type(end) == step.to));
            if next.len() > most {
                next = distinct(next);
                most = GATHERED.max(2 * next.len());
            }
        }
        nodes = distinct(next);
    }
    // A node may link to itself: an employee who is their own manager.
    nodes.retain(|&node| node != from || steps.len() < 2);
    nodes
}

/// Returns the nodes at the ends of a metapath from any of `starts`, ascending, each once; start
/// nodes that do not exist are skipped. `source` describes the metapath in errors.
///
/// # Errors
/// [`ColumnError::Time`].
pub fn reached_from(
    kb: &Kb,
    starts: &[NodeId],
    steps: &[MetapathStep],
    (budget, source): (&Budget, &str),
) -> Result<Vec<NodeId>, ColumnError> {
    let mut nodes: Vec<NodeId> = Vec::new();
    let mut most = GATHERED;
    for &start in starts.iter().filter(|node| kb.contains(**node)) {
        budget.step(source)?;
        nodes.extend(reached(kb, start, steps));
        if nodes.len() > most {
            nodes = distinct(nodes);
            most = GATHERED.max(2 * nodes.len());
        }
    }
    Ok(distinct(nodes))
}

/// Reads a column for some nodes of the type `kind`, one cell for each node. Linear in the number
/// of nodes, and for a metapath in the number of edges that are followed.
///
/// # Errors
/// [`ColumnError`].
pub fn read(
    kb: &Kb,
    kind: TypeId,
    nodes: &[NodeId],
    spec: &ColumnSpec,
    budget: &Budget,
) -> Result<Column, ColumnError> {
    let source = spec.source(kb, kind);
    budget.take(nodes.len() * size_of::<Cell>(), &source)?;
    let end = |steps: &[MetapathStep]| steps.last().map_or("", |step| kb.type_name(step.to));
    let column = |name: &str, kind, cells| column(name, kind, source.clone(), cells);
    Ok(match spec {
        ColumnSpec::Name => {
            let bytes = nodes.iter().map(|&node| kb.name(node).len()).sum();
            budget.take(bytes, &source)?;
            let cells = nodes.iter().map(|&node| Cell::Text(kb.name(node).into())).collect();
            column("name", ColumnKind::Text, cells)
        }
        ColumnSpec::Field(field) => of_field(kb, kind, nodes, *field, (budget, source))?,
        ColumnSpec::Names(steps) => {
            let mut names: HashMap<NodeId, Arc<str>> = HashMap::new();
            let mut cells: Vec<Cell> = Vec::with_capacity(nodes.len());
            for &node in nodes {
                let mut named: Vec<NamedValue> = Vec::new();
                budget.step(&source)?;
                let ends = reached(kb, node, steps);
                if ends.len() > MAX_VALUES {
                    return Err(ColumnError::Cell(source));
                }
                budget.take(ends.len() * size_of::<NamedValue>(), &source)?;
                for other in ends {
                    let name = names.entry(other).or_insert_with(|| kb.name(other).into());
                    named.push(NamedValue { key: Key::Node(other), name: name.clone() });
                }
                let cell = if named.is_empty() { Cell::Empty } else { Cell::Many(named.into()) };
                cells.push(cell);
            }
            column(end(steps), ColumnKind::Categories, cells)
        }
        ColumnSpec::Count(steps) => {
            let one = match steps.as_slice() {
                &[step] => Some(step).filter(|&step| leads_to_one_type(kb, kind, step)),
                _ => None,
            };
            let count = |&node: &NodeId| {
                if let Some(step) = one {
                    return Ok(kb.degree(node, step.relation, step.direction));
                }
                budget.step(&source)?;
                Ok(reached(kb, node, steps).len())
            };
            column(&format!("n_{}", end(steps)), ColumnKind::Number, counts(nodes, count)?)
        }
        ColumnSpec::CountAmong { steps, among } => {
            let counted = fulfilling(kb, among, budget)?.unwrap_or_default();
            let is_counted = |end: &NodeId| counted.binary_search(end).is_ok();
            let count = |&node: &NodeId| {
                budget.step(&source)?;
                Ok(reached(kb, node, steps).iter().filter(|end| is_counted(end)).count())
            };
            column(&format!("n_{}", end(steps)), ColumnKind::Number, counts(nodes, count)?)
        }
        ColumnSpec::FieldOf { steps, field } => {
            of_ends(kb, kind, nodes, (steps, *field), (budget, source))?
        }
    })
}

/// Returns a cell with a number for each node.
fn counts(
    nodes: &[NodeId],
    count: impl FnMut(&NodeId) -> Result<usize, ColumnError>,
) -> Result<Vec<Cell>, ColumnError> {
    nodes.iter().map(count).map(|n| Ok(Cell::Number(n? as f64))).collect()
}

/// Reads the column of names at the ends of the metapath `steps`, restricted to the end nodes
/// `named`; `back` is the reversed metapath. `nodes`, ascending, are the nodes of the rows, and
/// `kind` is their type. Linear in the number of edges that lead back from `named`, plus one empty
/// cell for each row.
///
/// # Errors
/// [`ColumnError`].
pub fn read_named(
    kb: &Kb,
    kind: TypeId,
    nodes: &[NodeId],
    (steps, back, named): (&[MetapathStep], &[MetapathStep], &[NodeId]),
    budget: &Budget,
) -> Result<Column, ColumnError> {
    let spec = ColumnSpec::Names(steps.to_vec());
    let source = format!("{}, restricted to the named nodes", spec.source(kb, kind));
    budget.take(nodes.len() * size_of::<Cell>(), &source)?;
    let mut of_row: BTreeMap<usize, Vec<NamedValue>> = BTreeMap::new();
    for &other in named {
        let name: Arc<str> = kb.name(other).into();
        budget.step(&source)?;
        for node in reached(kb, other, back) {
            if let Ok(row) = nodes.binary_search(&node) {
                budget.take(size_of::<NamedValue>(), &source)?;
                let one = NamedValue { key: Key::Node(other), name: name.clone() };
                of_row.entry(row).or_default().push(one);
            }
        }
    }
    let mut cells = vec![Cell::Empty; nodes.len()];
    for (row, own) in of_row {
        cells[row] = Cell::Many(distinct(own).into());
    }
    let end = steps.last().map_or("", |step| kb.type_name(step.to));
    Ok(column(end, ColumnKind::Categories, source, cells))
}

/// Creates a column without a unit, all of whose cells fit its kind.
fn column(name: &str, kind: ColumnKind, source: String, cells: Vec<Cell>) -> Column {
    Column { name: column_name(name), kind, unit: None, source, cells, unfit: 0 }
}

/// Whether all edges of a step from nodes of the type `from` end at the type of the step, and this
/// type is not `from`. The number of a node's edges is then the number of nodes that the step
/// reaches.
fn leads_to_one_type(kb: &Kb, from: TypeId, step: MetapathStep) -> bool {
    use crate::Direction;
    let mut ends = kb.tuples().iter().filter(|tuple| tuple.relation == step.relation);
    let fits = |source: TypeId, target: TypeId| source != from || target == step.to;
    from != step.to
        && ends.all(|tuple| match step.direction {
            Direction::Out => fits(tuple.source, tuple.target),
            Direction::In => fits(tuple.target, tuple.source),
            Direction::Any => false,
        })
}

fn of_field(
    kb: &Kb,
    kind: TypeId,
    nodes: &[NodeId],
    field: FieldId,
    (budget, source): (&Budget, String),
) -> Result<Column, ColumnError> {
    let texts: Vec<&str> =
        nodes.iter().map(|&node| kb.field(node, field).unwrap_or_default()).collect();
    budget.take(texts.iter().map(|text| text.len()).sum(), &source)?;
    // The kind is determined from all nodes of the type, so that it does not depend on the rows.
    let looked: Vec<&str> =
        sampled(kb, kind, SAMPLED).filter_map(|node| kb.field(node, field)).collect();
    let known = looked.iter().any(|text| !text.is_empty());
    Ok(of_texts(kb.field_name(field), &texts, if known { &looked } else { &texts }, source))
}

/// Reads a field of the nodes at the ends of a metapath, one cell for each of `nodes`. A cell holds
/// all categories that its node reaches; other kinds allow only one value in a cell.
fn of_ends(
    kb: &Kb,
    kind: TypeId,
    nodes: &[NodeId],
    (steps, field): (&[MetapathStep], FieldId),
    (budget, source): (&Budget, String),
) -> Result<Column, ColumnError> {
    let end = steps.last().map_or(kind, |step| step.to);
    let mut ends: Vec<Vec<NodeId>> = Vec::with_capacity(nodes.len());
    for &node in nodes {
        budget.step(&source)?;
        let own = reached(kb, node, steps);
        budget.take(own.len() * size_of::<NamedValue>(), &source)?;
        ends.push(own);
    }
    let all = distinct(ends.concat());
    let column = of_field(kb, end, &all, field, (budget, source))?;
    let cell = |node: &NodeId| column.cells.get(all.binary_search(node).ok()?);
    let several = ends.iter().any(|own| own.len() > 1);
    let mut cells = Vec::with_capacity(nodes.len());
    for own in &ends {
        let mut values: Vec<&Cell> =
            own.iter().filter_map(cell).filter(|of| !of.is_empty()).collect();
        values.dedup();
        cells.push(match (column.kind, values.as_slice()) {
            (_, []) => Cell::Empty,
            (ColumnKind::Category | ColumnKind::Categories, _) if several => {
                Cell::Many(distinct(values.into_iter().flat_map(named_values).collect()).into())
            }
            (_, [only]) => (*only).clone(),
            _ => return Err(ColumnError::Several(column.source)),
        });
    }
    let kind = match column.kind {
        ColumnKind::Category if several => ColumnKind::Categories,
        kind => kind,
    };
    Ok(Column { kind, cells, ..column })
}

/// Returns the categories in a cell; none if the cell holds none.
fn named_values(cell: &Cell) -> Vec<NamedValue> {
    match cell {
        Cell::Text(text) => {
            vec![NamedValue { key: Key::Value(category(text).into()), name: text.clone() }]
        }
        Cell::Many(values) => values.to_vec(),
        Cell::Empty | Cell::Number(_) => Vec::new(),
    }
}

/// Creates a column from texts, one for each row, empty where there is no value. The kind of the
/// column is determined from the texts `looked`, which need not be those of the rows.
pub fn of_texts(name: &str, texts: &[&str], looked: &[&str], source: String) -> Column {
    let (kind, unit) = field_kind(name, looked);
    let mut unfit = 0;
    let mut cells: Vec<Cell> = Vec::with_capacity(texts.len());
    let spellings = match kind.groups() && !kind.is_number() {
        true => Spellings::new(kind, texts),
        false => Spellings::default(),
    };
    for &text in texts {
        let cell = match kind {
            _ if text.is_empty() => Some(Cell::Empty),
            ColumnKind::Number | ColumnKind::Year => {
                let fitting = quantity(text).filter(|one| one.unit == unit);
                fitting.map(|one| Cell::Number(one.number))
            }
            ColumnKind::Date => date(text).map(|date| Cell::Text(date.into())),
            ColumnKind::Category => spellings.named(text).map(|one| Cell::Text(one.name)),
            ColumnKind::Categories => {
                let named = items(kind, text).filter_map(|item| spellings.named(item));
                let mut named = distinct(named.collect());
                named.truncate(MAX_VALUES);
                (!named.is_empty()).then(|| Cell::Many(named.into()))
            }
            ColumnKind::Text => Some(Cell::Text(text.into())),
        };
        unfit += usize::from(cell.is_none());
        cells.push(cell.unwrap_or(Cell::Empty));
    }
    Column { name: column_name(name), kind, unit, source, cells, unfit }
}

/// The spellings of values in a column, and the commonest spelling of each value.
#[derive(Default)]
struct Spellings<'a> {
    keys: HashMap<&'a str, Arc<str>>,
    counts: HashMap<Arc<str>, BTreeMap<&'a str, usize>>,
    names: HashMap<Arc<str>, Arc<str>>,
}

impl<'a> Spellings<'a> {
    /// Counts the spellings of the values in texts.
    fn new(kind: ColumnKind, texts: &[&'a str]) -> Self {
        let mut spellings = Self::default();
        for item in texts.iter().flat_map(|text| items(kind, text)) {
            let key = spellings.keys.entry(item).or_insert_with(|| category(item).into());
            *spellings.counts.entry(key.clone()).or_default().entry(item).or_default() += 1;
        }
        let named = spellings.counts.iter().map(|(key, own)| (key.clone(), commonest(own).into()));
        spellings.names = named.collect();
        spellings
    }

    /// Returns the value that an item spells; `None` if the item contains no word.
    fn named(&self, item: &str) -> Option<NamedValue> {
        let key = self.keys.get(item.trim()).filter(|key| !key.is_empty())?;
        Some(NamedValue { key: Key::Value(key.clone()), name: self.names.get(key)?.clone() })
    }
}
