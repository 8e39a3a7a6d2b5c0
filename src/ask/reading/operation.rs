//! Builds the operation of a plan for a given kind of question from the question's mentions.

use crate::{
    AskError,
    kind::Kind,
    lexicon::{Bound, Cue, Function},
    mentions::{Mention, What},
    missing,
    plan::{Change, Condition, Measure, Operation, Plan, Subject, Test},
    reading::{
        Reading,
        numbers::{NumberUse, push_number},
    },
    schema::types_of,
};
use agent_kb::{
    Direction, FieldId, MetapathStep, RelationId, TypeId, metapath_in_words,
    table::{ColumnKind, ColumnSpec, MAX_STEPS},
};

/// Words with which yes-or-no questions begin.
pub(super) const YES_NO: [&str; 14] = [
    "is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can", "will", "would",
    "could",
];

/// Message that refuses a total over nodes to which several rows may link.
pub(super) const COUNTED_TWICE: &str = "nodes linked to several rows would be counted more than once; \
                                        ask for the total or the mean of directly linked nodes";

/// The parts of a question outside of its assumption. The first number of each pair is the index of
/// a mention.
#[derive(Default)]
pub(super) struct Parts {
    /// Columns of numbers that are not bounded: pairs of a mention and a column index.
    pub(super) measures: Vec<(usize, usize)>,
    /// Columns by whose values rows may be grouped: pairs of a mention and a column index.
    pub(super) groups: Vec<(usize, usize)>,
    /// The subjects that the question compares.
    pub(super) subjects: Vec<Subject>,
    /// Conditions on rows, each with the index of its mention.
    pub(super) conditions: Vec<(usize, Condition)>,
    pub(super) filters: Vec<(usize, Test)>,
    /// Whether the question counts the rows themselves.
    pub(super) counts_rows: bool,
}

impl Reading<'_> {
    /// Plans the question as a question of the given kind.
    pub(super) fn of_kind(&mut self, kind: Kind) -> Result<Plan, AskError> {
        let supposed = self.change()?;
        if supposed.is_some() != (kind == Kind::Hypothetical) {
            return Err(AskError::NoTable);
        }
        if kind != Kind::Hypothetical {
            return self.whole(kind, kind, None);
        }
        // Nothing that a failed attempt noted remains.
        let noted = (self.columns.clone(), self.assumed.clone());
        for inner in [Kind::Superlative, Kind::Intercomparison] {
            if let Ok(plan) = self.whole(kind, inner, supposed.clone()) {
                return Ok(plan);
            }
            (self.columns, self.assumed) = noted.clone();
        }
        self.whole(kind, Kind::Aggregation, supposed)
    }

    fn whole(
        &mut self,
        kind: Kind,
        inner: Kind,
        supposed: Option<Change>,
    ) -> Result<Plan, AskError> {
        if is_test(inner) && self.has(Cue::HowMany) {
            return Err(AskError::NoTable);
        }
        let mut parts = self.parts(inner)?;
        let operation = match inner {
            Kind::Aggregation | Kind::Hypothetical => self.aggregation(&mut parts),
            Kind::Superlative => self.superlative(&mut parts),
            Kind::Intercomparison => self.comparison(&mut parts),
            Kind::Distribution => self.distribution(&parts),
            Kind::Correlation => self.correlation(&mut parts),
            Kind::Variance => self.spread(&mut parts),
            Kind::Descriptive => self.relation(&parts),
        }?;
        self.refuse_unused(&parts, &operation, supposed.as_ref())?;
        Ok(self.planned(kind, parts, operation, supposed))
    }

    /// Builds a plan from the parts of the question and the operation.
    pub(super) fn planned(
        &mut self,
        kind: Kind,
        mut parts: Parts,
        operation: Operation,
        supposed: Option<Change>,
    ) -> Plan {
        self.join_conditions(&mut parts);
        Plan {
            kind,
            rows: self.rows,
            conditions: parts.conditions.into_iter().map(|(_, condition)| condition).collect(),
            filters: parts.filters.into_iter().map(|(_, test)| test).collect(),
            columns: self.columns.clone(),
            texts: Vec::new(),
            operation,
            supposed,
            asks_same: self.asks_same(),
            asks_more: self.asks_more(),
            assumed: self.assumed.clone(),
        }
    }

    /// Sorts the mentions outside of the assumption into the parts of a question of the given kind.
    pub(super) fn parts(&mut self, kind: Kind) -> Result<Parts, AskError> {
        let counts_rows = self.counted.values().any(|kind| *kind == self.rows)
            || self.counts_unnamed(self.rows)
            || self.counts_them();
        let mut parts = Parts { counts_rows, ..Parts::default() };
        self.put_things(kind, false, &mut parts)?;
        self.put_numbers(kind, false, &mut parts)?;
        for at in 0..self.mentions.all.len() {
            if self.changed[at] || self.bound.contains_key(&at) || self.asked == Some(at) {
                continue;
            }
            let holds = !self.denied.contains(&at);
            let flag = self.flag_test(at, holds).or_else(|| self.stock_test(at, holds));
            // `newsletter 0` gets a test from its number.
            if let Some(test) = flag.filter(|_| !is_test(kind) && !self.bounded.contains(&at)) {
                parts.filters.push((at, test));
            } else if !holds {
                let test = self.without(at)?;
                parts.filters.extend(test.map(|test| (at, test)));
            } else if self.is_group(at) {
                parts.groups.extend(self.group_column(at).map(|column| (at, column)));
            } else if !self.bounded.contains(&at)
                && let Some(column) = self.number_column(at)?
            {
                // Two mentions may be one column: `the prices of A vary more than the prices of B`.
                if !parts.measures.iter().any(|(_, known)| *known == column) {
                    parts.measures.push((at, column));
                }
            } else if let Some(fields) = self.fields_at(at)
                && let Some(field) = self.field(fields, false)
                && matches!(self.kind_of(field), Some(ColumnKind::Text | ColumnKind::Date))
                && !self.bounded.contains(&at)
            {
                self.put_text(at, field, &mut parts)?;
            }
        }
        if let Some(at) = self.part_mention()
            && let Ok(field) = self.time_field()
            && self.kind_of(field) == Some(ColumnKind::Date)
        {
            parts.groups.push((at, self.field_column(field)));
        }
        self.put_linked(&mut parts)?;
        // Counted links do not group the rows: `how many did each of them request`.
        parts.groups.retain(|(_, group)| match &self.columns[*group] {
            ColumnSpec::Names(steps) => {
                let counted = ColumnSpec::Count(steps.clone());
                !parts.measures.iter().any(|(_, column)| self.columns[*column] == counted)
            }
            _ => true,
        });
        Ok(parts)
    }

    /// Adds filters for relations that are mentioned without their target: `products that were
    /// bought`.
    ///
    /// # Errors
    /// If it is unclear what a mentioned relation means for the rows.
    fn put_linked(&mut self, parts: &mut Parts) -> Result<(), AskError> {
        // `play` in `what role did X play in Y` is what joins X and Y.
        let joins = self.asked.is_some() && parts.conditions.len() > 1;
        for at in 0..self.mentions.all.len() {
            let said = !self.changed[at]
                && self.what(at) == Some(&What::Relation)
                && !(joins || self.asked == Some(at));
            if !said || self.is_followed(at, parts) {
                continue;
            }
            let links = self.links_to(at);
            let mut steps = self.schema.steps(self.rows);
            // If a name or another type follows, steps within the row type do not apply.
            steps.retain(|step| self.says(at, step.relation));
            let is_within = steps.iter().any(|step| step.to == self.rows);
            steps.retain(|step| !links || step.to != self.rows);
            match steps.as_slice() {
                &[step] if !links && step.to != self.rows && !self.is_one_of_two_verbs(at) => {
                    let column = self.column(ColumnSpec::Count(vec![step]));
                    parts.filters.push((at, count_is(Bound::Above, column)));
                }
                [] if links && !is_within && !self.is_row_behind(at, parts) => {}
                _ => {
                    let said = self.said_at(at);
                    let rows = self.kb.type_name(self.rows);
                    return missing(format!(
                        "cannot tell what {said:?} means for a {rows}; name the linked type or node"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether a relation is joined by `and` to another one, and both follow one name: `does X
    /// maintain and review`.
    fn is_one_of_two_verbs(&self, at: usize) -> bool {
        let joins = |one: usize, other: usize| {
            self.what(one) == self.what(other) && self.said_at(one + 1) == "and"
        };
        (joins(at, at + 2) || at > 1 && joins(at - 2, at))
            && matches!(self.what_beside(at, -1), Some(What::Thing(_)))
    }

    /// Whether the mention after `at` names a row itself, so that the relation in mention `at` does
    /// not lead to other nodes.
    fn is_row_behind(&self, at: usize, parts: &Parts) -> bool {
        let is_next = |place: usize| self.beside(at, 1) == Some(place);
        parts.conditions.iter().any(|(place, one)| one.steps.is_empty() && is_next(*place))
    }

    /// Whether a word of the mention with index `at` refers to the relation.
    pub(super) fn says(&self, at: usize, relation: RelationId) -> bool {
        self.mentions.said(at).iter().any(|token| self.schema.is_said_by(relation, &token.stem))
    }

    /// Whether the relation in a mention is a step of a condition's or a column's metapath.
    pub(super) fn is_followed(&self, at: usize, parts: &Parts) -> bool {
        let said = parts.measures.iter().chain(&parts.groups).map(|(_, column)| *column);
        let tests = parts.filters.iter().map(|(_, test)| test);
        let tests = tests.chain(parts.subjects.iter().map(|subject| &subject.test));
        let columns = said.chain(tests.flat_map(Test::columns));
        let of_columns = columns.flat_map(|column| self.columns[column].steps());
        let to_rows = parts.conditions.iter().flat_map(|(_, condition)| &condition.steps);
        of_columns.chain(to_rows).any(|step| self.says(at, step.relation))
    }

    /// Whether a name, or a type other than the row type, follows a mention.
    fn links_to(&self, at: usize) -> bool {
        let Some(next) = self.beside(at, 1) else { return false };
        let is_end = match self.what(next) {
            Some(What::Thing(_)) => true,
            Some(What::Type(kind)) => *kind != self.rows || self.bound.contains_key(&next),
            _ => false,
        };
        is_end && !self.is_said_between(at, next, &["and", "but"])
    }

    /// Adds the filter that rows have a value of a field of texts or dates, if the question counts
    /// rows or asks for a share. Refuses a question that searches texts.
    fn put_text(&mut self, at: usize, field: FieldId, parts: &mut Parts) -> Result<(), AskError> {
        // In `shipped to France`, `shipped` refers to the place, not to the field.
        if self.word_after(at) == "to" {
            return Ok(());
        }
        let next = self.what_beside(at, 1);
        let is_text = self.kind_of(field) == Some(ColumnKind::Text);
        if is_text && matches!(next, Some(What::Thing(_))) {
            let name = self.kb.field_name(field);
            return missing(format!(
                "{name:?} is a text field; searching text fields is not supported here"
            ));
        }
        let is_of_row = self.is_yes_no() && !self.lists && !is_text;
        if parts.counts_rows && self.has(Cue::HowMany) || self.has(Cue::Share) || is_of_row {
            self.refuse_form_of_all(at, field)?;
            parts.filters.push((at, Test::Filled { column: self.field_column(field) }));
        }
        Ok(())
    }

    /// Adds the numbers and dates in the assumption (if `changed`) or outside to `parts` as
    /// filters, or two numbers as compared subjects.
    pub(super) fn put_numbers(
        &mut self,
        kind: Kind,
        changed: bool,
        parts: &mut Parts,
    ) -> Result<(), AskError> {
        let mut numbers = self.numbers.clone();
        numbers.retain(|number| number.changed == changed);
        let is_equal = |number: &NumberUse| number.bound == Bound::Equal;
        let compares = matches!(kind, Kind::Intercomparison | Kind::Variance)
            && parts.subjects.is_empty()
            && numbers.iter().filter(|number| is_equal(number)).count() == 2;
        for number in &numbers {
            let test = self.number_test(number)?;
            if compares && is_equal(number) {
                parts.subjects.push(Subject { name: format!("{}", number.number), test });
                continue;
            }
            // A value cannot equal two numbers, so rows with either number are meant.
            let again = |known: &NumberUse| {
                known.at < number.at
                    && known.what == number.what
                    && is_equal(known)
                    && is_equal(number)
                    && known.number != number.number
            };
            let joins = number.or || numbers.iter().any(again);
            push_number(&mut parts.filters, number.at, test, joins);
        }
        parts.filters.extend(self.all_date_tests(changed)?);
        Ok(())
    }

    /// Whether the rows may be grouped by the type or field in a mention: a type other than the
    /// rows', a field of categories, or, after `which`, `each` or `by`, a field of years.
    pub(super) fn is_group(&self, at: usize) -> bool {
        match self.what(at) {
            Some(What::Type(kind)) => {
                *kind != self.rows && !self.counted.contains_key(&at) && !self.is_described(at)
            }
            Some(What::Relation) => {
                let asks = self.cue_beside(at, -1) == Some(Cue::Which) && self.is_noun_of_step(at);
                (self.follows_by(at) || asks) && self.only_step(at).is_some()
            }
            Some(What::Field(fields)) => {
                match self.field(fields, false).and_then(|field| self.kind_of(field)) {
                    Some(ColumnKind::Year) => {
                        self.follows_by(at) || self.is_parting(at) && !self.bounded.contains(&at)
                    }
                    Some(kind) if kind.is_number() => {
                        self.follows_by(at)
                            && self.extreme().is_none()
                            && !self.bounded.contains(&at)
                            && self.is_code(fields)
                    }
                    Some(kind) => kind.groups() && !self.bounded.contains(&at),
                    None => self.follows_by(at) && self.linked_field(at).is_some(),
                }
            }
            _ => false,
        }
    }

    /// Whether the numbers of a field are few and whole, so that they may be codes, such as a
    /// severity of 1, 2 or 3.
    fn is_code(&self, fields: &[(FieldId, f32)]) -> bool {
        const MAX_CODES: usize = 10;
        let sample = self.field(fields, false).and_then(|of| self.schema.sample(self.rows, of));
        sample.is_some_and(|sample| {
            let is_digits = |text: &String| text.bytes().all(|b| b.is_ascii_digit());
            sample.distinct <= MAX_CODES && sample.values.iter().all(is_digits)
        })
    }

    /// Whether the value after a type describes its nodes: `orders by customers in Germany`.
    pub(super) fn is_described(&self, at: usize) -> bool {
        let behind = self.beside_past(at, 1, |place| self.is_equal(place));
        behind.is_some_and(|behind| self.described(behind) == Some(at))
    }

    /// Whether a mention follows `by` or a phrase such as `which` or `each`, but not `who`: `guests
    /// who get the newsletter`.
    pub(super) fn is_parting(&self, at: usize) -> bool {
        let which = self.beside(at, -1).filter(|before| self.cue(*before) == Some(Cue::Which));
        which.is_some_and(|which| self.said_at(which) != "who") || self.follows_by(at)
    }

    /// Whether a mention follows `by` or `each`, with or without an article.
    pub(super) fn follows_by(&self, at: usize) -> bool {
        let start = self.mentions.range(at).start;
        let before = (0..start).rev().map(|at| self.mentions.word(at));
        let mut before =
            before.skip_while(|word| ["the", "a", "an", "their", "its"].contains(word));
        before.next() == Some("by") || self.cue_beside(at, -1) == Some(Cue::Each)
    }

    /// Whether a mention is the second of two adjacent types after `per` or `each`, and the first
    /// is the row type: `per occupied home`.
    fn is_second_type(&self, at: usize) -> bool {
        let before = at.checked_sub(1).filter(|before| self.type_at(*before) == Some(self.rows));
        before.is_some_and(|before| self.cue_beside(before, -1) == Some(Cue::Each))
    }

    /// Returns the step from the rows to another type along the relation that mention `at` names;
    /// `None` if there is no such step, or more than one.
    pub(super) fn only_step(&self, at: usize) -> Option<MetapathStep> {
        let mut steps = self.schema.steps(self.rows);
        steps.retain(|step| step.to != self.rows && self.says(at, step.relation));
        let only = || <[MetapathStep; 1]>::try_from(steps).ok().map(|[step]| step);
        self.called_step(at).or_else(only)
    }

    /// Returns the step from the rows along the relation whose whole name, of several words, is the
    /// text of a mention: `co_curator`.
    pub(super) fn called_step(&self, at: usize) -> Option<MetapathStep> {
        let said = self.mentions.said(at).iter().map(|token| &token.word);
        let is_called = |step: &MetapathStep| {
            let words = &self.schema.relation(step.relation).words;
            step.direction == Direction::Out && words.len() > 1 && said.clone().eq(words)
        };
        self.schema.steps(self.rows).into_iter().find(is_called)
    }

    /// Whether a mention is the noun of the relation that it names, not a verb: `which lecturer`.
    pub(super) fn is_noun_of_step(&self, at: usize) -> bool {
        let nouns = self.only_step(at).map(|step| &self.schema.nouns[usize::from(step.relation.0)]);
        let said = self.said_at(at);
        let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
        nouns.and_then(|nouns| nouns.last()).is_some_and(|noun| singular(noun) == singular(&said))
    }

    fn group_column(&mut self, at: usize) -> Option<usize> {
        let spec = match self.what(at)? {
            // `by age`, where a relation leads to ages.
            What::Relation => ColumnSpec::Names(vec![self.only_step(at)?]),
            // A type that is not linked to the rows does not group them.
            What::Type(kind) => {
                ColumnSpec::Names(self.group_of(at, *kind).or_else(|| self.path_to(*kind).ok())?)
            }
            What::Field(fields) => match self.field(fields, false) {
                Some(field) => ColumnSpec::Field(field),
                None => self.linked_field(at)?,
            },
            _ => return None,
        };
        Some(self.column(spec))
    }

    /// Returns the column of the categories that mention `at` names, if they are a field of the
    /// only node to which a row is linked: `arrears by town`, where tenants live in homes of
    /// estates that have a town.
    fn linked_field(&self, at: usize) -> Option<ColumnSpec> {
        let mut found = Vec::new();
        for &(field, _) in self.fields_at(at)? {
            let has = |kind: &TypeId| {
                let sample = self.schema.sample(*kind, field);
                sample.is_some_and(|own| own.kind.groups() && !own.kind.is_number())
            };
            for kind in types_of(self.kb).filter(|kind| *kind != self.rows && has(kind)) {
                let paths = self.schema.best_paths(self.rows, kind, &self.said);
                let of = |steps| ColumnSpec::FieldOf { steps, field };
                let to_one = |steps: &Vec<MetapathStep>| self.leads_to_one(self.rows, steps);
                found.extend(paths.into_iter().filter(to_one).map(of));
            }
        }
        let shortest = found.iter().map(|spec| spec.steps().len()).min();
        found.retain(|spec| Some(spec.steps().len()) == shortest);
        let way =
            |spec: &ColumnSpec| metapath_in_words(self.kb, self.rows, spec.steps().iter().copied());
        self.choose(found, way)
    }

    /// Returns the metapath from the rows to type `kind` through the type after `of`, as in `per
    /// category of the product`; `None` if no type after `of` follows mention `at`.
    fn group_of(&self, at: usize, kind: TypeId) -> Option<Vec<MetapathStep>> {
        let (next, by) =
            (at + 1..self.mentions.all.len()).find_map(|at| Some((at, self.type_at(at)?)))?;
        let between = self.mentions.range(next).start - self.mentions.range(at).end;
        let says_of = self.word_after(at) == "of" && (1..=2).contains(&between);
        let mut steps = self.path_to(by).ok().filter(|_| says_of && by != self.rows)?;
        let last = self.schema.best_paths(by, kind, &self.said).into_iter().next()?;
        steps.extend(last);
        (steps.len() <= MAX_STEPS).then_some(steps)
    }

    /// Returns whether the question asks for a maximum (true) or a minimum (false), and the names
    /// of the field that the phrase implies (`cheapest`), if any.
    pub(super) fn extreme(&self) -> Option<(bool, &'static [&'static str])> {
        let named = self.cues(false).find_map(|(_, cue)| match cue {
            Cue::High | Cue::Most => Some((true, &[][..])),
            Cue::Low | Cue::Fewest => Some((false, &[][..])),
            Cue::Best(high, names) => Some((high, names)),
            _ => None,
        });
        named.or_else(|| self.has(Cue::Top).then_some((true, &[])))
    }

    /// Returns the first comparative: the index of its mention, more (true) or less (false), and
    /// the names of the field that it implies (`cheaper`), if any.
    fn comparative(&self) -> Option<(usize, bool, &'static [&'static str])> {
        // `newer than 2010` bounds a value too.
        let is_bound = |at: usize| {
            let than = self.beside(at, 1).filter(|next| self.cue(*next) == Some(Cue::Versus));
            let behind = than.and_then(|than| self.what_beside(than, 1));
            matches!(behind, Some(What::Number(..) | What::Date(_)))
        };
        self.cues(false).find_map(|(at, cue)| match cue {
            Cue::More(_) | Cue::Comparative(..) if is_bound(at) => None,
            Cue::More(high) => Some((at, high, &[][..])),
            Cue::Comparative(high, names) => Some((at, high, names)),
            // Before a number, these phrases bound a value and do not compare rows.
            _ if matches!(self.what_beside(at, 1), Some(What::Number(..))) => None,
            Cue::Bound(Bound::Above, false) => Some((at, true, &[][..])),
            Cue::Bound(Bound::Below, false) => Some((at, false, &[][..])),
            _ => None,
        })
    }

    /// Whether the question asks for the difference between two numbers: `how many more homes does
    /// A have than B`.
    pub(super) fn asks_difference(&self) -> bool {
        const MORE: [&str; 6] = ["more", "fewer", "less", "cheaper", "extra", "longer"];
        let is_more = |own: &[&str]| {
            own[0] == "how"
                && ["many", "much"].contains(&own[1])
                && MORE.contains(&own[2])
                && own[3] != "than"
        };
        !self.changed.contains(&true) && self.own_words().windows(4).any(is_more)
    }

    /// Whether any phrase of the question asks for a statistical test.
    pub(super) fn asks_for_test(&self) -> bool {
        self.cues(false).any(|(_, cue)| cue.is_test())
    }

    /// Whether the question asks if values are equal, not if they differ.
    fn asks_same(&self) -> bool {
        const SAME: &str = "equal equally equals same similar similarly alike identical \
                            comparable homogeneous homogeneity independent";
        // `equal` in a bound such as `equal to 5` asks for no comparison.
        let is_own =
            |own: &&Mention| !matches!(own.what, What::Thing(_) | What::Cue(Cue::Bound(..)));
        let own = self.mentions.all.iter().filter(is_own);
        let words = own.flat_map(|own| &self.mentions.tokens[own.at.clone()]);
        let words: Vec<&str> = words.map(|token| token.word.as_str()).collect();
        words.iter().any(|word| SAME.split(' ').any(|same| same == *word))
            || words.windows(2).any(|two| two == ["as", "much"])
    }

    /// Whether the question has `how many` without a noun: `how many would cost more`, `how many
    /// were opened`.
    fn counts_them(&self) -> bool {
        self.cues(false).any(|(at, cue)| {
            let next = self.what_beside(at, 1);
            cue == Cue::HowMany
                && (matches!(next, None | Some(What::Cue(_) | What::Number(..)))
                    || YES_NO.contains(&self.word_after(at)))
        })
    }

    /// Whether the question asks if the first of two samples varies more (true) or less (false);
    /// `None` if it asks neither.
    fn asks_more(&self) -> Option<bool> {
        let varies =
            |(at, cue): (usize, Cue)| cue == Cue::Spread && self.said_at(at).ends_with(" more");
        let comparative = self.comparative().map(|(_, high, _)| high);
        comparative.or_else(|| self.cues(false).any(varies).then_some(true))
    }

    /// Whether the question has a comparative but no number that bounds a value.
    fn compares(&self) -> bool {
        let more = |cue: Cue| matches!(cue, Cue::More(_) | Cue::Comparative(..));
        self.numbers.is_empty() && self.cues(false).any(|(_, cue)| more(cue))
    }

    /// Returns the error that the rows lack the property with these names, which a word such as
    /// `best` implies.
    pub(super) fn no_property<T>(&self, names: &[&str]) -> Result<T, AskError> {
        let (rows, name) = (self.kb.type_name(self.rows), names.first().unwrap_or(&"value"));
        missing(format!("{rows} has no {name}; name a field, with \"highest\" or \"lowest\""))
    }

    /// Returns the error that the question names no numeric field of the rows.
    pub(super) fn no_number<T>(&self) -> Result<T, AskError> {
        let rows = self.kb.type_name(self.rows);
        let samples = self.schema.samples(self.rows).iter();
        let numbers = samples.filter(|sample| sample.kind.is_number());
        let numbers: Vec<&str> = numbers.map(|sample| self.kb.field_name(sample.field)).collect();
        let known = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
        missing(format!(
            "it names no numeric field of {rows}; use one of: {known}, or a number of links"
        ))
    }

    /// Adds filters so that only rows with the mentioned values and links are counted: `how many
    /// products have a price`. `each` states whether the count is grouped.
    pub(super) fn put_filled(&mut self, parts: &mut Parts, each: bool) -> Result<(), AskError> {
        let computes = self.function().is_some() || self.extreme().is_some();
        if !parts.counts_rows || computes || self.has(Cue::Share) || !self.has(Cue::HowMany) {
            return Ok(());
        }
        let is_type = |at: usize| self.type_at(at).is_some();
        let is_links = |at: usize| matches!(self.what(at), Some(What::Links(_)));
        let mut columns: Vec<(usize, usize)> =
            parts.measures.extract_if(.., |(at, _)| is_links(*at)).collect();
        columns.extend(parts.measures.extract_if(.., |(at, _)| !is_type(*at)));
        if !each {
            // A type on the metapath to a named thing is not a condition of its own.
            let is_way = |at: usize| is_type(at) && !parts.conditions.is_empty();
            columns.extend(parts.groups.extract_if(.., |(at, _)| !is_way(*at)));
        }
        for (at, column) in columns {
            let test = self.presence(self.columns[column].clone(), true)?;
            parts.filters.push((at, test));
        }
        Ok(())
    }

    /// Whether the type in a mention is on the metapath from a named node to the rows.
    pub(super) fn is_on_the_way(&self, at: usize, parts: &Parts) -> bool {
        let mut steps = parts.conditions.iter().flat_map(|(_, one)| &one.steps);
        self.type_at(at).is_some_and(|kind| steps.any(|step| step.to == kind))
    }

    fn aggregation(&mut self, parts: &mut Parts) -> Result<Operation, AskError> {
        // `who has the most` asks for a name.
        let asks_who = self.mentions.word(0) == "who" && self.extreme().is_some();
        if self.asks_for_test() || self.compares() || asks_who {
            return Err(AskError::NoTable);
        }
        self.refuse_own_comparison()?;
        if self.has(Cue::Differ) {
            return missing(
                "a comparison within each row is not supported; ask how much more A has than B",
            );
        }
        let first =
            self.top.is_some() || self.cues(false).any(|(_, cue)| matches!(cue, Cue::Best(..)));
        if let (true, Some(function)) = (first, self.function()) {
            return missing(format!(
                "the {} of the top results is not supported; ask for the results, or give a limit",
                function.name()
            ));
        }
        if self.top.is_some() {
            return Err(AskError::NoTable);
        }
        let parts_rows = |at: usize| self.is_parting(at) && !self.is_on_the_way(at, parts);
        let each = self.has(Cue::Each) || parts.groups.iter().any(|(at, _)| parts_rows(*at));
        self.put_filled(parts, each)?;
        let share = self.cues(false).find(|(_, cue)| *cue == Cue::Share);
        if let Some((at, _)) = share {
            return self.share(at, parts);
        }
        if let Some(column) = self.different(parts) {
            parts.groups.retain(|(_, group)| *group != column);
            return Ok(Operation::Number(Measure::Of(Function::Distinct, column)));
        }
        // The number of one named row says nothing.
        let is_row = |(_, one): &(usize, Condition)| {
            let is_one = one.nodes.len() == 1 && !parts.filters.is_empty();
            one.steps.is_empty() && (is_one || self.counts_them())
        };
        if parts.counts_rows && parts.conditions.iter().any(is_row) {
            return missing("name the type to count");
        }
        let measure = match parts.measures.first() {
            // `most` and `fewest` do not ask for the number of all rows.
            None if parts.counts_rows && self.extreme().is_none() => match self.function() {
                None | Some(Function::Sum) => Measure::Rows,
                Some(function) => {
                    return missing(format!(
                        "the {} of group sizes is not supported; ask for the size of each group",
                        function.name()
                    ));
                }
            },
            None => return self.no_number(),
            Some(&(at, column)) => Measure::Of(self.aggregating(at, column, parts)?, column),
        };
        if let Measure::Of(Function::Sum, column) = measure
            && self.columns[column].steps().len() > 1
        {
            return missing(COUNTED_TWICE);
        }
        let parting = parts.groups.iter().find(|(at, _)| self.is_parting(*at));
        if parts.groups.iter().any(|(at, _)| self.is_second_type(*at)) {
            return missing("two types follow \"per\"; name one");
        }
        match parting.or(parts.groups.first()) {
            Some(&(_, group)) if each => {
                let part = self.date_part(group);
                Ok(Operation::Groups { group, part, measure, first: None })
            }
            _ if measure == Measure::Rows && self.has(Cue::Each) => {
                missing("name the type or field after \"each\"")
            }
            _ => Ok(Operation::Number(measure)),
        }
    }

    /// Returns the aggregate function, mentioned or implied, for the numbers in `column`, which
    /// mention `at` names.
    fn aggregating(
        &mut self,
        at: usize,
        column: usize,
        parts: &Parts,
    ) -> Result<Function, AskError> {
        if let Some(function) = self.function() {
            return Ok(function);
        }
        if let Some((high, names)) = self.extreme() {
            self.refuse_length_of_date(&self.columns[column])?;
            // `the most recent` does not ask for the highest number of hours.
            let is_called = |field: FieldId| self.schema.is_called(self.schema.field(field), names);
            if let (false, ColumnSpec::Field(field)) = (names.is_empty(), &self.columns[column])
                && !is_called(*field)
            {
                return Err(AskError::NoTable);
            }
            let is_asked = |at: usize| self.cue_beside(at, -1) == Some(Cue::Which);
            if parts.groups.iter().any(|(at, _)| is_asked(*at)) {
                return missing("say which number to compare: the total, the mean or the highest");
            }
            return Ok(if high { Function::Max } else { Function::Min });
        }
        let counted = self.is_how_many(at) || self.cue_beside(at, -1) == Some(Cue::NumberOf);
        let is_one = |one: &Condition| one.steps.is_empty() && one.nodes.len() == 1;
        let of_one = parts.conditions.iter().any(|(_, condition)| is_one(condition));
        let says = self.said_at(at);
        if of_one || says.contains("average") || says.contains("mean") {
            return Ok(Function::Mean);
        }
        if counted {
            self.assumed.push(format!("taken as the total of {says:?}"));
            return Ok(Function::Sum);
        }
        missing(format!(
            "say what to compute from {says:?}: the mean, the median, the total, the highest \
             or the lowest"
        ))
    }

    /// Returns the column whose number of distinct values the question asks for, if any.
    fn different(&self, parts: &Parts) -> Option<usize> {
        let is_category = |at: usize| {
            let field = self.fields_at(at).and_then(|fields| self.field(fields, false));
            field.and_then(|field| self.kind_of(field)) == Some(ColumnKind::Category)
        };
        let plain = !parts.counts_rows && self.function().is_none() && self.extreme().is_none();
        let found =
            parts.groups.iter().find(|(at, _)| plain && self.is_count_of(*at) && is_category(*at));
        found.map(|(_, column)| *column)
    }

    fn comparison(&mut self, parts: &mut Parts) -> Result<Operation, AskError> {
        if let [_, "there", "a" | "an" | "any", ..] = self.own_words().as_slice() {
            return missing("a test of whether any row satisfies a comparison is not supported");
        }
        let extreme = || self.extreme().map(|(high, names)| (usize::MAX, high, names));
        let asked = self.comparative().or_else(extreme);
        let is_difference = self.has(Cue::Differ) && !self.is_yes_no();
        if self.asks_for_test() || self.has(Cue::HowMany) && asked.is_none() || is_difference {
            return Err(AskError::NoTable);
        }
        if parts.subjects.len() < 2 {
            return missing("a comparison needs two or more subjects");
        }
        // `than B and C put together` is a sum of two subjects.
        let sums =
            |(at, cue)| cue == Cue::Of(Function::Sum) && self.said_at(at).ends_with("together");
        if parts.subjects.len() > 2 && self.cues(false).any(sums) {
            return missing(
                "comparing sums of several names is not supported; ask about each separately",
            );
        }
        // `the number of papers by A or B` counts papers by either author and compares nothing.
        if asked.is_none() && self.has(Cue::NumberOf) {
            return Err(AskError::NoTable);
        }
        let (at, high, names) = asked.unwrap_or((usize::MAX, true, &[]));
        let implied = self.implied(self.rows, names).map(ColumnSpec::Field);
        let own = parts.subjects.iter().all(|subject| matches!(subject.test, Test::Is(_)));
        if implied.is_none() && !names.is_empty() {
            return self.no_property(names);
        }
        let number = match implied {
            Some(spec) => Some((usize::MAX, self.column(spec))),
            None => parts.measures.first().copied(),
        };
        let measure = match number {
            // `published more` compares the rows of venues by number.
            None if parts.counts_rows || !own && self.publishes() => Measure::Rows,
            None => return self.no_number(),
            Some((place, column)) => {
                // `more citations` compares totals of groups.
                let more = self.beside(place, -1) == Some(at)
                    && matches!(self.cue(at), Some(Cue::More(_)))
                    && ["more", "fewer", "less"].contains(&self.said_at(at).as_str());
                let default = if more && !own { Function::Sum } else { Function::Mean };
                let function = self.function().unwrap_or(default);
                if self.function().is_none() && !own {
                    self.assumed.push(format!("read as the {} of each", function.name()));
                }
                Measure::Of(function, column)
            }
        };
        let yes_no = self.is_yes_no() || YES_NO.contains(&self.mentions.word(self.begin()));
        let subjects = std::mem::take(&mut parts.subjects);
        // `Is it higher for A or for B` asks for one of them, not for yes or no.
        let or = self.cues(false).any(|(at, _)| self.is_or(at));
        let by_how_much = self.asks_difference();
        if by_how_much && subjects.len() != 2 {
            return missing("a difference needs two subjects");
        }
        Ok(Operation::Compare { subjects, measure, high, yes_no: yes_no && !or, by_how_much })
    }

    fn distribution(&self, parts: &Parts) -> Result<Operation, AskError> {
        if !self.has(Cue::Normal) {
            let distributed = self.own_words().iter().any(|word| word.starts_with("distribut"));
            return match distributed {
                true => missing("only a normal distribution can be tested"),
                false => Err(AskError::NoTable),
            };
        }
        match parts.measures.first() {
            Some(&(_, column)) => Ok(Operation::Normal(column)),
            None => self.no_number(),
        }
    }

    fn spread(&mut self, parts: &mut Parts) -> Result<Operation, AskError> {
        let varies = matches!(self.function(), Some(Function::Variance | Function::Deviation));
        let differs =
            self.has(Cue::Differ) || self.comparative().is_some() || self.has(Cue::Versus);
        if !(self.has(Cue::Spread) || varies && differs) {
            return Err(AskError::NoTable);
        }
        match (parts.measures.as_slice(), parts.groups.first()) {
            (&[(_, one), (_, other), ..], _) => Ok(Operation::Spread(one, other)),
            (&[(_, measure)], _) if parts.subjects.len() > 1 => {
                let subjects = std::mem::take(&mut parts.subjects);
                Ok(Operation::SpreadAmong { measure, group: None, subjects })
            }
            (&[(_, measure)], Some(&(_, group))) => {
                Ok(Operation::SpreadAmong { measure, group: Some(group), subjects: Vec::new() })
            }
            (&[_], None) => missing("name the groups whose spread is compared"),
            (&[], _) => self.no_number(),
        }
    }

    fn relation(&self, parts: &Parts) -> Result<Operation, AskError> {
        // `the median distance to a different depot` asks for no test.
        let differs = self.has(Cue::Differ) && (self.function().is_none() || self.is_yes_no());
        let asks = differs || self.has(Cue::Relate) || self.has(Cue::Correlate);
        let mut both: Vec<(usize, usize)> = [parts.measures.clone(), parts.groups.clone()].concat();
        both.sort_unstable();
        match both.as_slice() {
            _ if !asks => Err(AskError::NoTable),
            &[(_, one), (_, other), ..] => Ok(Operation::Relate(one, other)),
            _ => self.no_number(),
        }
    }
}

/// Whether a question of this kind asks for a statistical test.
fn is_test(kind: Kind) -> bool {
    matches!(kind, Kind::Distribution | Kind::Correlation | Kind::Variance | Kind::Descriptive)
}

/// Builds the test that compares a count with 0.
pub(super) fn count_is(bound: Bound, column: usize) -> Test {
    Test::Number { column, bound, number: 0.0, to: None }
}
