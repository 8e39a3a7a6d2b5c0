//! Rewrites double-quoted operands of comparisons to string literals, as some databases read them:
//! `brand = "Umbra"` to `brand = 'Umbra'`.
//!
//! In SQL, `"x"` is an identifier. If no table or column has this name, `"x"` in a comparison can
//! only mean a string. Elsewhere it is left unchanged and causes an error.

/// Replaces double-quoted texts in comparisons by string literals, unless one of `names`, the
/// tables and columns, equals the text. Returns the statement and the replaced texts in order.
pub fn with_literals(sql: &str, names: &[&str]) -> (String, Vec<String>) {
    let mut written = String::with_capacity(sql.len());
    let mut texts = Vec::new();
    let mut rest = sql;
    while let Some(at) = rest.find(['\'', '"', '`', '[']) {
        let (before, from) = rest.split_at(at);
        written.push_str(before);
        let mark = from.chars().next().unwrap_or('"');
        let end = if mark == '[' { ']' } else { mark };
        let Some(inside) = from.get(1..).and_then(|own| closed(own, end)) else {
            written.push_str(from);
            return (written, texts);
        };
        let whole = from.get(..inside + 2).unwrap_or(from);
        let text = from.get(1..=inside).unwrap_or_default().replace("\"\"", "\"");
        let known = names.iter().any(|name| name.eq_ignore_ascii_case(&text));
        if mark == '"' && !known && is_compared(&written) {
            written.push_str(&format!("'{}'", text.replace('\'', "''")));
            texts.push(text);
        } else {
            written.push_str(whole);
        }
        rest = from.get(whole.len()..).unwrap_or_default();
    }
    written.push_str(rest);
    (written, texts)
}

/// Returns the byte offset of the mark `end` that closes a quotation; a doubled mark is part of the
/// quoted text. `None` if the quotation is not closed.
fn closed(text: &str, end: char) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find(end)?;
        if !text.get(at + 1..)?.starts_with(end) {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Whether the token that follows `before`, the beginning of a statement, is an operand of a
/// comparison: after `=`, `<>`, `!=` or `LIKE`, or in the list of an `IN`.
fn is_compared(before: &str) -> bool {
    let before = before.trim_end();
    if before.ends_with('=') || before.ends_with("<>") || ends_with_word(before, "like") {
        return true;
    }
    if !before.ends_with(['(', ',']) {
        return false;
    }
    // Scan back over the literals of a list to its opening parenthesis.
    let mut depth_of_text = false;
    for (at, c) in before.char_indices().rev() {
        match c {
            '\'' => depth_of_text = !depth_of_text,
            '(' if !depth_of_text => {
                return before.get(..at).is_some_and(|own| ends_with_word(own.trim_end(), "in"));
            }
            ',' | ' ' | '\n' | '\t' => {}
            _ if depth_of_text => {}
            _ => return false,
        }
    }
    false
}

fn ends_with_word(text: &str, word: &str) -> bool {
    let Some(at) = text.len().checked_sub(word.len()) else { return false };
    let (Some(before), Some(end)) = (text.get(..at), text.get(at..)) else { return false };
    end.eq_ignore_ascii_case(word) && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_compared_with_are_literals_and_columns_are_not() {
        let names = ["t", "brand", "price"];
        for (sql, expected, n) in [
            (
                r#"SELECT 1 FROM t WHERE brand = "Umbra""#,
                "SELECT 1 FROM t WHERE brand = 'Umbra'",
                1,
            ),
            (
                r#"SELECT "price" FROM t WHERE "brand"="O'Neil""#,
                r#"SELECT "price" FROM t WHERE "brand"='O''Neil'"#,
                1,
            ),
            (
                r#"SELECT 1 FROM t WHERE brand IN ("a", "b, c")"#,
                "SELECT 1 FROM t WHERE brand IN ('a', 'b, c')",
                2,
            ),
            (
                r#"SELECT 1 FROM t WHERE brand LIKE "%x%""#,
                "SELECT 1 FROM t WHERE brand LIKE '%x%'",
                1,
            ),
            // A name that is selected, sorted or passed to a function remains a column.
            (r#"SELECT "prise" FROM t"#, r#"SELECT "prise" FROM t"#, 0),
            (
                r#"SELECT avg("prise") AS "a mean" FROM t ORDER BY "a mean""#,
                r#"SELECT avg("prise") AS "a mean" FROM t ORDER BY "a mean""#,
                0,
            ),
            (
                r#"SELECT 1 FROM t WHERE brand = "Price""#,
                r#"SELECT 1 FROM t WHERE brand = "Price""#,
                0,
            ),
            // Quotation marks within string literals do not begin a quoted text.
            (r#"SELECT '= "x"' FROM t"#, r#"SELECT '= "x"' FROM t"#, 0),
            (r#"SELECT 1 FROM t WHERE brand = "open"#, r#"SELECT 1 FROM t WHERE brand = "open"#, 0),
        ] {
            let (written, texts) = with_literals(sql, &names);
            assert_eq!((written.as_str(), texts.len()), (expected, n), "{sql}");
        }
    }
}
