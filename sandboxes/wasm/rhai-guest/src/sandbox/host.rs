//! What the host offers. The only place that calls it.
//!
//! A message from the host is announced by its length and then taken; nothing of the module is
//! called while it waits.

#[link(wasm_import_module = "agent")]
unsafe extern "C" {
    #[link_name = "take"]
    fn host_take(into: *mut u8);
    #[link_name = "give"]
    fn host_give(from: *const u8, len: usize);
    #[link_name = "read"]
    fn host_read(handle: u32, into: *mut u8, bytes: usize) -> usize;
    #[link_name = "release"]
    fn host_release(handle: u32);
}

#[link(wasm_import_module = "rhai")]
unsafe extern "C" {
    #[link_name = "call"]
    fn host_call(tool: u32, line: u32, from: *const u8, len: usize) -> i32;
    #[link_name = "fail"]
    fn host_fail(from: *const u8, len: usize) -> !;
}

/// Takes the message that the host announced with this length.
pub(super) fn take(len: usize) -> Vec<u8> {
    let mut message = vec![0; len];
    // SAFETY: the host writes exactly the bytes that it announced.
    unsafe { host_take(message.as_mut_ptr()) };
    message
}

/// Gives the host a result.
pub(super) fn give(message: &[u8]) {
    // SAFETY: the host reads these bytes only.
    unsafe { host_give(message.as_ptr(), message.len()) }
}

/// Calls a tool from a line, 0 if it is not known: its answer, or why there is none.
pub(super) fn call(tool: usize, line: u32, message: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    // SAFETY: the host reads these bytes only.
    let len = unsafe { host_call(tool as u32, line, message.as_ptr(), message.len()) };
    let reply = take(len.unsigned_abs() as usize);
    if len < 0 { Err(reply) } else { Ok(reply) }
}

/// Ends the call with a failure.
pub(super) fn fail(message: &[u8]) -> ! {
    // SAFETY: the host reads these bytes only and does not come back.
    unsafe { host_fail(message.as_ptr(), message.len()) }
}

/// The bytes of what a handle stands for.
pub(super) fn read(handle: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: the host writes at most this many bytes.
    let read = unsafe { host_read(handle, bytes.as_mut_ptr(), len) };
    bytes.truncate(read);
    bytes
}

/// Tells the host that a handle is no longer used.
pub(super) fn release(handle: u32) {
    // SAFETY: no memory is touched.
    unsafe { host_release(handle) }
}
