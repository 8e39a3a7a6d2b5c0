//! Panics that are expected: caught, told in a failure, and not printed.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

thread_local! {
    /// Whether a panic on this thread is expected.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does work; the text of its panic if it panics. Nothing is printed then.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                loud(info);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.map_err(|panic| panic_text(&panic))
}

/// What a panic said.
pub(super) fn panic_text(panic: &Box<dyn Any + Send>) -> String {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("internal panic: {}", said.unwrap_or("no message"))
}
