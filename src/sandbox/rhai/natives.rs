//! Replaces native functions of the standard package that read the clock, allocate as much as an
//! argument says, never end, or swallow errors.
//!
//! A function registered with the engine takes precedence over a function of the same name and
//! types in a package, even if it is called through a function pointer.

use std::{cmp::Ordering, fmt::Write as _};

use rhai::{
    Array, Dynamic, Engine, EvalAltResult, FnPtr, INT, ImmutableString, Map, NativeCallContext,
    Position,
};

use crate::sandbox::rhai::{meter, values::describe};

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// Minimum size of one element of a list, in bytes.
const ITEM_BYTES: usize = size_of::<Dynamic>();

/// Maximum depth of nested lists and maps that are written as JSON.
const MAX_JSON_DEPTH: usize = 64;
/// Maximum depth of nested lists and maps that are printed; deeper ones become dots.
const MAX_SHOWN_DEPTH: usize = 64;

fn too_large(what: &str) -> Box<EvalAltResult> {
    EvalAltResult::ErrorDataTooLarge(what.to_owned(), Position::NONE).into()
}

/// Replaces the native functions of an engine.
pub(super) fn register(engine: &mut Engine) {
    const NO_CLOCK: &str = "programs have no clock: remove this call";
    engine.register_fn("sleep", |_: INT| -> Answer<()> { Err(NO_CLOCK.into()) });
    engine.register_fn("sleep", |_: f64| -> Answer<()> { Err(NO_CLOCK.into()) });
    engine.register_fn("timestamp", || -> Answer<()> { Err(NO_CLOCK.into()) });
    engine.register_fn("eval", |_: &str| -> Answer<()> {
        Err("programs cannot run text as code: write a function".into())
    });

    engine.register_fn(
        "replace",
        |ctx: NativeCallContext, text: &mut ImmutableString, find: &str, put: &str| {
            replace(&ctx, text, find, put)
        },
    );
    engine.register_fn(
        "replace",
        |ctx: NativeCallContext, text: &mut ImmutableString, find: &str, put: char| {
            replace(&ctx, text, find, put.encode_utf8(&mut [0; 4]))
        },
    );
    engine.register_fn(
        "replace",
        |ctx: NativeCallContext, text: &mut ImmutableString, find: char, put: &str| {
            replace(&ctx, text, find.encode_utf8(&mut [0; 4]), put)
        },
    );
    engine.register_fn(
        "replace",
        |ctx: NativeCallContext, text: &mut ImmutableString, find: char, put: char| {
            replace(&ctx, text, find.encode_utf8(&mut [0; 4]), put.encode_utf8(&mut [0; 4]))
        },
    );
    engine.register_fn("pad", pad_text);
    engine.register_fn("pad", pad_list);
    engine.register_fn("parse_json", parse_json);
    engine.register_fn("to_json", to_json);
    for name in ["print", "debug", "to_string", "to_debug"] {
        engine.register_fn(name, show_list);
        engine.register_fn(name, show_map);
    }
    for name in ["sort", "sort_by"] {
        engine.register_fn(name, sort);
    }
    for name in ["order", "order_by"] {
        engine.register_fn(name, order);
    }
    engine.register_fn("dedup", dedup);
}

/// Replaces all occurrences, after checking the length of the result.
fn replace(
    ctx: &NativeCallContext<'_>,
    text: &mut ImmutableString,
    find: &str,
    put: &str,
) -> Answer<()> {
    let count = text.matches(find).count();
    if count == 0 {
        return Ok(());
    }
    let grown = count
        .checked_mul(put.len())
        .and_then(|put| put.checked_add(text.len()))
        .map(|length| length.saturating_sub(count * find.len()));
    if grown.is_none_or(|length| length > ctx.engine().max_string_size()) {
        return Err(too_large("length of string"));
    }
    *text = text.replace(find, put).into();
    Ok(())
}

/// Pads a text with a text; the original function never ends if the padding is empty.
fn pad_text(
    ctx: NativeCallContext<'_>,
    text: &mut ImmutableString,
    length: INT,
    padding: &str,
) -> Answer<()> {
    let most = ctx.engine().max_string_size();
    if length < 0 {
        return Ok(());
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let missing = length.saturating_sub(text.chars().count());
    if missing == 0 || padding.is_empty() {
        return Ok(());
    }
    if length > most {
        return Err(too_large("length of string"));
    }
    let mut padded = text.to_string();
    for character in padding.chars().cycle().take(missing) {
        padded.push(character);
        if padded.len() > most {
            return Err(too_large("length of string"));
        }
    }
    *text = padded.into();
    Ok(())
}

/// Pads a list with copies of an item and checks the heap after each copy, because the engine's
/// size checks do not see the values that a function pointer carries.
fn pad_list(
    ctx: NativeCallContext<'_>,
    list: &mut Array,
    length: INT,
    item: Dynamic,
) -> Answer<()> {
    if length < 0 {
        return Ok(());
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let missing = length.saturating_sub(list.len());
    if missing == 0 {
        return Ok(());
    }
    if length > ctx.engine().max_array_size() || missing * ITEM_BYTES > meter::free_bytes() {
        return Err(too_large("size of list"));
    }
    list.reserve_exact(missing);
    for _ in 0..missing {
        list.push(item.clone());
        if meter::over_budget() {
            return Err(too_large("size of list"));
        }
    }
    Ok(())
}

/// Reads JSON; the original function takes quadratic time in the number of fields of an object.
/// Numbers without a fraction become integers; `null` becomes `()`.
fn parse_json(text: &str) -> Answer<Dynamic> {
    serde_json::from_str::<Dynamic>(text)
        .map_err(|error| format!("text is not JSON: {error}").into())
}

/// Formats a list; the original function takes quadratic time in the depth, within one step.
fn show_list(ctx: NativeCallContext<'_>, list: &mut Array) -> Answer<String> {
    let mut text = String::new();
    push_list(&mut text, list, MAX_SHOWN_DEPTH, ctx.engine().max_string_size())?;
    Ok(text)
}

fn show_map(ctx: NativeCallContext<'_>, map: &mut Map) -> Answer<String> {
    let mut text = String::new();
    push_entries(&mut text, map, MAX_SHOWN_DEPTH, ctx.engine().max_string_size())?;
    Ok(text)
}

fn push_list(text: &mut String, list: &Array, depth: usize, most: usize) -> Answer<()> {
    text.push('[');
    for (at, item) in list.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { ", " });
        push_shown(text, item, depth, most)?;
    }
    text.push(']');
    Ok(())
}

fn push_entries(text: &mut String, map: &Map, depth: usize, most: usize) -> Answer<()> {
    text.push_str("#{");
    for (at, (name, value)) in map.iter().enumerate() {
        let _ = write!(text, "{}{:?}: ", if at == 0 { "" } else { ", " }, name.as_str());
        push_shown(text, value, depth, most)?;
    }
    text.push('}');
    Ok(())
}

fn push_shown(text: &mut String, value: &Dynamic, depth: usize, most: usize) -> Answer<()> {
    if text.len() > most {
        return Err(too_large("length of string"));
    }
    let Some(deeper) = depth.checked_sub(1) else {
        text.push_str("...");
        return Ok(());
    };
    if let Ok(items) = value.as_array_ref() {
        return push_list(text, &items, deeper, most);
    }
    if let Ok(entries) = value.as_map_ref() {
        return push_entries(text, &entries, deeper, most);
    }
    if let Ok(words) = value.as_immutable_string_ref() {
        let _ = write!(text, "{:?}", words.as_str());
    } else if value.is_unit() {
        text.push_str("()");
    } else if value.is_int() || value.is_float() || value.is_bool() || value.is_char() {
        let _ = write!(text, "{value}");
    } else {
        text.push_str(&describe(value));
    }
    Ok(())
}

/// Writes a map as JSON; the original function never ends on a closure that captures itself.
fn to_json(ctx: NativeCallContext<'_>, map: &mut Map) -> Answer<String> {
    let mut text = String::new();
    push_map(&mut text, map, MAX_JSON_DEPTH, ctx.engine().max_string_size())?;
    Ok(text)
}

fn push_map(text: &mut String, map: &Map, depth: usize, most: usize) -> Answer<()> {
    text.push('{');
    for (at, (name, value)) in map.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{}:", serde_json::Value::from(name.as_str()));
        push_json(text, value, depth, most)?;
    }
    text.push('}');
    Ok(())
}

fn push_json(text: &mut String, value: &Dynamic, depth: usize, most: usize) -> Answer<()> {
    let Some(deeper) = depth.checked_sub(1) else { return Err("value is nested too deep".into()) };
    if text.len() > most {
        return Err(too_large("length of string"));
    }
    if value.is_unit() {
        text.push_str("null");
    } else if let Ok(number) = value.as_float() {
        let _ = write!(text, "{}", serde_json::Value::from(number));
    } else if value.is_int() || value.is_bool() {
        let _ = write!(text, "{value}");
    } else if let Ok(words) = value.as_immutable_string_ref() {
        let _ = write!(text, "{}", serde_json::Value::from(words.as_str()));
    } else if let Ok(character) = value.as_char() {
        let _ = write!(text, "{}", serde_json::Value::from(character.to_string()));
    } else if let Ok(items) = value.as_array_ref() {
        text.push('[');
        for (at, item) in items.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "," });
            push_json(text, item, deeper, most)?;
        }
        text.push(']');
    } else if let Ok(map) = value.as_map_ref() {
        push_map(text, &map, deeper, most)?;
    } else {
        return Err("only numbers, text, lists and maps can be written as JSON".into());
    }
    Ok(())
}

/// Sorts a list by a comparator, which returns a number (negative if its first argument comes
/// first) or whether its first argument comes first. Stable. Fails with the comparator's first
/// error; a comparator that contradicts itself gives an unspecified order.
fn sort(ctx: NativeCallContext<'_>, list: &mut Array, comparator: FnPtr) -> Answer<()> {
    let sorted = merge_sort(&ctx, std::mem::take(list), &comparator)?;
    *list = sorted;
    Ok(())
}

fn order(ctx: NativeCallContext<'_>, list: &mut Array, comparator: FnPtr) -> Answer<Array> {
    merge_sort(&ctx, list.clone(), &comparator)
}

fn compare(
    ctx: &NativeCallContext<'_>,
    comparator: &FnPtr,
    a: &Dynamic,
    b: &Dynamic,
) -> Answer<Ordering> {
    let answer = comparator.call_raw(ctx, None, [a.clone(), b.clone()])?;
    if let Ok(number) = answer.as_int() {
        return Ok(number.cmp(&0));
    }
    if let Ok(number) = answer.as_float() {
        return Ok(number.partial_cmp(&0.0).unwrap_or(Ordering::Equal));
    }
    match answer.as_bool() {
        Ok(true) => Ok(Ordering::Less),
        Ok(false) => Ok(Ordering::Greater),
        Err(kind) => Err(format!("a comparator must give a number or a bool, not {kind}").into()),
    }
}

fn merge_sort(ctx: &NativeCallContext<'_>, mut list: Array, by: &FnPtr) -> Answer<Array> {
    if list.len() <= 1 {
        return Ok(list);
    }
    let right = list.split_off(list.len() / 2);
    let left = merge_sort(ctx, list, by)?;
    let right = merge_sort(ctx, right, by)?;
    let mut merged = Array::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = match compare(ctx, by, a, b)? {
            Ordering::Greater => right.next(),
            _ => left.next(),
        };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

/// Drops each item that equals the last kept one according to the comparator.
fn dedup(ctx: NativeCallContext<'_>, list: &mut Array, comparator: FnPtr) -> Answer<()> {
    let mut kept = Array::new();
    for item in std::mem::take(list) {
        let same = match kept.last() {
            Some(last) => {
                let answer = comparator.call_raw(&ctx, None, [last.clone(), item.clone()])?;
                answer.as_bool().unwrap_or(false)
            }
            None => false,
        };
        if !same {
            kept.push(item);
        }
    }
    *list = kept;
    Ok(())
}
