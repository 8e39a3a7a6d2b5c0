//! Absence: "not closed", "without Anna Ode", "except those about dizziness", "other than Problem
//! 3", "with no product".

use std::collections::BTreeSet;

use crate::bundle::{
    conditions::{
        Reader, Word,
        phrases::{
            ANYTHING, BEFORE_VERBS, EXCEPT, FILLERS, IN_TITLES, LACKING, NEGATED_VERBS, NEGATIONS,
            NOT_NEGATED, OR, OTHER_THAN, TO_BE,
        },
    },
    lexicon::stemmed,
    schema::is_form,
};
use agent_ground::words::is_question_word;
use agent_index::entities::ExactMention;
use agent_kb::{
    NodeId, RelationId, TypeId,
    filter::{Condition, Operator},
    table::value::category,
};

/// Maximum number of words between a negation and a name.
const MAX_BETWEEN: usize = 8;
/// Maximum number of words after a name that may state its type.
const MAX_AFTER: usize = 4;

impl Reader<'_> {
    /// Reads an absence that begins at word `at`; returns the position after it.
    pub(super) fn read_absence(&mut self, at: usize) -> Option<usize> {
        if let Some(n) = self.phrase_at(at, OTHER_THAN) {
            return self.read_other_than(at, at + n);
        }
        let is_short = self.is_contracted(at);
        let phrase = self.phrase_at(at, EXCEPT);
        let is_no = self.is(at, "no");
        let negates = is_short || is_no || phrase.is_some() || self.is_any(at, NEGATIONS);
        // "Lack of energy" names a thing.
        if !negates || self.is(at, "lack of") {
            return None;
        }
        let (start, next) = (at - usize::from(is_short), at + phrase.unwrap_or(1));
        if self.is_any(next, NOT_NEGATED) || self.is_said_in_passing(start, at) {
            return None;
        }
        if let Some((mention, between)) = self.name_after(next) {
            return self.read_absent(start, mention, &between);
        }
        let read = self.read_name_before(at, next).or_else(|| self.read_lack(start, next));
        let negates_verb = self.is_any(at, NEGATED_VERBS)
            || at > 0 && (is_short || self.is(at, "not")) && self.is_any(at - 1, BEFORE_VERBS);
        // "not focused" says how the answer is.
        let is_state = (is_short || self.is(at, "not"))
            && self.words.get(next).is_some_and(|word| {
                ["ed", "en", "ing"].iter().any(|ending| word.folded.ends_with(ending))
            });
        if read.is_none() && !negates_verb && !is_state {
            self.read_excluded(start, next);
        }
        read
    }

    /// Whether the negation at word `at`, whose auxiliary is at `start`, excludes nothing: "I can't
    /// find a lamp", "why doesn't it turn on", "don't you have", "whether or not", "is there no".
    fn is_said_in_passing(&self, start: usize, at: usize) -> bool {
        let before = |n: usize, of: &str| start >= n && self.is_any(start - n, of);
        let has_verb = start < at || before(1, BEFORE_VERBS) || self.is_any(at, NEGATED_VERBS);
        let subject = "i we you";
        has_verb && (before(1, subject) || before(2, subject))
            || start < at && (start == 0 || before(1, "why if how"))
            || self.is(at, "not") && before(1, "or") && before(2, "whether")
            || self.is(at, "no") && before(1, "there")
    }

    /// Finds the name that a negation excludes: the first name at or after word `at`. Also returns
    /// the stems of the words between, which must be function words or words of the schema.
    fn name_after(&self, at: usize) -> Option<(ExactMention, Vec<String>)> {
        let mut between = Vec::new();
        for next in at..=at + MAX_BETWEEN {
            if next > at && self.is_cut(next) {
                return None;
            }
            if let Some(mention) = self.mention_at(next) {
                // In "iPhone 5" and "type 1", neither "iPhone" nor "1" alone is excluded.
                let has_digit = |at: usize| {
                    self.words
                        .get(at)
                        .is_some_and(|word| word.folded.starts_with(|c: char| c.is_ascii_digit()))
                };
                let end = mention.words.end;
                let is_cut_short = has_digit(end) && !self.is_cut(end);
                let is_number = mention.words.len() == 1 && has_digit(next) && !mention.quoted;
                return (!is_cut_short && !is_number).then_some((mention, between));
            }
            // "Without interactions for hypertension" excludes interactions.
            if self.is(next, "for") && between.iter().any(|stem| self.schema.says(stem)) {
                return None;
            }
            let word = self.words.get(next).filter(|word| !word.is_in_name)?;
            let is_known = self.schema.says(&word.stem) || self.schema.is_synonym(&word.stem);
            if !is_known && !self.is_any(next, FILLERS) && !is_question_word(&word.folded) {
                return None;
            }
            between.push(word.stem.clone());
        }
        None
    }

    /// Reads "other than Problem 3" and "other than closed"; the name begins at or after word `at`.
    fn read_other_than(&mut self, start: usize, at: usize) -> Option<usize> {
        let Some((mention, between)) = self.name_after(at) else {
            self.read_excluded(start, at);
            return None;
        };
        let kb = &self.base.kb;
        let is_wanted = |node: &NodeId| self.wanted_types().contains(&kb.node_type(*node));
        let Some(node) = mention.nodes.iter().find(|node| is_wanted(node)) else {
            // "Besides papers about radar" may mean "in addition to them".
            let excludes = !self.is(start, "besides");
            return excludes.then(|| self.read_absent(start, mention, &between)).flatten();
        };
        let end = mention.words.end;
        let name = kb.name(*node).to_owned();
        self.found.all.push(Condition::new("name", Operator::IsNot, vec![name]));
        self.put_negated(start, end);
        Some(end)
    }

    /// Reads "of which Max Behr is not an author": a name right before the negation, if the
    /// question has another name. Words after the negation state the relation.
    fn read_name_before(&mut self, at: usize, next: usize) -> Option<usize> {
        let mut from = at;
        while from > 0 && self.is_any(from - 1, TO_BE) && !self.is_cut(from) {
            from -= 1;
        }
        let named = self.mentions.iter().find(|mention| mention.words.end == from)?;
        let is_joined = from < at && !self.is_cut(from);
        if !is_joined || !named.marked || self.mentions.len() < 2 {
            return None;
        }
        let mention = self.mention_at(named.words.start)?;
        let mut end = next;
        let mut between = Vec::new();
        while let Some(word) = self.words.get(end).filter(|word| !word.is_in_name)
            && !self.is_cut(end)
            && (self.schema.says(&word.stem) || self.is_any(end, FILLERS))
        {
            between.push(word.stem.clone());
            end += 1;
        }
        let field = self.absent_side(&mention, &between)?;
        let name = self.base.kb.name(*mention.nodes.first()?).to_owned();
        self.found.all.push(Condition::new(field, Operator::IsNot, vec![name]));
        let mut start = mention.words.start;
        while start > 0
            && !self.is_cut(start)
            && (self.is_any(start - 1, FILLERS) || self.is_any(start - 1, "where whom"))
        {
            start -= 1;
        }
        self.put_negated(start, end);
        Some(end)
    }

    /// Excludes a named node, whose negation begins at word `start`. Adds the condition that the
    /// node is not a neighbour. Also excludes its name, if the name has several words or the node
    /// may be an answer itself. `None` if the node can be neither a neighbour nor an answer.
    fn read_absent(
        &mut self,
        start: usize,
        mention: ExactMention,
        between: &[String],
    ) -> Option<usize> {
        let kb = &self.base.kb;
        let wanted = self.wanted_types();
        let is_wanted = mention.nodes.iter().any(|&node| wanted.contains(&kb.node_type(node)));
        let field = self.absent_side(&mention, between);
        if field.is_none() && !is_wanted {
            return None;
        }
        let mut values = vec![kb.name(*mention.nodes.first()?).to_owned()];
        let mut end = mention.words.end;
        // One negation excludes a list of names, as in "not low, medium or high".
        let next_in_list = |end: usize| match self.is_any(end, OR) || self.is(end, "and") {
            true => self.mention_at(end + 1),
            false if self.before(end).is_some_and(|text| text.trim() == ",") => {
                self.mention_at(end)
            }
            false => None,
        };
        let mut named = vec![mention.words.clone()];
        while let Some(other) = next_in_list(end)
            && self.absent_side(&other, between) == field
        {
            values.push(kb.name(*other.nodes.first()?).to_owned());
            end = other.words.end;
            named.push(other.words);
        }
        let end = self.after_type(end, &mention).unwrap_or(end);
        if let Some(field) = field {
            self.found.all.push(Condition::new(field, Operator::IsNot, values));
        }
        // A name of one word, such as "closed", also occurs in unrelated names, so it is excluded
        // only if it names a node of a wanted type.
        for words in named {
            if words.len() > 1 || is_wanted {
                self.exclude(words, false);
            }
        }
        self.put_negated(start, end);
        Some(end)
    }

    /// Marks the words of a condition that excludes something, and "anything" before "except".
    fn put_negated(&mut self, start: usize, end: usize) {
        let general = start > 0 && self.is_any(start - 1, ANYTHING);
        self.use_words(start - usize::from(general), end);
        self.put_literal(start, end, self.is_any(start, IN_TITLES));
    }

    /// Reads the condition that nodes have no neighbour of a type, or no value of a field: "without
    /// a product".
    fn read_lack(&mut self, start: usize, mut at: usize) -> Option<usize> {
        while self.is_any(at, LACKING) {
            at += 1;
        }
        let stems: Vec<&String> = self.words.get(at..)?.iter().map(|word| &word.stem).collect();
        let kb = &self.base.kb;
        let candidates = kb.candidate_types();
        let wanted = match &self.wanted {
            Some(wanted) => wanted.as_slice(),
            None if candidates.len() < kb.types().len() => candidates,
            None => return None,
        };
        let spelled = |name: &str| {
            let own = stemmed(&self.base.stems, name);
            let is_own = !own.is_empty()
                && own.len() <= stems.len()
                && own.iter().zip(&stems).all(|(own, stem)| own == *stem);
            is_own.then_some(own.len())
        };
        let types = (0..kb.types().len()).map(|at| TypeId(at as u16));
        let beside = types.filter(|&of| !wanted.contains(&of) && self.is_beside(wanted, of));
        let names: BTreeSet<&str> = beside.map(|of| kb.type_name(of)).collect();
        let fields = kb.field_names().iter().map(String::as_str);
        let (name, n) = names
            .into_iter()
            .chain(fields)
            .find_map(|name| Some((name.to_owned(), spelled(name)?)))?;
        let end = at + n + usize::from(self.is_any(at + n, LACKING));
        // "No brand preference" does not say that a brand is missing.
        if !self.is_end(end) {
            return None;
        }
        self.found.all.push(Condition::new(name, Operator::IsNot, vec!["*".to_owned()]));
        self.use_words(start, end);
        Some(end)
    }

    /// Returns the mention that begins at word `at`. If any of its nodes have exactly this name,
    /// nodes that only have it as an alias are dropped.
    fn mention_at(&self, at: usize) -> Option<ExactMention> {
        let found = self.mentions.iter().find(|mention| mention.words.start == at)?;
        let (first, last) = (self.words.get(at)?, self.words.get(found.words.end.checked_sub(1)?)?);
        let written = category(self.text.get(first.range.start..last.range.end)?);
        let is_named = |node: &NodeId| category(self.base.kb.name(*node)) == written;
        let named: Vec<NodeId> = found.nodes.iter().copied().filter(is_named).collect();
        let nodes = if named.is_empty() { found.nodes.clone() } else { named };
        Some(ExactMention { nodes, ..found.clone() })
    }

    /// Returns the types of the nodes of a mention. If `stems` or the words right after the mention
    /// refer to some of these types, returns only those.
    fn kinds_of(&self, mention: &ExactMention, stems: &[String]) -> BTreeSet<TypeId> {
        let kb = &self.base.kb;
        let kinds: BTreeSet<TypeId> =
            mention.nodes.iter().map(|&node| kb.node_type(node)).collect();
        let is_said = |kind: &TypeId| {
            let own = stemmed(&self.base.stems, kb.type_name(*kind));
            self.after_type_of(mention.words.end, *kind).is_some()
                || own.iter().all(|own| stems.iter().any(|stem| is_form(own, stem)))
        };
        let said: BTreeSet<TypeId> = kinds.iter().copied().filter(is_said).collect();
        if said.is_empty() { kinds } else { said }
    }

    /// Returns the position after the words from `end` on that name a type of the mention, as in
    /// "as a side effect"; `None` if there are none.
    fn after_type(&self, end: usize, mention: &ExactMention) -> Option<usize> {
        let kinds = mention.nodes.iter().map(|&node| self.base.kb.node_type(node));
        kinds.filter_map(|kind| self.after_type_of(end, kind)).max()
    }

    /// As [`after_type`](Self::after_type), for one type.
    fn after_type_of(&self, end: usize, kind: TypeId) -> Option<usize> {
        let own = stemmed(&self.base.stems, self.base.kb.type_name(kind));
        let is_start = |&at: &usize| (end..at).all(|at| self.is_any(at, FILLERS));
        (end..end + MAX_AFTER).take_while(is_start).find_map(|at| {
            let is_said = |word: &&Word<'_>| own.iter().any(|own| is_form(own, &word.stem));
            let said = self.words.iter().skip(at).take(own.len()).take_while(is_said).count();
            (said > 0).then_some(at + said)
        })
    }

    /// Returns the left side of the condition that a named node is absent: the relation stated
    /// between negation and name, else the node's type. If no relation connects a wanted type with
    /// the node's type: `type.field`, where `type` lies between the two.
    fn absent_side(&self, mention: &ExactMention, between: &[String]) -> Option<String> {
        let kinds = self.kinds_of(mention, between);
        let (wanted, candidates) = (self.wanted_types(), self.base.kb.candidate_types());
        let side = self.side_beside(wanted, &kinds, between);
        let side = side.or_else(|| self.side_behind(wanted, &kinds));
        // The question may name another type before the type that it asks for.
        side.or_else(|| self.side_beside(candidates, &kinds, between))
    }

    /// Returns the relation or type that leads from a wanted type to one of `kinds`; `None` if no
    /// relation does.
    fn side_beside(
        &self,
        wanted: &[TypeId],
        kinds: &BTreeSet<TypeId>,
        between: &[String],
    ) -> Option<String> {
        let kb = &self.base.kb;
        let &kind = kinds.iter().find(|&&kind| self.is_beside(wanted, kind))?;
        let own = self.relations_to(wanted, kind);
        let said = |relation: &&RelationId| {
            between.iter().any(|stem| self.schema.relation_means(**relation, stem))
        };
        let named: Vec<&RelationId> = own.iter().filter(said).collect();
        Some(match named.as_slice() {
            &[&only] if own.len() > 1 => kb.relations()[usize::from(only.0)].clone(),
            _ => kb.type_name(kind).to_owned(),
        })
    }

    /// Returns `type.field`: a type between a wanted type and one of `kinds`, and a field with the
    /// name of the latter type. `None` if there is no such type or field.
    fn side_behind(&self, wanted: &[TypeId], kinds: &BTreeSet<TypeId>) -> Option<String> {
        let kb = &self.base.kb;
        let middle = (0..kb.types().len()).map(|at| TypeId(at as u16)).find(|&middle| {
            self.is_beside(wanted, middle)
                && kinds.iter().any(|&kind| self.is_beside(&[middle], kind))
        })?;
        let &kind = kinds.iter().find(|&&kind| self.is_beside(&[middle], kind))?;
        let field = kb.field_names().iter().find(|name| *name == kb.type_name(kind))?;
        Some(format!("{}.{field}", kb.type_name(middle)))
    }
}
