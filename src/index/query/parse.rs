//! Parses queries: tantivy's grammar, with the fields and relations of a base by name.
//!
//! | syntax | matches |
//! | --- | --- |
//! | `bottle` | the word in the name or document |
//! | `brand:northpeak`, `has_brand:northpeak` | in a field, or in the name of a neighbour |
//! | `"steel bottle"`, `"steel bottle"~1` | the words in order; with a slop of one word |
//! | `flas*`, `"steel bot"*` | words with this prefix; phrases whose last word has this prefix |
//! | `flask~1`, `flask~2` | words within this edit distance; a swap counts as one edit |
//! | `price:[5 TO 20]`, `price:{5 TO *}`, `price:>=5` | numeric fields in a range |
//! | `type: IN [brand product]` | any of the listed words |
//! | `+a b -c`, `a AND (b OR NOT c)`, `a^2` | required, optional, excluded; doubled score |
//!
//! `fields.` or `rel.` before an ambiguous name selects the field or the relation of that name;
//! without such a prefix, a field comes before a relation.

use std::ops::Bound;

use tantivy::{
    Term,
    query::{
        AllQuery, BooleanQuery, BoostQuery, FuzzyTermQuery, Occur, PhrasePrefixQuery, PhraseQuery,
        Query, RangeQuery, TermQuery,
    },
    query_grammar::{
        Delimiter, UserInputAst, UserInputBound, UserInputLeaf, UserInputLiteral, parse_query,
        parse_query_lenient,
    },
    schema::{Field, IndexRecordOption},
};

use crate::{
    IndexError,
    query::{Fields, key, number, words_of},
};
use agent_ground::words::{listed, nearest};
use agent_kb::Kb;

/// Maximum length of a query, in bytes.
const MAX_QUERY_BYTES: usize = 4 << 10;
/// Maximum depth of nested parentheses; limited because parsing is recursive.
const MAX_DEPTH: usize = 16;
/// Maximum edit distance that a query may allow for a word.
const MAX_TYPOS: u8 = 2;
/// Maximum slop of a phrase, in words.
const MAX_SLOP: u32 = 100;
/// Maximum edit distance between an unknown name and the known name that an error suggests.
const MAX_DISTANCE: usize = 3;
/// Maximum number of known names that an error lists.
const MAX_LISTED: usize = 20;

/// Why a query cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The query is too long; holds its length in bytes.
    #[error("the query has {0} bytes, more than {MAX_QUERY_BYTES}; shorten it")]
    Long(usize),
    /// The syntax of the query is invalid, or the query uses a field wrongly.
    #[error("at character {at} of the query: {reason}")]
    Wrong {
        /// Position of the error in the query, in characters from 1.
        at: usize,
        /// What is wrong, and how to correct it.
        reason: String,
    },
    /// The index of the query language cannot be used.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Tantivy's form of a query or a part of it.
type Parsed = Result<Box<dyn Query>, QueryError>;

/// Where the words of a part of the query are searched.
enum Target {
    /// In any of several schema fields.
    Texts(Vec<Field>),
    /// In the field of the base with this id.
    Detail(u16),
    /// In the names of the neighbours over the relation with this id.
    Relation(u16),
}

/// Parses one query.
pub(super) struct Parser<'a> {
    pub(super) kb: &'a Kb,
    pub(super) at: Fields,
    pub(super) text: &'a str,
    /// Whether the field with this key in its JSON field, such as `f3`, is a number for at least
    /// one node.
    pub(super) has_numbers: &'a dyn Fn(&str) -> Result<bool, QueryError>,
}

impl Parser<'_> {
    /// Parses the whole query into tantivy's form.
    pub(super) fn query(&self) -> Parsed {
        if self.text.len() > MAX_QUERY_BYTES {
            return Err(QueryError::Long(self.text.len()));
        }
        let mut depth = 0usize;
        for (at, c) in self.text.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_DEPTH {
                let reason = format!("parentheses are nested deeper than {MAX_DEPTH} levels");
                return Err(self.wrong(at, reason));
            }
        }
        if self.text.trim().is_empty() {
            return Err(self.wrong(0, "the query is empty; write words, or * for all nodes"));
        }
        match parse_query(self.text) {
            Ok(tree) => self.tree(&tree),
            Err(_) => Err(self.syntax()),
        }
    }

    /// Creates the error for a query that the grammar rejects, at the first position that is wrong.
    fn syntax(&self) -> QueryError {
        let (_, errors) = parse_query_lenient(self.text);
        let first = errors.into_iter().min_by_key(|error| error.pos);
        let (at, message) = first.map_or((0, "the syntax is invalid".to_owned()), |error| {
            (error.pos.min(self.text.len()), error.message)
        });
        let remedy = "put text with special characters in double quotes; close all quotes and \
                      brackets";
        self.wrong(self.text.floor_char_boundary(at), format!("{message}; {remedy}"))
    }

    /// Creates the error at a byte offset of the query.
    fn wrong(&self, byte: usize, reason: impl Into<String>) -> QueryError {
        let at = self.text[..byte.min(self.text.len())].chars().count() + 1;
        QueryError::Wrong { at, reason: reason.into() }
    }

    /// Creates the error at the first occurrence of `piece` in the query.
    fn wrong_at(&self, piece: &str, reason: impl Into<String>) -> QueryError {
        self.wrong(self.text.find(piece).unwrap_or(0), reason)
    }

    fn tree(&self, tree: &UserInputAst) -> Parsed {
        match tree {
            UserInputAst::Clause(parts) => {
                let mut all: Vec<(Occur, Box<dyn Query>)> = Vec::with_capacity(parts.len() + 1);
                for (occur, part) in parts {
                    all.push((occur.unwrap_or(Occur::Should), self.tree(part)?));
                }
                // A query that only excludes matches all nodes that it does not exclude.
                if all.iter().all(|part| part.0 == Occur::MustNot) {
                    all.push((Occur::Must, Box::new(AllQuery)));
                }
                Ok(Box::new(BooleanQuery::new(all)))
            }
            UserInputAst::Boost(part, boost) => {
                let boost = boost.into_inner() as f32;
                if !boost.is_finite() || boost < 0.0 {
                    return Err(self.wrong_at("^", "a boost must be a number of 0 or more"));
                }
                Ok(Box::new(BoostQuery::new(self.tree(part)?, boost)))
            }
            UserInputAst::Leaf(leaf) => self.leaf(leaf),
        }
    }

    fn leaf(&self, leaf: &UserInputLeaf) -> Parsed {
        match leaf {
            UserInputLeaf::All => Ok(Box::new(AllQuery)),
            UserInputLeaf::Literal(literal) => self.literal(literal),
            UserInputLeaf::Range { field, lower, upper } => {
                self.range(field.as_deref(), lower, upper)
            }
            UserInputLeaf::Set { field, elements } => {
                let target = self.target(field.as_deref())?;
                let any = elements.iter().map(|element| {
                    let words: Vec<String> = words_of(element).map(|pair| pair.1).collect();
                    self.everywhere(&target, |field, path| {
                        self.phrase(&words, field, path, 0, element)
                    })
                });
                Ok(Box::new(BooleanQuery::union(any.collect::<Result<_, _>>()?)))
            }
            UserInputLeaf::Exists { field } => {
                let reason = "queries for the existence of a field are not supported; search for \
                              words in the field";
                Err(self.wrong_at(field, reason))
            }
            UserInputLeaf::Regex { pattern, .. } => {
                let reason =
                    "regular expressions are not supported; use a prefix as in flas*, or flask~1";
                Err(self.wrong_at(pattern, reason))
            }
        }
    }

    fn literal(&self, literal: &UserInputLiteral) -> Parsed {
        let target = self.target(literal.field_name.as_deref())?;
        let written = &literal.phrase;
        let (text, typos, prefix) = match literal.delimiter {
            Delimiter::None => self.signs(written)?,
            _ => (written.as_str(), 0, literal.prefix),
        };
        if literal.slop > MAX_SLOP {
            return Err(self.wrong_at("~", format!("the slop exceeds {MAX_SLOP} words")));
        }
        let words: Vec<String> = words_of(text).map(|pair| pair.1).collect();
        if typos > 0 && words.len() > 1 {
            let reason = format!("{written:?} has several words; ~ applies to one word");
            return Err(self.wrong_at(written, reason));
        }
        self.everywhere(&target, |field, path| match (words.as_slice(), prefix) {
            ([word], true) => {
                Ok(Box::new(FuzzyTermQuery::new_prefix(term(field, path, word), 0, true)))
            }
            ([word], false) if typos > 0 => {
                Ok(Box::new(FuzzyTermQuery::new(term(field, path, word), typos, true)))
            }
            (words, true) if words.len() > 1 => {
                let terms = words.iter().map(|word| term(field, path, word)).collect();
                let mut query = PhrasePrefixQuery::new(terms);
                query.set_max_expansions(u32::MAX);
                Ok(Box::new(query))
            }
            (words, _) => self.phrase(words, field, path, literal.slop, written),
        })
    }

    /// Splits `*` or `~n` off the end of a word; returns the rest of the word, the allowed edit
    /// distance, and whether the rest is a prefix.
    fn signs<'t>(&self, written: &'t str) -> Result<(&'t str, u8, bool), QueryError> {
        if let Some(text) = written.strip_suffix('*') {
            return Ok((text, 0, true));
        }
        let Some((text, typos)) = written.rsplit_once('~') else { return Ok((written, 0, false)) };
        match typos.parse() {
            Ok(typos) if typos <= MAX_TYPOS => Ok((text, typos, false)),
            _ => {
                let reason = format!("~ allows 0 to {MAX_TYPOS} typos, as in flask~1");
                Err(self.wrong_at(written, reason))
            }
        }
    }

    /// Creates the query for consecutive words in one field, at the key `path` of a JSON field;
    /// `slop` is in words, `written` the text for error messages.
    fn phrase(
        &self,
        words: &[String],
        field: Field,
        path: Option<&str>,
        slop: u32,
        written: &str,
    ) -> Parsed {
        match words {
            [] => Err(self.wrong_at(written, format!("{written:?} contains no word"))),
            [word] => {
                let term = term(field, path, word);
                Ok(Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)))
            }
            words => {
                let terms = words.iter().map(|word| term(field, path, word)).enumerate();
                let phrase = PhraseQuery::new_with_offset_and_slop(terms.collect(), slop);
                Ok(Box::new(phrase))
            }
        }
    }

    /// Creates the query that matches if `query` matches in any schema field of a target; `query`
    /// gets the field, and the key of a JSON field.
    fn everywhere(&self, target: &Target, query: impl Fn(Field, Option<&str>) -> Parsed) -> Parsed {
        match target {
            Target::Texts(fields) => {
                let all = fields.iter().map(|&field| query(field, None));
                let mut all = all.collect::<Result<Vec<_>, _>>()?;
                match all.len() {
                    1 => Ok(all.remove(0)),
                    _ => Ok(Box::new(BooleanQuery::union(all))),
                }
            }
            Target::Detail(id) => query(self.at.fields, Some(&key('f', *id))),
            Target::Relation(id) => query(self.at.rel, Some(&key('r', *id))),
        }
    }

    fn range(&self, name: Option<&str>, lower: &UserInputBound, upper: &UserInputBound) -> Parsed {
        let written = name.unwrap_or("[");
        let Target::Detail(id) = self.target(name)? else {
            let reason = "ranges need a numeric field, as in price:[5 TO 20]";
            return Err(self.wrong_at(written, reason));
        };
        let path = key('f', id);
        if !(self.has_numbers)(&path)? {
            let reason = format!("no value of {written:?} is a number; ranges need numbers");
            return Err(self.wrong_at(written, reason));
        }
        let bound = |bound: &UserInputBound| -> Result<Bound<Term>, QueryError> {
            let number = |text: &str| {
                let reason =
                    format!("{text:?} is not a number; write a number, or * for an open end");
                number(text).ok_or_else(|| self.wrong_at(text, reason))
            };
            let term = |number: f64| {
                let mut term = Term::from_field_json_path(self.at.numbers, &path, false);
                term.append_type_and_fast_value(number);
                term
            };
            Ok(match bound {
                UserInputBound::Inclusive(text) => Bound::Included(term(number(text)?)),
                UserInputBound::Exclusive(text) => Bound::Excluded(term(number(text)?)),
                UserInputBound::Unbounded => Bound::Unbounded,
            })
        };
        let (mut lower, upper) = (bound(lower)?, bound(upper)?);
        // A range without bounds matches all numbers.
        if (&lower, &upper) == (&Bound::Unbounded, &Bound::Unbounded) {
            lower = bound(&UserInputBound::Inclusive(f64::MIN.to_string()))?;
        }
        Ok(Box::new(RangeQuery::new(lower, upper)))
    }

    /// Resolves the name of a field or relation. Without `name`, the target is every node's name
    /// and document.
    fn target(&self, name: Option<&str>) -> Result<Target, QueryError> {
        let Some(name) = name else {
            return Ok(Target::Texts(vec![self.at.name, self.at.body]));
        };
        let detail = |name: &str| Some(Target::Detail(self.kb.field_id(name)?.0));
        let relation = |name: &str| Some(Target::Relation(self.kb.relation_id(name)?.0));
        let own = match name {
            "type" => Some(self.at.node_type),
            "name" => Some(self.at.name),
            "body" => Some(self.at.body),
            _ => None,
        };
        let found = own.map(|field| Target::Texts(vec![field]));
        let found = found.or_else(|| detail(name)).or_else(|| relation(name));
        let found = found.or_else(|| detail(name.strip_prefix("fields.")?));
        let found = found.or_else(|| relation(name.strip_prefix("rel.")?));
        found.ok_or_else(|| {
            let remedy = self.near(name);
            self.wrong_at(name, format!("no field or relation {name:?}; {remedy}"))
        })
    }

    /// Returns the remedy for an unknown name: the nearest known name, or a list of known names.
    fn near(&self, name: &str) -> String {
        let own = ["type", "name", "body"].into_iter();
        let known = own.chain(self.kb.field_names().iter().map(String::as_str));
        let known: Vec<&str> =
            known.chain(self.kb.relations().iter().map(String::as_str)).collect();
        match nearest(name, known.iter().copied(), MAX_DISTANCE) {
            Some(known) => {
                format!("did you mean {known}? Put it in double quotes if it is not a field")
            }
            None => {
                format!("known: {}", listed(&known, MAX_LISTED))
            }
        }
    }
}

/// Creates tantivy's term for a word in a field, or at the key `path` of a JSON field.
fn term(field: Field, path: Option<&str>, word: &str) -> Term {
    match path {
        None => Term::from_field_text(field, word),
        Some(path) => {
            let mut term = Term::from_field_json_path(field, path, false);
            term.append_type_and_str(word);
            term
        }
    }
}
