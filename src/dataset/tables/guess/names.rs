//! Guesses the columns that hold the names of a table's rows.

use super::{Column, TableFacts};
use agent_ground::words::{has_word, is_of_people, is_person, spelled_out};

/// Names of columns that hold the names of nodes, best first, separated by spaces: English, then
/// German, Spanish, French, Italian and Portuguese.
pub(super) const NAME_NAMES: &str = "\
    name full_name display_name title label caption subject headline heading titel betreff \
    bezeichnung nombre asunto nom titre intitule libelle designation nome titulo item";
/// Names of columns that always hold the names of nodes, best first, separated by spaces.
const SURE_NAMES: &str = "name full_name display_name title";
/// Names of columns that hold first names, each with names of columns that then hold last names,
/// separated by spaces: English, German, French, Spanish, Portuguese and Italian.
const PERSON_NAMES: [(&str, &str); 6] = [
    (
        "first_name first_names firstname given_name given_names forename forenames",
        "last_name lastname surname family_name lname",
    ),
    ("vorname", "nachname familienname name"),
    ("prenom prénom", "nom_de_famille nom"),
    ("nombre nombres", "apellido apellidos"),
    ("nome", "cognome sobrenome apelido"),
    ("name", "surname"),
];
/// Names of columns that hold the whole name of a person.
const FULL_NAMES: &str = "full_name display_name name";
/// Names of columns that hold the names of companies.
const COMPANY_NAMES: &str = "company organisation organization firma empresa société azienda";
/// Words in names of columns that hold no names, even if every row has a different text.
const NO_NAMES: &str = "\
    email mail phone telephone mobile fax url website homepage link note notes comment comments \
    remark remarks description text bio biography contact city town country place date time";
/// Word in names of columns that describe rows, and name them if the descriptions are short.
const DESCRIPTION: &str = "description";
/// Words in names of columns that hold addresses, which may name rows unless the rows are people.
const ADDRESSES: &str = "address street address1";
/// Endings of nouns in the singular and plural, separated by spaces; the first is empty.
const ENDINGS: &str = " a e en n s es o i";
/// Minimum length in bytes of the common beginning of two forms of a noun.
const MIN_STEM: usize = 4;
/// Maximum mean length, in bytes, of the texts in a column that names rows although its header does
/// not suggest names.
pub(super) const MAX_NAME_BYTES: u64 = 60;
/// Minimum length, in bytes, of the beginning of a table's name in the name of a column.
const MIN_OWN: usize = 3;
/// Maximum mean number of rows with the same text in a column of names.
pub(super) const MAX_NAMESAKES: u64 = 10;

/// Whether two nouns differ only in their endings, such as `firma` and `firmen`.
fn is_inflected(one: &str, other: &str) -> bool {
    let n = one
        .chars()
        .zip(other.chars())
        .take_while(|(a, b)| a == b)
        .map(|pair| pair.0.len_utf8())
        .sum();
    n >= MIN_STEM && [&one[n..], &other[n..]].iter().all(|end| has_word(ENDINGS, end))
}

impl TableFacts {
    /// Returns the column, of those in `free`, that is named after the table and holds short texts
    /// or, if `numbers`, numbers: `Venue` or `venue_number` in a table of venues, `breed` in a
    /// table of species and breeds. A column of numbers must have a name such as `version_number`,
    /// not `version`.
    fn own_name<'a>(&self, free: &[(String, &'a String)], numbers: bool) -> Option<&'a String> {
        let node_type = spelled_out(&self.node_type);
        let words = node_type.split('_');
        let names = || [&*node_type].into_iter().chain(words.clone().rev()).map(str::to_owned);
        let numbered = names().flat_map(|own| ["number", "no"].map(|end| format!("{own}_{end}")));
        let is_name = |name: &&String| {
            self.column(name).is_some_and(|column| {
                column.has_texts != numbers
                    && column.is_short()
                    && !column.is_date
                    && !column.is_repeated()
            })
        };
        let names: Vec<String> = names().filter(|_| !numbers).chain(numbered).collect();
        let called = |is_own: &dyn Fn(&str, &str) -> bool| {
            let column = |own: &String| free.iter().find(|(name, _)| is_own(name, own));
            names.iter().filter_map(column).map(|pair| pair.1).find(is_name)
        };
        called(&|name, own| name == own).or_else(|| called(&is_inflected))
    }

    /// Returns the name of a column without the name of the table, or the beginning of this name,
    /// at its start or end: `nom` for `nom_adh` and `adherent_nom` in a table of `adherents`.
    fn without_own_name<'a>(&self, column: &'a str) -> &'a str {
        let own = spelled_out(&self.node_type);
        let is_own = |part: &str| part.len() >= MIN_OWN && own.starts_with(part);
        let first = column.split_once('_').filter(|parts| is_own(parts.0)).map(|parts| parts.1);
        let last = || column.rsplit_once('_').filter(|parts| is_own(parts.1)).map(|parts| parts.0);
        let whole = column.strip_prefix(&own).and_then(|rest| rest.strip_prefix('_'));
        whole.or(first).or_else(last).unwrap_or(column)
    }

    /// Whether a column has texts that differ in nearly all rows.
    fn has_own_texts(&self, name: &str) -> bool {
        self.column(name).is_some_and(|column| column.is_distinct(self.rows))
    }

    /// Whether a column named after `of`, such as `company_name` after `company`, may hold the
    /// names of the rows: `of` and the type's name share a word, or `of` is not a noun for people
    /// and the column has more distinct values than half of the rows.
    fn may_name_rows(&self, of: &str, column: &str) -> bool {
        let noun = of.rsplit('_').next().unwrap_or(of);
        let is_own = of.split('_').any(|word| self.node_type.split('_').any(|own| own == word));
        let column = self.column(column);
        let are_many = column.is_some_and(|own| own.values.len() as u64 * 2 > self.rows);
        is_own || !is_person(noun) && are_many
    }

    /// Returns the column that describes the rows by short texts and is named after the table, such
    /// as `loc_desc` in a table `loc`.
    fn own_description<'a>(&self, free: &[(String, &'a String)]) -> Option<&'a String> {
        let is_own = |name: &str| name != DESCRIPTION && self.without_own_name(name) == DESCRIPTION;
        let is_name = |column: &str| {
            self.column(column)
                .is_some_and(|own| own.has_short_texts() && !own.is_prose() && !own.is_repeated())
        };
        let mut own = free.iter().filter(|(name, column)| is_own(name) && is_name(column));
        own.next().map(|pair| pair.1)
    }

    /// Returns the first column, of those in `free`, with a short text of several words that
    /// differs from row to row. Without such a column, a row is named by a short description, or
    /// else by its address, unless the rows are people.
    fn distinct_texts<'a>(&self, free: &[(String, &'a String)]) -> Option<&'a String> {
        let is_own = |column: &String| {
            let is_short = self.column(column).is_some_and(Column::has_short_texts);
            is_short && self.has_own_texts(column)
        };
        let own: Vec<&(String, &String)> =
            free.iter().filter(|(_, column)| is_own(column)).collect();
        let says = |name: &str, words: &str| name.split('_').any(|word| has_word(words, word));
        let is_address = |name: &str| says(name, ADDRESSES);
        let address = || own.iter().find(|(name, _)| is_address(name));
        let described = || own.iter().find(|(name, _)| says(name, DESCRIPTION)).or_else(address);
        let named = own.iter().find(|(name, _)| !is_address(name) && !says(name, NO_NAMES));
        named.or_else(|| described().filter(|_| !is_of_people(&self.node_type))).map(|own| own.1)
    }

    /// Returns the columns that hold the names of the nodes: those that the user gives, otherwise
    /// the first of these that exist and are not in `taken`:
    ///
    /// - the columns of first and last names, or a column of full names if there is one
    /// - a column whose name is in [`SURE_NAMES`]
    /// - the column named after the table
    /// - a column whose name is in [`NAME_NAMES`] or ends with one of them
    /// - a column of short descriptions named after the table
    /// - a column of company names
    /// - the first column with a short text that differs from row to row
    /// - the column of numbers named after the table, such as `version_number`
    pub(super) fn name_columns(&self, taken: &[&str]) -> Vec<String> {
        if let Some(given) = self.hint.as_ref().and_then(|hint| hint.name.as_ref()) {
            let several = given.split('+').map(|column| column.trim().to_owned()).collect();
            return if self.column(given).is_some() { vec![given.clone()] } else { several };
        }
        let free = self.columns.iter().map(|(name, _)| name);
        let free = free.filter(|name| !taken.contains(&name.as_str()));
        let free: Vec<(String, &String)> = free.map(|name| (spelled_out(name), name)).collect();
        let one_of = |words: &str| {
            let is_known = |name: &str| has_word(words, self.without_own_name(name));
            free.iter().find(|(name, _)| is_known(name)).map(|(_, column)| *column)
        };
        let mut persons = PERSON_NAMES.iter();
        let person = persons.find_map(|(first, last)| Some([one_of(first)?, one_of(last)?]));
        if let Some(person) = person {
            let full = one_of(FULL_NAMES).filter(|full| !person.contains(full));
            return full.map_or(person.to_vec(), |full| vec![full]).into_iter().cloned().collect();
        }
        let exact = |words: &str| {
            let mut known = words.split(' ');
            let found = known.find_map(|known| free.iter().find(|(name, _)| name == known));
            found.map(|(_, column)| *column)
        };
        let ends = || {
            let mut endings = NAME_NAMES.split(' ').map(|known| format!("_{known}"));
            let is_name = |(name, column): &&(String, &String), end: &str| {
                name.strip_suffix(end).is_some_and(|of| self.may_name_rows(of, column))
            };
            let found = endings.find_map(|end| free.iter().find(|own| is_name(own, &end)));
            found.map(|(_, column)| *column)
        };
        let company = || exact(COMPANY_NAMES).filter(|name| self.has_own_texts(name));
        // A title such as `Mr` names no row.
        let is_name = |name: &&String| self.column(name).is_some_and(|own| !own.is_repeated());
        let name = exact(SURE_NAMES)
            .filter(is_name)
            .or_else(|| self.own_name(&free, false))
            .or_else(|| exact(NAME_NAMES))
            .or_else(ends)
            .or_else(|| self.own_description(&free))
            .or_else(company)
            .or_else(|| self.distinct_texts(&free))
            .or_else(|| self.own_name(&free, true));
        name.into_iter().cloned().collect()
    }
}
