//! Packed files arrive unchanged; altered tarballs are refused.

use super::*;

const FILES: [(&str, &str); 3] = [("b/c.txt", "two"), ("a", ""), ("b/d/e", "three")];

/// Creates a directory with files. Returns each file's path in the tarball and its path on disk.
fn given(dir: &Path) -> Vec<(String, PathBuf)> {
    let file = |(path, text): (&str, &str)| {
        let place = dir.join(path.replace('/', "-"));
        fs::write(&place, text).unwrap();
        (path.to_owned(), place)
    };
    FILES.map(file).to_vec()
}

fn packed(dir: &Path, name: &str) -> PathBuf {
    let to = dir.join(name);
    pack(&to, false, given(dir), &mut watch(&mut |_| {})).unwrap();
    to
}

fn watch(on_bytes: &mut dyn FnMut(u64)) -> Watch<'_> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    Watch { on_bytes, stop: &NEVER }
}

fn unpacked(tarball: &Path, into: Option<&Path>) -> Result<(), TarballError> {
    Tarball::open(tarball)?.unpack(into, &mut watch(&mut |_| {}))
}

/// Writes a compressed file with these bytes as its tar content, valid or not, and returns its
/// path.
fn written(dir: &Path, tar: &[u8]) -> PathBuf {
    let path = dir.join("written");
    fs::write(&path, zstd::encode_all(tar, LEVEL).unwrap()).unwrap();
    path
}

/// Returns the bytes of a manifest that lists these files, padded to whole blocks.
fn manifest(members: &[(&str, &[u8])]) -> Vec<u8> {
    let member = |(path, content): &(&str, &[u8])| Member {
        path: (*path).to_owned(),
        bytes: content.len() as u64,
        blake3: hex(blake3::hash(content)),
    };
    let files = members.iter().map(member).collect();
    let manifest = Manifest { format: FORMAT.to_owned(), files };
    entry(MANIFEST, &serde_json::to_vec(&manifest).unwrap())
}

fn entry(path: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u64;
    [&header(path, length).unwrap(), content, &vec![0; padding(length)]].concat()
}

#[test]
fn what_is_packed_is_unpacked_and_equal_files_give_equal_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (packed(dir.path(), "one"), packed(dir.path(), "two"));
    assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
    let members = Tarball::open(&one).unwrap().members().to_vec();
    assert_eq!(members.iter().map(|member| member.bytes).collect::<Vec<_>>(), [0, 3, 5]);
    unpacked(&one, None).unwrap();
    let into = dir.path().join("into");
    fs::create_dir(&into).unwrap();
    unpacked(&one, Some(&into)).unwrap();
    for (path, text) in FILES {
        assert_eq!(fs::read_to_string(into.join(path)).unwrap(), text, "{path}");
    }
}

#[test]
fn a_tarball_appears_whole_and_replaces_none_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let one = packed(dir.path(), "one");
    let before = fs::read(&one).unwrap();
    let mut files = given(dir.path());
    files.pop();
    let error = pack(&one, false, files.clone(), &mut watch(&mut |_| {})).unwrap_err();
    assert!(matches!(error, TarballError::Io { .. }), "{error}");
    let stop = AtomicBool::new(false);
    let mut on_bytes = |_| stop.store(true, Ordering::Relaxed);
    let mut stopping = Watch { on_bytes: &mut on_bytes, stop: &stop };
    let error = pack(&one, true, files.clone(), &mut stopping).unwrap_err();
    assert!(matches!(error, TarballError::Stopped), "{error}");
    assert_eq!(fs::read(&one).unwrap(), before);
    pack(&one, true, files, &mut watch(&mut |_| {})).unwrap();
    assert_ne!(fs::read(&one).unwrap(), before);
    let left = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_str().unwrap().starts_with('.')));
}

#[test]
fn a_file_that_changes_meanwhile_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let files = given(dir.path());
    let place = files[0].1.clone();
    let mut seen = 0;
    let mut on_bytes = |n| {
        seen += n;
        // All were read once.
        if seen == 8 {
            fs::write(&place, "2222").unwrap();
        }
    };
    let error = pack(&dir.path().join("to"), false, files, &mut watch(&mut on_bytes)).unwrap_err();
    assert!(matches!(&error, TarballError::Changed { path } if *path == place), "{error}");
    assert!(!dir.path().join("to").exists());
}

#[test]
fn any_byte_that_is_wrong_or_missing_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let whole = fs::read(packed(dir.path(), "one")).unwrap();
    let other = dir.path().join("other");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        fs::write(&other, &bytes).unwrap();
        assert!(unpacked(&other, None).is_err(), "byte {at} of {}", whole.len());
        fs::write(&other, &whole[..at]).unwrap();
        assert!(unpacked(&other, None).is_err(), "{at} bytes of {}", whole.len());
    }
    fs::write(&other, [whole.as_slice(), b"more"].concat()).unwrap();
    assert!(unpacked(&other, None).is_err());
}

#[test]
fn no_path_leads_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("a/{}", "x".repeat(NAME_BYTES + 1));
    for path in
        ["../out", "/etc/out", "a/../out", "a//b", "a/.b", ".", "", "a\\b", "C:b", "a\nb", &long]
    {
        assert!(is_bad(path), "{path}");
        let error = pack(
            &dir.path().join("to"),
            false,
            vec![(path.to_owned(), dir.path().to_owned())],
            &mut watch(&mut |_| {}),
        );
        assert!(matches!(error, Err(TarballError::BadPath { .. })), "{path}");
    }
    let error = unpacked(&written(dir.path(), &manifest(&[("../out", b"x")])), Some(dir.path()));
    let error = error.unwrap_err();
    assert!(error.to_string().contains("\"../out\" may lead out"), "{error}");
    // Long directories before a name are allowed.
    assert!(!is_bad(&format!("{}/{}", "x".repeat(PREFIX_BYTES), "y".repeat(NAME_BYTES))));
}

#[test]
fn what_stands_behind_the_manifest_is_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("into");
    fs::create_dir(&into).unwrap();
    let end = [0; END_BLOCKS * BLOCK];
    let told: [(&str, &[u8]); 1] = [("a", b"abc")];
    let with = |behind: &[u8]| written(dir.path(), &[&manifest(&told), behind, &end].concat());
    unpacked(&with(&entry("a", b"abc")), None).unwrap();
    let mut link = header("a", 3).unwrap();
    link[156] = b'2';
    for (what, behind) in [
        ("a link", [&link[..], b"abc", &[0; 509]].concat()),
        ("a longer file", entry("a", b"abcd")),
        ("another file", entry("b", b"abc")),
        ("other bytes", entry("a", b"abd")),
        ("one more file", [entry("a", b"abc"), entry("b", b"")].concat()),
        ("no file", Vec::new()),
    ] {
        let error = unpacked(&with(&behind), None).unwrap_err();
        assert!(matches!(error, TarballError::Damaged { .. }), "{what}: {error}");
    }
    let twice = manifest(&[("a", b"abc"), ("a", b"abc")]);
    assert!(matches!(
        Tarball::open(&written(dir.path(), &twice)),
        Err(TarballError::Damaged { .. })
    ));
    let foreign = written(dir.path(), &entry("other.json", b"{}"));
    assert!(matches!(Tarball::open(&foreign), Err(TarballError::NotATarball { .. })));
}

#[test]
fn lengths_beyond_eight_gibibytes_have_a_header() {
    let (small, large) = (header("a", (1 << 33) - 1).unwrap(), header("a", 1 << 33).unwrap());
    assert_eq!(&small[124..136], b"77777777777\0");
    assert_eq!(&large[124..136], [0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
}
