//! A recording disk for SQLite that injects failures: a layer over the system's files in watched
//! directories. [`killed`] and [`power_cut`] derive from the record the files that a killed process
//! or a power cut would leave.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{CStr, c_char, c_int, c_void},
    fs,
    path::{Path, PathBuf},
    ptr,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak},
};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rusqlite::ffi::{
    SQLITE_FULL, SQLITE_IOERR_DELETE, SQLITE_IOERR_FSYNC, SQLITE_IOERR_READ, SQLITE_IOERR_TRUNCATE,
    SQLITE_IOERR_WRITE, SQLITE_OK, SQLITE_OPEN_CREATE, sqlite3_file, sqlite3_int64,
    sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

/// Size in bytes of the smallest part of a write that a disk keeps or loses as a whole.
const SECTOR: usize = 512;

/// Contents of files, by file name.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// An operation on a file in a watched directory.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// The file existed when it was first opened, and counts as synced; older operations are
    /// unknown.
    Found {
        file: String,
        bytes: Vec<u8>,
        gone: Vec<String>,
    },
    Create {
        file: String,
    },
    Write {
        file: String,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: String,
        length: usize,
    },
    Sync {
        file: String,
    },
    /// A failed sync: data written since the last successful sync may never reach the disk.
    LostSync {
        file: String,
    },
    Delete {
        file: String,
        synced: bool,
    },
}

/// Kind of the calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Writes, syncs and deletions, as on a broken disk.
    Write,
    /// Writes, as on a full disk.
    Full,
    /// Reads of files.
    Read,
}

/// A failure that is injected into calls of SQLite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    /// Index of the first failing call among the calls of its kind, from 0.
    pub(super) at: usize,
    pub(super) kind: Kind,
    /// Whether all later calls of this kind fail too.
    pub(super) forever: bool,
}

/// A watched directory, whose file operations are recorded.
pub(super) struct Disk {
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ops: Vec<Op>,
    names: BTreeSet<String>,
    fault: Option<Fault>,
    writes: usize,
    reads: usize,
}

static DISKS: Mutex<Vec<Weak<Disk>>> = Mutex::new(Vec::new());

impl Disk {
    /// Watches a directory until the returned disk is dropped.
    pub(super) fn watch(dir: &Path) -> Arc<Disk> {
        register();
        let disk = Arc::new(Disk { dir: dir.to_owned(), state: Mutex::default() });
        let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
        disks.retain(|disk| disk.strong_count() > 0);
        disks.push(Arc::downgrade(&disk));
        disk
    }

    /// Returns the operations that were recorded so far.
    pub(super) fn ops(&self) -> Vec<Op> {
        self.state().ops.clone()
    }

    /// Returns the number of operations that were recorded so far.
    pub(super) fn n_ops(&self) -> usize {
        self.state().ops.len()
    }

    /// Sets the failure to inject, with calls counted from now; `None` for no failure.
    pub(super) fn fail(&self, fault: Option<Fault>) {
        let mut state = self.state();
        (state.fault, state.writes, state.reads) = (fault, 0, 0);
    }

    /// Whether the call that fails first was reached.
    pub(super) fn failed(&self) -> bool {
        let state = self.state();
        state.fault.is_some_and(|fault| {
            fault.at < if fault.kind == Kind::Read { state.reads } else { state.writes }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the watched directory of a path, and the file's name in this directory.
    fn of(path: &Path) -> Option<(Arc<Disk>, String)> {
        let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
        let disk =
            disks.iter().filter_map(Weak::upgrade).find(|disk| path.parent() == Some(&disk.dir))?;
        Some((disk, path.file_name()?.to_string_lossy().into_owned()))
    }
}

impl State {
    /// Counts a call (a read if `read` is true); returns the kind of failure if the call must fail.
    fn count(&mut self, read: bool) -> Option<Kind> {
        let counter = if read { &mut self.reads } else { &mut self.writes };
        let at = *counter;
        *counter += 1;
        let fault = self.fault.filter(|fault| (fault.kind == Kind::Read) == read)?;
        (at == fault.at || fault.forever && at > fault.at).then_some(fault.kind)
    }
}

/// Returns the files after the first `n` operations, as a killed process leaves them. If `torn` and
/// the next operation is a write, half of this write is done too.
pub(super) fn killed(ops: &[Op], n: usize, torn: bool) -> Files {
    let mut files = Files::new();
    for op in &ops[..n] {
        apply(&mut files, op);
    }
    if torn && let Some(Op::Write { file, offset, bytes }) = ops.get(n) {
        let bytes = bytes[..bytes.len() / 2].to_vec();
        apply(&mut files, &Op::Write { file: file.clone(), offset: *offset, bytes });
    }
    files
}

/// Returns the files after the first `n` operations, as a power cut may leave them: any subset of
/// the operations since a file's last sync is lost, with writes split by sectors.
pub(super) fn power_cut(ops: &[Op], n: usize, random: &mut ChaCha8Rng) -> Files {
    let mut durable = Files::new();
    let mut pending: BTreeMap<String, Vec<Op>> = BTreeMap::new();
    for op in &ops[..n] {
        match op {
            Op::Sync { file } => {
                pending.remove(file).iter().flatten().for_each(|op| apply(&mut durable, op));
            }
            Op::LostSync { file } => {
                pending.remove(file);
            }
            Op::Found { file, gone, .. } => {
                gone.iter().for_each(|file| drop(pending.remove(file)));
                pending.remove(file);
                apply(&mut durable, op);
            }
            Op::Delete { file, synced: true } => {
                pending.remove(file);
                apply(&mut durable, op);
            }
            Op::Create { file }
            | Op::Write { file, .. }
            | Op::Truncate { file, .. }
            | Op::Delete { file, .. } => pending.entry(file.clone()).or_default().push(op.clone()),
        }
    }
    let nothing = random.random_range(0..3) == 0;
    for op in pending.into_values().flatten() {
        if nothing || random.random_range(0..2) == 0 {
            continue;
        }
        match op {
            // A file that never reached the directory is lost.
            Op::Write { file, .. } | Op::Truncate { file, .. } if !durable.contains_key(&file) => {}
            Op::Write { file, offset, bytes } => {
                let sectors = random.random_range(0..=bytes.len() / SECTOR + 1);
                let bytes = bytes[..bytes.len().min(sectors * SECTOR)].to_vec();
                apply(&mut durable, &Op::Write { file, offset, bytes });
            }
            op => apply(&mut durable, &op),
        }
    }
    durable
}

fn apply(files: &mut Files, op: &Op) {
    match op {
        Op::Found { file, bytes, gone } => {
            gone.iter().for_each(|file| drop(files.remove(file)));
            files.insert(file.clone(), bytes.clone());
        }
        Op::Create { file } => drop(files.entry(file.clone()).or_default()),
        Op::Write { file, offset, bytes } => {
            let content = files.entry(file.clone()).or_default();
            let end = offset + bytes.len();
            content.resize(content.len().max(end), 0);
            content[*offset..end].copy_from_slice(bytes);
        }
        Op::Truncate { file, length } => files.entry(file.clone()).or_default().resize(*length, 0),
        Op::Delete { file, .. } => drop(files.remove(file)),
        Op::Sync { .. } | Op::LostSync { .. } => {}
    }
}

/// A file as SQLite sees it; the system's file follows in memory.
#[repr(C)]
struct Shim {
    base: sqlite3_file,
    watched: *mut Watched,
}

struct Watched {
    disk: Arc<Disk>,
    name: String,
}

/// The operating system's file layer of SQLite, below the recording layer.
struct Below(*mut sqlite3_vfs);

// SAFETY: all threads share SQLite's list of file systems, whose entries never move or change.
unsafe impl Send for Below {}
// SAFETY: as above; the pointer is only read after it is set.
unsafe impl Sync for Below {}

static BELOW: std::sync::OnceLock<Below> = std::sync::OnceLock::new();
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Version 2 has no memory-mapped pages, so that every write is recorded.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Registers the recording layer for all connections that this process opens from now on.
fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the system's file layer lives as long as the process. Its description is copied;
        // the changed copy is never freed.
        unsafe {
            let below = sqlite3_vfs_find(ptr::null());
            BELOW.get_or_init(|| Below(below));
            let mut layer = ptr::read(below);
            layer.zName = c"watched".as_ptr();
            layer.szOsFile += size_of::<Shim>() as c_int;
            layer.xOpen = Some(open);
            layer.xDelete = Some(delete);
            assert_eq!(sqlite3_vfs_register(Box::leak(Box::new(layer)), 1), SQLITE_OK);
        }
    });
}

fn below() -> *mut sqlite3_vfs {
    BELOW.get().expect("registered").0
}

/// Returns the path in a file name from SQLite; `None` for a null pointer.
unsafe fn path(name: *const c_char) -> Option<PathBuf> {
    // SAFETY: a name is null or a NUL-terminated string.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    Some(PathBuf::from(name.to_string_lossy().into_owned()))
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes valid arguments and `szOsFile` bytes at `file`.
    unsafe {
        let open = (*below()).xOpen.expect("open");
        let Some((path, (disk, name_on_disk))) =
            path(name).and_then(|path| Some((path.clone(), Disk::of(&path)?)))
        else {
            return open(below(), name, file, flags, out);
        };
        let before = fs::read(&path).ok();
        let shim: *mut Shim = file.cast();
        (*shim).base.pMethods = ptr::null();
        let opened = open(below(), name, real(file), flags, out);
        if opened != SQLITE_OK {
            return opened;
        }
        let mut state = disk.state();
        match before {
            None if flags & SQLITE_OPEN_CREATE != 0 => {
                state.names.insert(name_on_disk.clone());
                state.ops.push(Op::Create { file: name_on_disk.clone() });
            }
            Some(bytes) if !state.names.contains(&name_on_disk) => {
                let is_gone = |name: &String| !disk.dir.join(name).exists();
                let gone: Vec<String> =
                    state.names.iter().filter(|name| is_gone(name)).cloned().collect();
                state.names.retain(|name| !gone.contains(name));
                state.names.insert(name_on_disk.clone());
                state.ops.push(Op::Found { file: name_on_disk.clone(), bytes, gone });
            }
            _ => {}
        }
        drop(state);
        (*shim).watched = Box::into_raw(Box::new(Watched { disk, name: name_on_disk }));
        (*shim).base.pMethods = &METHODS;
        SQLITE_OK
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite passes valid arguments.
    unsafe {
        let delete = (*below()).xDelete.expect("delete");
        let found = path(name).and_then(|path| Disk::of(&path));
        if let Some((disk, _)) = &found
            && disk.state().count(false).is_some()
        {
            return SQLITE_IOERR_DELETE;
        }
        let deleted = delete(below(), name, sync);
        if let Some((disk, file)) = found
            && deleted == SQLITE_OK
        {
            let mut state = disk.state();
            state.names.remove(&file);
            state.ops.push(Op::Delete { file, synced: sync != 0 });
        }
        deleted
    }
}

/// Returns the system's file that belongs to a file as SQLite sees it.
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: the system's file lies behind the shim in the memory that SQLite provides.
    unsafe { file.cast::<Shim>().add(1).cast() }
}

unsafe fn watched<'a>(file: *mut sqlite3_file) -> &'a Watched {
    // SAFETY: the pointer is set when the file is opened, and valid until it is closed.
    unsafe { &*(*file.cast::<Shim>()).watched }
}

/// Calls a method of the system's file that belongs to a file as SQLite sees it.
macro_rules! on_real {
    ($file:ident . $method:ident ( $($argument:expr),* )) => {{
        // SAFETY: the system's file is open as long as the one that SQLite sees.
        unsafe {
            let real = real($file);
            ((*(*real).pMethods).$method.expect("a method"))(real $(, $argument)*)
        }
    }};
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let closed = on_real!(file.xClose());
    // SAFETY: SQLite closes a file once.
    unsafe { drop(Box::from_raw((*file.cast::<Shim>()).watched)) };
    closed
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    to: *mut c_void,
    n: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: open.
    if unsafe { watched(file) }.disk.state().count(true).is_some() {
        return SQLITE_IOERR_READ;
    }
    on_real!(file.xRead(to, n, offset))
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    n: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and SQLite passes `n` bytes.
    let (watched, bytes) =
        unsafe { (watched(file), std::slice::from_raw_parts(from.cast::<u8>(), n as usize)) };
    let mut state = watched.disk.state();
    let failed = state.count(false);
    // A failing write writes half of the data.
    let n = if failed.is_some() { n / 2 } else { n };
    let written = on_real!(file.xWrite(from, n, offset));
    let bytes = bytes[..n as usize].to_vec();
    state.ops.push(Op::Write { file: watched.name.clone(), offset: offset as usize, bytes });
    match failed {
        Some(Kind::Full) => SQLITE_FULL,
        Some(_) => SQLITE_IOERR_WRITE,
        None => written,
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: sqlite3_int64) -> c_int {
    // SAFETY: open.
    let watched = unsafe { watched(file) };
    let mut state = watched.disk.state();
    if state.count(false).is_some_and(|kind| kind == Kind::Write) {
        return SQLITE_IOERR_TRUNCATE;
    }
    let truncated = on_real!(file.xTruncate(length));
    state.ops.push(Op::Truncate { file: watched.name.clone(), length: length as usize });
    truncated
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: open.
    let watched = unsafe { watched(file) };
    let mut state = watched.disk.state();
    if state.count(false).is_some_and(|kind| kind == Kind::Write) {
        state.ops.push(Op::LostSync { file: watched.name.clone() });
        return SQLITE_IOERR_FSYNC;
    }
    state.ops.push(Op::Sync { file: watched.name.clone() });
    // The test's files need not survive the test, so nothing is synced.
    let _ = flags;
    SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut sqlite3_int64) -> c_int {
    on_real!(file.xFileSize(size))
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    on_real!(file.xLock(level))
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    on_real!(file.xUnlock(level))
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    on_real!(file.xCheckReservedLock(out))
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    on_real!(file.xFileControl(op, arg))
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    on_real!(file.xSectorSize())
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    on_real!(file.xDeviceCharacteristics())
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    on_real!(file.xShmMap(page, size, extend, out))
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    offset: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    on_real!(file.xShmLock(offset, n, flags))
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    on_real!(file.xShmBarrier());
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    on_real!(file.xShmUnmap(delete))
}
