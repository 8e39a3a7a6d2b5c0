//! Catches panics of programs and tools without printing them.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

thread_local! {
    /// Whether this thread runs guarded work, whose panic is not printed.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. If it panics, returns the message of the panic instead of printing it.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                print(info);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.map_err(|panic| panic_text(&panic))
}

/// Returns the message of a panic, from its payload.
pub(super) fn panic_text(panic: &Box<dyn Any + Send>) -> String {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("internal panic: {}", message.unwrap_or("no message"))
}
