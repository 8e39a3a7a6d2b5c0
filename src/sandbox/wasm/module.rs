//! Checks the sizes of a module's functions before the module is compiled, because the WebAssembly
//! engine limits neither the time nor the memory of its compiler.
//!
//! A compiler follows every variable through every block. A function has at most one block per
//! three bytes, so the product of its variables and bytes bounds that work. Measured: a function of
//! 26 kB with 2,000 variables took 1.4 GB and 12.6 s.
//!
//! This module does not check whether a WebAssembly module is valid; only the compiler does, and it
//! also checks the parts that this code cannot read.

/// Maximum number of functions of one module.
pub(super) const MAX_FUNCTIONS: u32 = 10_000;
/// Maximum size of the code of one function, in bytes.
pub(super) const MAX_BODY_BYTES: usize = 128 << 10;
/// Maximum number of local variables of one function.
pub(super) const MAX_LOCALS: u64 = 2_000;
/// Maximum product of variables and bytes of one function. The variables are the function's own
/// plus the parameters and results of the module's widest type, because blocks have types too.
pub(super) const MAX_FUNCTION_WORK: u64 = 4 << 20;
/// Maximum sum, over all functions of a module, of the product of variables and bytes. For
/// comparison: the Rhai engine, a module of 2 MB that is not checked, has a sum of 50 million, and
/// its largest function 3.9 million.
pub(super) const MAX_WORK: u64 = 24 << 20;

/// First bytes of every core module: magic number and version.
pub(super) const MAGIC: &[u8] = b"\0asm\x01\0\0\0";
/// Id of the section with the types of functions and blocks.
const TYPES: u8 = 1;
/// First byte of a function type.
const FUNCTION_TYPE: u8 = 0x60;
/// Id of the section with the code of functions.
const CODE: u8 = 10;
/// Id of every custom section.
const CUSTOM: u8 = 0;

/// Why a module is rejected before it is compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ModuleError {
    /// The magic number is missing, or the version is not the supported one.
    #[error("the bytes are not a WebAssembly module; components are not supported")]
    Magic,
    /// The module ends within a section.
    #[error("the module is truncated")]
    Short,
    /// The module has too many functions.
    #[error("the module has more than {MAX_FUNCTIONS} functions; make it smaller")]
    Functions,
    /// The code of a function is too long.
    #[error("a function of the module has more than {MAX_BODY_BYTES} bytes; split it")]
    Body,
    /// Compiling a function would take too much memory; holds the product of the function's numbers
    /// of variables and bytes.
    #[error(
        "a function of the module has {0} variables times bytes, more than {MAX_FUNCTION_WORK}; \
         compiling it would take too much memory: split it"
    )]
    FunctionWork(u64),
    /// Compiling all functions together would take too much memory.
    #[error(
        "the functions of the module have more than {MAX_WORK} variables times bytes together; \
         compiling them would take too much memory: make the module smaller"
    )]
    Work,
    /// A function has too many variables.
    #[error("a function of the module has more than {MAX_LOCALS} variables; split it")]
    Locals,
}

/// Checks that the functions of a module are small enough to compile.
///
/// # Errors
/// [`ModuleError`] with the limit that the module exceeds.
pub(super) fn check(bytes: &[u8]) -> Result<(), ModuleError> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(ModuleError::Magic)?;
    let mut widest = 0;
    while let Some((&kind, after)) = rest.split_first() {
        rest = after;
        let section = section(&mut rest)?;
        match kind {
            // The engine refuses types of another form.
            TYPES => widest = widest_type(section).unwrap_or(widest),
            CODE => check_code(section, widest)?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns the largest number of parameters and results together that any type in the types section
/// `rest` has.
fn widest_type(mut rest: &[u8]) -> Result<u64, ModuleError> {
    let mut widest = 0;
    for _ in 0..number(&mut rest)? {
        let (&form, after) = rest.split_first().ok_or(ModuleError::Short)?;
        rest = after;
        if form != FUNCTION_TYPE {
            return Err(ModuleError::Short);
        }
        // Each value type is one byte.
        let (params, results) = (section(&mut rest)?, section(&mut rest)?);
        widest = widest.max((params.len() + results.len()) as u64);
    }
    Ok(widest)
}

/// Returns the text of the first custom section called `name`; `None` if there is none or it is not
/// UTF-8.
pub(super) fn custom_section<'a>(bytes: &'a [u8], name: &str) -> Option<&'a str> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    while let Some((&kind, after)) = rest.split_first() {
        rest = after;
        let mut section = section(&mut rest).ok()?;
        if kind == CUSTOM && self::section(&mut section).ok()? == name.as_bytes() {
            return std::str::from_utf8(section).ok();
        }
    }
    None
}

fn check_code(mut rest: &[u8], widest_type: u64) -> Result<(), ModuleError> {
    let mut all_work = 0u64;
    let functions = number(&mut rest)?;
    if functions > MAX_FUNCTIONS {
        return Err(ModuleError::Functions);
    }
    for _ in 0..functions {
        let mut body = section(&mut rest)?;
        let bytes = body.len();
        if bytes > MAX_BODY_BYTES {
            return Err(ModuleError::Body);
        }
        let groups = number(&mut body)?;
        let mut locals = 0u64;
        for _ in 0..groups {
            locals += u64::from(number(&mut body)?);
            if locals > MAX_LOCALS {
                return Err(ModuleError::Locals);
            }
            body = body.get(1..).ok_or(ModuleError::Short)?;
        }
        let work = locals.saturating_add(widest_type).saturating_mul(bytes as u64);
        if work > MAX_FUNCTION_WORK {
            return Err(ModuleError::FunctionWork(work));
        }
        all_work = all_work.saturating_add(work);
        if all_work > MAX_WORK {
            return Err(ModuleError::Work);
        }
    }
    Ok(())
}

/// Reads the next bytes of `rest`, whose number precedes them, and advances `rest`.
fn section<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], ModuleError> {
    let length = number(rest)? as usize;
    let (section, after) = rest.split_at_checked(length).ok_or(ModuleError::Short)?;
    *rest = after;
    Ok(section)
}

/// Reads a number of one to five bytes in LEB128 from `rest`, and advances `rest`.
fn number(rest: &mut &[u8]) -> Result<u32, ModuleError> {
    let mut value = 0u64;
    for index in 0..5 {
        let (&byte, after) = rest.split_first().ok_or(ModuleError::Short)?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return u32::try_from(value).map_err(|_| ModuleError::Short);
        }
    }
    Err(ModuleError::Short)
}

#[cfg(test)]
mod tests {
    use super::{MAX_BODY_BYTES, MAX_FUNCTIONS, MAX_LOCALS, ModuleError, check, custom_section};

    fn checked(text: &str) -> Result<(), ModuleError> {
        check(&wat::parse_str(text).expect("a module"))
    }

    #[test]
    fn functions_are_counted_and_measured() {
        assert_eq!(checked("(module (func (local i32 i64)))"), Ok(()));
        let locals = |n: u64| format!("(module (func (local{})))", " i32".repeat(n as usize));
        assert_eq!(checked(&locals(MAX_LOCALS)), Ok(()));
        assert_eq!(checked(&locals(MAX_LOCALS + 1)), Err(ModuleError::Locals));
        let many = |n: u32| format!("(module {})", "(func)".repeat(n as usize));
        assert_eq!(checked(&many(MAX_FUNCTIONS)), Ok(()));
        assert_eq!(checked(&many(MAX_FUNCTIONS + 1)), Err(ModuleError::Functions));
        let long = format!("(module (func {}))", "nop ".repeat(MAX_BODY_BYTES));
        assert_eq!(checked(&long), Err(ModuleError::Body));
    }

    #[test]
    fn variables_times_bytes_are_bounded() {
        let function = |locals: usize, blocks: usize| {
            format!("(func (local{}) {})", " i32".repeat(locals), "(block (nop))".repeat(blocks))
        };
        assert_eq!(checked(&format!("(module {})", function(1_000, 1_000))), Ok(()));
        let heavy = checked(&format!("(module {})", function(2_000, 6_500)));
        assert!(matches!(heavy, Err(ModuleError::FunctionWork(work)) if work > 50_000_000));
        // Many functions, each within its limit.
        let many = checked(&format!("(module {})", function(1_000, 1_000).repeat(7)));
        assert_eq!(many, Err(ModuleError::Work));
        // Blocks with many results count as variables do.
        let wide = format!("(type (func (param{})))", " i32".repeat(900));
        let wide = checked(&format!("(module {wide} {})", function(0, 2_000)));
        assert!(matches!(wide, Err(ModuleError::FunctionWork(_))));
    }

    #[test]
    fn bytes_that_are_no_module_are_refused_or_left_to_the_compiler() {
        assert_eq!(check(b""), Err(ModuleError::Magic));
        assert_eq!(check(b"\0asm\x0d\0\x01\0"), Err(ModuleError::Magic));
        let whole = wat::parse_str("(module (func (local i32) nop))").expect("a module");
        for end in 9..whole.len() {
            let _ = check(&whole[..end]);
        }
        assert_eq!(check(&whole[..whole.len() - 1]), Err(ModuleError::Short));
    }

    #[test]
    fn a_custom_section_is_found_by_its_name() {
        let module = wat::parse_str("(module (@custom \"a\" \"one\") (@custom \"b\" \"two\"))");
        let module = module.expect("a module");
        assert_eq!(custom_section(&module, "b"), Some("two"));
        assert_eq!(custom_section(&module, "c"), None);
        assert_eq!(custom_section(b"no module", "b"), None);
    }
}
