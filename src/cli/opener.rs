//! Opens a page in the user's browser.

use std::{env, process::Stdio};

use crate::Context;

/// Commands that open an address in a browser, in the order in which they are tried.
const OPENERS: &[&[&str]] = if cfg!(target_os = "macos") {
    &[&["open"]]
} else if cfg!(windows) {
    &[&["explorer.exe"]]
} else {
    &[&["xdg-open"], &["gio", "open"], &["wslview"]]
};

/// Opens an address in a browser. Also prints the address, so that the user can open it if no
/// browser starts.
pub(super) fn open(address: &str, ctx: &Context) {
    let opened = has_screen() && OPENERS.iter().any(|opener| started(opener, address));
    let told = if opened { "opening" } else { "cannot start a browser; open" };
    ctx.watch.notice(&format!("{told} {address}"));
}

/// Whether the session has a graphical display; without one, an opener might start a browser inside
/// the terminal.
fn has_screen() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(any(target_os = "macos", windows))
        || ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"].into_iter().any(is_set)
}

/// Starts the opener command with the address, without waiting for it to end; returns whether it
/// started.
#[expect(clippy::disallowed_methods, reason = "the user asked for a browser, and names no program")]
fn started(opener: &[&str], address: &str) -> bool {
    let Some((program, args)) = opener.split_first() else { return false };
    std::process::Command::new(program)
        .args(args)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .is_ok()
}
