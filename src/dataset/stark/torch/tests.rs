//! Tests with files written by torch, and with invalid files of the same structure.

use std::{
    fs,
    io::{Cursor, Write},
    ops::ControlFlow,
    path::PathBuf,
};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{Dtype, Tensor, TorchError, TorchFile, is_allowed, read_integers, read_tensors};
use crate::stark::pickle::{self, Limits, Value};

fn file(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/data/stark/readers");
    fs::read(folder.join(name)).unwrap()
}

fn tensor(bytes: &[u8]) -> Result<Tensor, TorchError> {
    let mut file = TorchFile::open(Cursor::new(bytes))?;
    let view = file.view(&pickle::read_with(&file.pickle, &Limits::default(), is_allowed)?, 0)?;
    file.tensor(&view)
}

fn integers(bytes: &[u8]) -> Result<(Vec<usize>, Vec<i64>), TorchError> {
    let mut elements = Vec::new();
    let shape = read_integers(Cursor::new(bytes), &mut |i| elements.push(i))?;
    Ok((shape, elements))
}

fn items(bytes: &[u8]) -> Result<Vec<(Value, Tensor)>, TorchError> {
    let mut items = Vec::new();
    read_tensors(Cursor::new(bytes), &mut |key, tensor| {
        items.push((key, tensor));
        ControlFlow::Continue(())
    })?;
    Ok(items)
}

/// Returns a torch file with the given members.
fn packed(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(format!("archive/{name}"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Returns a pickle that describes one tensor, by the kind of storage, the number of stored
/// elements, the offset, the shape and the strides; all numbers must be below 256.
fn described(kind: &str, n_stored: u8, offset: u8, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let numbers = |numbers: &[u8]| {
        let inner = numbers.iter().flat_map(|number| [b'K', *number]);
        [b'('].into_iter().chain(inner).chain([b't']).collect::<Vec<u8>>()
    };
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((\x8c\x07storagectorch\n".as_slice(),
        kind.as_bytes(),
        b"\n\x8c\x010\x8c\x03cpuK",
        &[n_stored],
        b"tQK",
        &[offset],
        &numbers(shape),
        &numbers(strides),
        b"\x89ccollections\nOrderedDict\n)RtR.",
    ]
    .concat()
}

fn stored(pickle: &[u8], storage: &[u8]) -> Vec<u8> {
    packed(&[("data.pkl", pickle), ("data/0", storage)], CompressionMethod::Stored)
}

#[test]
fn tensors_of_torch_are_read() {
    let numbers = tensor(&file("numbers.pt")).unwrap();
    assert_eq!((numbers.dtype, numbers.shape.as_slice()), (Dtype::I64, &[2, 3][..]));
    assert_eq!(numbers.to_i64().unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(numbers.to_f32(), None);
    assert_eq!(integers(&file("numbers.pt")).unwrap(), (vec![2, 3], vec![0, 1, 2, 3, 4, 5]));
    let transposed = tensor(&file("transposed.pt")).unwrap();
    assert_eq!(transposed.to_i64().unwrap(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(integers(&file("transposed.pt")).unwrap(), (vec![3, 2], vec![0, 3, 1, 4, 2, 5]));
    assert_eq!(integers(&file("bool.pt")).unwrap(), (vec![2], vec![1, 0]));

    let rows = items(&file("rows.pt")).unwrap();
    let keys: Vec<i64> = rows.iter().filter_map(|(key, _)| key.as_int()).collect();
    assert_eq!(keys, [10, 20, 30]);
    let values: Vec<Vec<f32>> = rows.iter().map(|(_, row)| row.to_f32().unwrap()).collect();
    assert_eq!(values, [vec![0.5, -2.0], vec![1.0, 0.25], vec![0.5, -2.0, 1.0, 0.25]]);
    assert_eq!((rows[2].1.dtype, rows[1].1.shape.as_slice()), (Dtype::Bf16, &[1, 2][..]));
}

#[test]
fn every_type_is_read_in_both_byte_orders() {
    let bytes = [1u8, 0, 0, 0, 0, 0, 0, 0, 0, 0x3c, 0, 0, 0, 0, 0xf0, 0xbf];
    for (kind, dtype, first, last) in [
        ("ByteStorage", Dtype::U8, Some(1), 0xbf as f32),
        ("CharStorage", Dtype::I8, Some(1), -65.0),
        ("ShortStorage", Dtype::I16, Some(1), -16400.0),
        ("IntStorage", Dtype::I32, Some(1), -1_074_790_400.0),
        ("LongStorage", Dtype::I64, Some(1), -4_616_189_618_054_742_016.0),
        ("BoolStorage", Dtype::Bool, Some(1), 1.0),
        ("HalfStorage", Dtype::F16, None, -1.984375),
        ("BFloat16Storage", Dtype::Bf16, None, -1.875),
        ("FloatStorage", Dtype::F32, None, -1.875),
        ("DoubleStorage", Dtype::F64, None, -1.0),
    ] {
        let n = (bytes.len() / dtype.bytes()) as u8;
        let pickle = described(kind, n, 0, &[n], &[1]);
        let little = tensor(&stored(&pickle, &bytes)).unwrap();
        assert_eq!(little.dtype, dtype);
        let mut swapped = bytes;
        swapped.chunks_exact_mut(dtype.bytes()).for_each(<[u8]>::reverse);
        let members: [(&str, &[u8]); 3] =
            [("data.pkl", &pickle), ("data/0", &swapped), ("byteorder", b"big")];
        assert_eq!(tensor(&packed(&members, CompressionMethod::Stored)).unwrap(), little);
        if let Some(integers) = little.to_i64() {
            assert_eq!(integers.first().copied(), first, "{kind}");
            assert_eq!(*integers.last().unwrap() as f32, last, "{kind}");
        } else {
            assert_eq!((*little.to_f32().unwrap().last().unwrap(), first), (last, None), "{kind}");
        }
    }
}

#[test]
fn a_tensor_must_fit_its_storage() {
    let ok = described("ByteStorage", 6, 1, &[2, 2], &[3, 1]);
    assert_eq!(tensor(&stored(&ok, &[0, 1, 2, 3, 4, 5])).unwrap().to_i64().unwrap(), [1, 2, 4, 5]);
    for (pickle, reason) in [
        (described("ByteStorage", 6, 2, &[2, 2], &[4, 1]), "beyond"),
        (described("ByteStorage", 6, 6, &[1], &[1]), "beyond"),
        (described("ByteStorage", 6, 7, &[0], &[1]), "beyond"),
        (described("ByteStorage", 6, 0, &[200, 200, 200], &[0, 0, 0]), "beyond"),
        (described("ByteStorage", 7, 0, &[7], &[1]), "size of its storage"),
        (described("LongStorage", 6, 0, &[6], &[1]), "size of its storage"),
        (described("ByteStorage", 6, 0, &[6], &[]), "not a plain tensor"),
        (described("OddStorage", 6, 0, &[6], &[1]), "OddStorage"),
        (described("ByteStorage", 6, 0, &[1; 20], &[1; 20]), "not a plain tensor"),
        (b"N.".to_vec(), "not a plain tensor"),
        (b"cos\nsystem\n.".to_vec(), "os.system"),
    ] {
        let error = tensor(&stored(&pickle, &[0; 6])).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let members: [(&str, &[u8]); 2] = [("data.pkl", &ok), ("data/0", &[0; 6])];
    let deflated = tensor(&packed(&members, CompressionMethod::Deflated)).unwrap_err();
    assert!(deflated.to_string().contains("compressed"), "{deflated}");
    let without = tensor(&packed(&members[..1], CompressionMethod::Stored)).unwrap_err();
    assert!(without.to_string().contains("data/0"), "{without}");
    for (bytes, reason) in [
        (file("legacy.pt"), "not a zip file"),
        (packed(&[("x", b"y")], CompressionMethod::Stored), "no data.pkl"),
    ] {
        let error = tensor(&bytes).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_file_cut_off_or_changed_anywhere_is_safe() {
    let bytes = file("rows.pt");
    for end in 0..bytes.len() {
        assert!(items(&bytes[..end]).is_err(), "{end}");
    }
    let mut bytes = bytes;
    for at in 0..bytes.len() {
        let before = bytes[at];
        for byte in [0, 1, 0x7f, 0xff, before ^ 1, before ^ 0x80] {
            bytes[at] = byte;
            if let Ok(items) = items(&bytes) {
                assert!(items.iter().all(|(_, tensor)| tensor.data.len() <= 16));
            }
        }
        bytes[at] = before;
    }
}
