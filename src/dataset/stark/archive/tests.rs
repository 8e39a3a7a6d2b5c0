//! Tests with valid archives and with malformed ones.

use std::{
    fs::{self, File},
    io::{Cursor, Read, Write},
};

use tempfile::TempDir;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{Archive, ArchiveError, ArchiveLimits, Members};

/// Returns a zip file with the given members, deflated.
fn packed(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A member with the values of its entry in the list and of its local header; the values may be
/// wrong.
struct Raw<'a> {
    name: &'a [u8],
    data: &'a [u8],
    size: u32,
    crc: u32,
    method: u16,
    flags: u16,
    /// Unix file mode.
    mode: u32,
}

impl Default for Raw<'_> {
    /// Returns a member that is an empty stored file.
    fn default() -> Self {
        Raw { name: b"a", data: b"", size: 0, crc: 0, method: 0, flags: 0, mode: 0o100_644 }
    }
}

/// Builds a zip file byte by byte; if `overlap`, all members share the header of the first.
fn raw(members: &[Raw<'_>], overlap: bool) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let header = if overlap { 0 } else { bytes.len() as u32 };
        let mut common = Vec::new();
        for field in [20, member.flags, member.method, 0, 0x21] {
            common.extend(field.to_le_bytes());
        }
        for field in [member.crc, member.data.len() as u32, member.size] {
            common.extend(field.to_le_bytes());
        }
        common.extend((member.name.len() as u32).to_le_bytes());
        if header as usize == bytes.len() {
            bytes.extend(b"PK\x03\x04");
            bytes.extend(&common);
            bytes.extend(member.name);
            bytes.extend(member.data);
        }
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((member.mode << 16).to_le_bytes());
        directory.extend(header.to_le_bytes());
        directory.extend(member.name);
    }
    let start = bytes.len() as u32;
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend((members.len() as u16).to_le_bytes());
    bytes.extend((members.len() as u16).to_le_bytes());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

fn members(bytes: &[u8]) -> Result<Members, ArchiveError> {
    Members::read(&mut Cursor::new(bytes), &ArchiveLimits::default())
}

/// Reads all members to their ends; each may have at most 1 MiB.
fn read_all(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let members = members(bytes).map_err(|error| error.to_string())?;
    let read = |member: &super::Member| {
        let reader = member.open(Cursor::new(bytes)).map_err(|error| error.to_string())?;
        let mut content = Vec::new();
        reader.take(1 << 20).read_to_end(&mut content).map_err(|error| error.to_string())?;
        Ok(content)
    };
    members.iter().map(read).collect()
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[test]
fn names_below_the_folder_itself_are_those_without_it() {
    let bytes = packed(&[("./processed/a.pt", b"tensor"), ("b", b"x")]);
    let members = members(&bytes).unwrap();
    assert!(members.iter().map(|member| &*member.name).eq(["b", "processed/a.pt"]));
    assert_eq!(read_all(&bytes).unwrap(), [&b"x"[..], b"tensor"]);
    // Both names denote the same member.
    let twice = packed(&[("./b", b"x"), ("b", b"x")]);
    assert!(Members::read(&mut Cursor::new(twice), &ArchiveLimits::default()).is_err());
}

#[test]
fn a_folder_and_its_zip_file_are_the_same_source() {
    let dir = TempDir::new().unwrap();
    let content: [(&str, &[u8]); 3] =
        [("b.pt", b"tensor"), ("cache/x/a.pkl", &[7; 100_000]), ("empty", b"")];
    let folder = dir.path().join("folder");
    fs::create_dir_all(folder.join("cache/x")).unwrap();
    for (name, bytes) in content {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let zip = dir.path().join("folder.zip");
    fs::write(&zip, packed(&content)).unwrap();
    for place in [folder, zip] {
        let archive = Archive::open(&place, &ArchiveLimits::default()).unwrap();
        let listed: Vec<(&str, u64)> = archive.files().collect();
        assert_eq!(listed, content.map(|(name, bytes)| (name, bytes.len() as u64)));
        for (name, expected) in content {
            let (mut streamed, mut seekable) = (Vec::new(), Vec::new());
            archive.read(name).unwrap().read_to_end(&mut streamed).unwrap();
            let mut file: File = archive.seekable(name, dir.path()).unwrap();
            file.read_to_end(&mut seekable).unwrap();
            assert!(streamed == expected && seekable == expected, "{name}");
        }
        assert_eq!(archive.size("b.pt"), Some(6));
        for name in ["c", "../folder/b.pt", "cache"] {
            assert!(matches!(archive.read(name), Err(ArchiveError::Missing { .. })), "{name}");
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn names_that_lead_elsewhere_links_and_twins_are_refused() {
    assert_eq!(read_all(&raw(&[Raw::default()], false)).unwrap(), [b""]);
    let long = [b'n'; 2000];
    for name in [
        &b"../a"[..],
        b"/a",
        b"a/../../b",
        b"a\\b",
        b"c:a",
        b"a\0b",
        b".",
        b"",
        b"a//b",
        &long,
        b"../folder/",
    ] {
        let error = members(&raw(&[Raw { name, ..Raw::default() }], false)).unwrap_err();
        assert!(error.to_string().contains("plain relative path"), "{error}");
    }
    for (member, reason) in [
        (Raw { mode: 0o120_777, ..Raw::default() }, "is a link"),
        (Raw { flags: 1, ..Raw::default() }, "encrypted"),
        (Raw { method: 12, ..Raw::default() }, "neither stored nor deflated"),
        (Raw { size: 5, ..Raw::default() }, "sizes differ"),
        (Raw { size: 1 << 31, method: 8, data: &[0; 1000], ..Raw::default() }, "far more bytes"),
    ] {
        let error = members(&raw(&[member], false)).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    let twins = [Raw::default(), Raw::default()];
    assert!(members(&raw(&twins, false)).unwrap_err().to_string().contains("occurs twice"));
    let sharing = [Raw::default(), Raw { name: b"b", ..Raw::default() }];
    assert!(members(&raw(&sharing, true)).unwrap_err().to_string().contains("overlaps"));
}

#[test]
fn members_that_are_not_what_the_list_says_end_in_an_error() {
    let text = b"text that is long enough";
    let size = text.len() as u32;
    let honest = || Raw { data: text, size, crc: crc(text), ..Raw::default() };
    assert_eq!(read_all(&raw(&[honest()], false)).unwrap(), [text]);
    let other = read_all(&raw(&[Raw { crc: 1, ..honest() }], false)).unwrap_err();
    assert!(other.contains("checksum"), "{other}");

    let mut deflated = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
    deflated.write_all(text).unwrap();
    let deflated = deflated.finish().unwrap();
    let honest = || Raw { data: &deflated, size, method: 8, crc: crc(text), ..Raw::default() };
    assert_eq!(read_all(&raw(&[honest()], false)).unwrap(), [text]);
    for (size, reason) in [(size - 1, "more bytes"), (size + 1, "fewer bytes"), (0, "more bytes")] {
        let error = read_all(&raw(&[Raw { size, ..honest() }], false)).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
    let no_data = Raw { data: text, ..honest() };
    let error = read_all(&raw(&[no_data], false)).unwrap_err();
    assert!(error.contains("damaged"), "{error}");
    // 8 MiB of zeros, although the list declares 100 bytes.
    let mut bomb = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
    bomb.write_all(&vec![0; 8 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    let lying = Raw { data: &bomb, size: 100, method: 8, ..Raw::default() };
    assert!(read_all(&raw(&[lying], false)).unwrap_err().contains("more bytes"));
}

#[test]
fn limits_are_met_before_anything_is_unpacked() {
    let bytes = packed(&[("a", &[1; 600]), ("b", &[2; 600]), ("c", b"")]);
    let enough = ArchiveLimits { members: 3, member_bytes: 600, total_bytes: 1200, ratio: 1 };
    let read = |limits| Members::read(&mut Cursor::new(&bytes), &limits).map(drop);
    read(enough).unwrap();
    for (limits, expected) in [
        (ArchiveLimits { members: 2, ..enough }, "members"),
        (ArchiveLimits { member_bytes: 599, ..enough }, "bytes in one member"),
        (ArchiveLimits { total_bytes: 1199, ..enough }, "bytes in all members"),
    ] {
        let error = read(limits).unwrap_err();
        assert!(matches!(error, ArchiveError::TooMuch { unit, .. } if unit == expected), "{error}");
    }
    // The list declares more members than it can hold.
    let mut lying = raw(&[Raw::default()], false);
    let count = lying.len() - 12;
    lying[count - 2..count + 2].fill(0xfe);
    assert!(members(&lying).is_err());
}

#[test]
fn a_zip_file_cut_off_or_changed_anywhere_is_safe() {
    let bytes = packed(&[("a.pkl", b"first content"), ("folder/b.pt", &[9; 300])]);
    for end in 0..bytes.len() {
        assert!(read_all(&bytes[..end]).is_err(), "{end}");
    }
    let mut bytes = bytes;
    for at in 0..bytes.len() {
        let before = bytes[at];
        for byte in [0, 1, 0x7f, 0xff, before ^ 1, before ^ 0x80] {
            bytes[at] = byte;
            if let Ok(contents) = read_all(&bytes) {
                assert!(contents.iter().map(Vec::len).sum::<usize>() <= 313);
            }
        }
        bytes[at] = before;
    }
}
