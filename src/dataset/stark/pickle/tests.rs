//! Tests with pickles written by Python in every protocol, and with malformed or malicious pickles.

use std::{fs, ops::ControlFlow, path::PathBuf, sync::Arc};

use proptest::prelude::*;

use super::{Limits, PickleError, Value, read, read_dict};

const TIGHT: Limits =
    Limits { file_bytes: 1 << 20, string_bytes: 4096, memory_bytes: 1 << 20, depth: 16 };

fn file(protocol: u8) -> Vec<u8> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/data/stark/readers");
    fs::read(folder.join(format!("values-{protocol}.pkl"))).unwrap()
}

fn text(text: &str) -> Value {
    Value::Str(text.into())
}

fn list(values: impl IntoIterator<Item = Value>) -> Value {
    Value::List(values.into_iter().collect())
}

fn ints(values: impl IntoIterator<Item = i64>) -> Arc<[Value]> {
    values.into_iter().map(Value::Int).collect()
}

/// Returns the items that [`read_dict`] passes on.
fn items(bytes: &[u8], limits: &Limits) -> Result<Vec<(Value, Value)>, PickleError> {
    let mut items = Vec::new();
    read_dict(|| Ok(bytes), limits, &mut |key, value| {
        items.push((key, value));
        ControlFlow::Continue(())
    })?;
    Ok(items)
}

#[test]
fn every_protocol_of_python_gives_the_same_values() {
    let matrix = || list([Value::List(ints([0, 1, 2])), Value::List(ints([3, 4, 5]))]);
    for protocol in 0..=5 {
        let value = read(&file(protocol), &Limits::default()).unwrap();
        let plain = [0, -1, 255, 256, 65536, 1 << 31, i64::MAX, i64::MIN];
        let first = [Value::None, Value::Bool(true), Value::Bool(false)];
        let plain = list(first.into_iter().chain(plain.map(Value::Int)));
        assert_eq!(value.get("plain"), Some(&plain), "protocol {protocol}");
        let floats = list([0.5, -0.0, f64::INFINITY, 1e300].map(Value::Float));
        assert_eq!(value.get("floats"), Some(&floats));
        assert!(matches!(value.get("nan"), Some(Value::Float(nan)) if nan.is_nan()));
        let long = "x".repeat(260);
        let texts = ["", "naïve ☃ 😀", "line\nfeed \\u0041 back\\slash", &long];
        assert_eq!(value.get("text"), Some(&list(texts.map(text))), "protocol {protocol}");
        let bytes = [&b""[..], b"\x00\xff\n", b"abc"].map(|bytes| Value::Bytes(bytes.into()));
        assert_eq!(value.get("bytes"), Some(&list(bytes)));
        let tuples = list((0..5).map(|n| Value::Tuple(ints(1..=n))));
        assert_eq!(value.get("tuples"), Some(&tuples));
        let sets = [ints([]), ints([1]), ints([2])].map(Value::Set);
        assert_eq!(value.get("sets"), Some(&list(sets)));
        let ordered = [(text("b"), Value::Int(1)), (text("a"), Value::Int(2))];
        assert_eq!(value.get("ordered"), Some(&Value::Dict(ordered.into())));
        let default = [(text("k"), Value::List(ints([1])))];
        assert_eq!(value.get("default"), Some(&Value::Dict(default.into())));
        let shared = || text("shared text");
        let expected = list([shared(), shared(), list([shared()])]);
        assert_eq!(value.get("shared"), Some(&expected));
        let scalars = [
            Value::Int(-5),
            Value::Int(7),
            Value::Single(0.25),
            Value::Float(2.5),
            Value::Bool(true),
            text("ab☃"),
        ];
        assert_eq!(value.get("scalars"), Some(&list(scalars)));
        let arrays = [
            matrix(),
            matrix(),
            list([1.5, 2.5].map(Value::Single)),
            list([text("o"), Value::None]),
            list([]),
            Value::Int(7),
        ];
        assert_eq!(value.get("arrays"), Some(&list(arrays)), "protocol {protocol}");
        let Value::Dict(whole) = &value else { panic!("{value:?}") };
        assert_eq!(whole.len(), 13);
        let streamed = items(&file(protocol), &Limits::default()).unwrap();
        assert_eq!(format!("{streamed:?}"), format!("{whole:?}"), "protocol {protocol}");
    }
}

#[test]
fn a_file_that_ends_anywhere_is_truncated() {
    for protocol in [0, 2, 5] {
        let bytes = file(protocol);
        for end in 0..bytes.len() {
            let error = read(&bytes[..end], &Limits::default()).unwrap_err();
            assert!(
                matches!(error, PickleError::Truncated { offset } if offset <= end as u64),
                "protocol {protocol}, {end}: {error}"
            );
        }
    }
}

#[test]
fn any_byte_may_be_another() {
    for protocol in [0, 4] {
        let mut bytes = file(protocol);
        for at in 0..bytes.len() {
            let before = bytes[at];
            // All values for the first bytes, a selection for later bytes.
            for byte in (0..=255).step_by(if at < 32 { 1 } else { 51 }) {
                bytes[at] = byte;
                let _ = read(&bytes, &TIGHT);
            }
            bytes[at] = before;
        }
    }
}

#[test]
fn what_is_not_plain_is_refused_by_name() {
    let call: &[u8] = b"cos\nsystem\n(S'ls'\ntR.";
    let new_style = b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02ls\x85R.";
    for (bytes, name) in [(call, "os.system"), (new_style, "posix.system")] {
        // Python 2 strings of protocol 0 are not supported and may fail before the name is read.
        match read(bytes, &Limits::default()).unwrap_err() {
            PickleError::Global { name: found, .. } => assert_eq!(found, name),
            PickleError::Opcode { opcode: b'S', .. } => assert_eq!(name, "os.system"),
            error => panic!("{error}"),
        }
    }
    for opcode in [b'i', b'o', b'P', b'S', 0x81, 0x82, 0x83, 0x84, 0x92, 0x97, 0x98, 0xff] {
        let error = read(&[b'N', opcode, b'.'], &Limits::default()).unwrap_err();
        assert!(matches!(error, PickleError::Opcode { opcode: o, offset: 2 } if o == opcode));
    }
    let error = read(b"N\x51.", &Limits::default()).unwrap_err();
    assert!(matches!(error, PickleError::Global { name, .. } if name == "persistent"));
    // Supported calls with invalid arguments are refused.
    for bytes in [
        &b"cbuiltins\nset\nN\x85R."[..],
        b"cbuiltins\nint\nK\x01\x85R.",
        b"c_codecs\nencode\n\x8c\x01aK\x01\x86R.",
        b"cnumpy\ndtype\n)Rb.",
        b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n\x8c\x02i8\x85RC\x01x\x86R.",
        b"K\x01)R.",
    ] {
        let error = read(bytes, &Limits::default()).unwrap_err();
        assert!(matches!(error, PickleError::Malformed { .. }), "{bytes:?}: {error}");
    }
}

#[test]
fn integers_beyond_64_bits_are_kept_as_text() {
    for (bytes, expected) in [
        (&b"\x8a\x00."[..], Ok(0)),
        (b"\x8a\x01\xff.", Ok(-1)),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x00.", Ok(i64::MAX)),
        (b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", Ok(i64::MIN)),
        (b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.", Err("9223372036854775808")),
        (b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff.", Err("-9223372036854775809")),
        (b"L9223372036854775807L\n.", Ok(i64::MAX)),
        (b"L9223372036854775808L\n.", Err("9223372036854775808")),
        (b"I-7\n.", Ok(-7)),
    ] {
        match (read(bytes, &Limits::default()).unwrap(), expected) {
            (Value::Printed(printed), Err(text)) => assert_eq!(&*printed.text, text),
            (value, expected) => assert_eq!(Ok(value), expected.map(Value::Int), "{bytes:?}"),
        }
    }
    let long = [b"\x8b", &1_787u32.to_le_bytes()[..], &[1; 1_787], b"."].concat();
    for bytes in [&long[..], b"I1x\n."] {
        let error = read(bytes, &Limits::default()).unwrap_err();
        assert!(matches!(error, PickleError::Integer { .. }), "{error}");
    }
}

/// The expected values are written and printed by Python 3.11 with numpy 1.26.4 and pandas.
#[test]
fn numbers_dates_and_ranges_that_are_not_plain_are_kept_as_text() {
    let scalar = |code: &str, state: &[u8], bytes: &[u8]| {
        let mut file = b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n\x8c".to_vec();
        file.push(code.len() as u8);
        file.extend([code.as_bytes(), b"\x85R(K\x03\x8c\x01<NNNJ\xff\xff\xff\xff"].concat());
        file.extend([b"J\xff\xff\xff\xffK\x00", state, b"tbC"].concat());
        file.push(bytes.len() as u8);
        file.extend([bytes, b"\x86R."].concat());
        file
    };
    let days = b"N(C\x01DK\x01K\x01K\x01t\x86";
    let timestamp = b"cpandas._libs.tslibs.timestamps\n_unpickle_timestamp\n";
    let timestamp = |zone: &[u8]| {
        [timestamp, &b"(\x8a\x07\xb8\xd3\x28\x72\x1f\x9b\x05N"[..], zone, b"K\x09tR."].concat()
    };
    for (bytes, text, repr) in [
        (b"cbuiltins\ncomplex\nG?\xf0\0\0\0\0\0\0G@\0\0\0\0\0\0\0\x86R.".to_vec(), "(1+2j)", ""),
        (b"cbuiltins\nrange\nK\x00K\x03K\x01\x87R.".to_vec(), "range(0, 3)", ""),
        (scalar("u8", b"", &[0, 0, 0, 0, 0, 0, 0, 0x80]), "9223372036854775808", ""),
        (scalar("c8", b"", b"\0\0\x80?\xcd\xcc\xcc="), "(1+0.10000000149011612j)", "(1+0.1j)"),
        (scalar("M8", days, b"WG\0\0\0\0\0\0"), "2020-01-02", "numpy.datetime64('2020-01-02')"),
        (timestamp(b"N"), "2020-01-02 03:04:05.123000", "Timestamp('2020-01-02 03:04:05.123000')"),
    ] {
        let value = read(&bytes, &Limits::default()).unwrap();
        let Value::Printed(printed) = &value else { panic!("{value:?}") };
        let repr = if repr.is_empty() { text } else { repr };
        assert_eq!((&*printed.text, &*printed.repr), (text, repr));
        assert_eq!(list([value.clone(), Value::None, value]).n_printed(), 2);
    }
    // An error names the type of a value that cannot be printed.
    for (bytes, name) in
        [(scalar("f16", b"", &[0; 16]), "\"f16\""), (timestamp(b"K\x01"), "with a time zone")]
    {
        let error = read(&bytes, &Limits::default()).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("damaged"), "{error}");
    }
}

#[test]
fn a_lone_surrogate_becomes_one_replacement() {
    let bytes = b"X\x05\0\0\0a\xed\xa0\x80b.";
    assert_eq!(read(bytes, &Limits::default()).unwrap(), text("a\u{fffd}b"));
}

#[test]
fn lengths_and_slots_that_lie_allocate_nothing() {
    let eight = |opcode: u8| [&[opcode][..], &(u64::MAX >> 1).to_le_bytes(), b"."].concat();
    let four = |opcode: u8| [&[opcode][..], &0xffff_ffffu32.to_le_bytes(), b"."].concat();
    for bytes in
        [eight(0x8d), eight(0x8e), eight(0x96), four(b'X'), four(b'B'), four(b'T'), four(0x8b)]
    {
        let error = read(&bytes, &Limits::default()).unwrap_err();
        // The first pass skips the payload, and finds the end of the file.
        assert!(matches!(error, PickleError::Truncated { .. }), "{bytes:?}: {error}");
    }
    // A wrong length of a frame is ignored.
    let framed = [&[0x80, 4, 0x95][..], &u64::MAX.to_le_bytes(), b"N."].concat();
    assert_eq!(read(&framed, &Limits::default()).unwrap(), Value::None);
    // A high slot number takes no more memory than slot 0.
    let far = b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff.";
    assert_eq!(read(far, &Limits::default()).unwrap(), Value::None);
    for bytes in [&b"h\x00."[..], b"Nq\x01h\x00.", b"p5000000000\n.", b"q\x00.", b"(q\x00h\x00."] {
        let error = read(bytes, &Limits::default()).unwrap_err();
        assert!(matches!(error, PickleError::Malformed { .. }), "{bytes:?}: {error}");
    }
}

#[test]
fn bombs_meet_a_limit() {
    let too_much = |bytes: &[u8], expected: &str| {
        for result in [read(bytes, &TIGHT).map(drop), items(bytes, &TIGHT).map(drop)] {
            match result {
                Err(PickleError::TooMuch { unit, .. }) => assert_eq!(unit, expected),
                other => panic!("{other:?}"),
            }
        }
    };
    // Forty nested pairs of the previous pair: small in memory, but 2^40 values written out.
    let doubled = [b"N".to_vec(), b"2\x86".repeat(40), b".".to_vec()].concat();
    let error = read(&doubled, &Limits::default()).unwrap_err();
    assert!(matches!(error, PickleError::TooMuch { unit: "bytes held", .. }), "{error}");
    let flat: Vec<u8> = [b"(".to_vec(), b"N2".repeat(100_000), b"l.".to_vec()].concat();
    too_much(&flat, "bytes held");
    too_much(&[b"]".repeat(100), b"a".repeat(99), b".".to_vec()].concat(), "levels of nesting");
    too_much(
        &[b"N".to_vec(), b"\x85".repeat(100_000), b".".to_vec()].concat(),
        "levels of nesting",
    );
    too_much(&[b"(".repeat(100_000), b".".to_vec()].concat(), "bytes held");
    let puts: Vec<u8> = (0..100_000u32)
        .flat_map(|slot| [&b"j"[..], &slot.to_le_bytes()].concat())
        .chain(*b".")
        .collect();
    too_much(&puts, "bytes of memo");
    let text = [&b"X"[..], &5000u32.to_le_bytes(), &[b'a'; 5000], b"."].concat();
    too_much(&text, "bytes in one text");
    let line = [&b"V"[..], &[b'a'; 5000], b"\n."].concat();
    too_much(&line, "bytes in one line");
    too_much(&[b"N0".repeat(1 << 20), b"N.".to_vec()].concat(), "bytes");
    // An array whose shape does not fit its bytes, or with too many dimensions.
    let array = |shape: &[u8], bytes: &[u8]| {
        [
            b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01".as_slice(),
            shape,
            b"cnumpy\ndtype\n\x8c\x02i8\x85R\x89",
            bytes,
            b"tb\x85.",
        ]
        .concat()
    };
    for shape in
        [&b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"[..], b"K\x01\x85", b"J\xff\xff\xff\xff\x85"]
    {
        let error = read(&array(shape, b"C\x00"), &TIGHT).unwrap_err();
        assert!(matches!(error, PickleError::Malformed { .. }), "{error}");
    }
    let shape = [&b"("[..], &b"K\x01".repeat(50), b"t"].concat();
    let error = read(&array(&shape, b"C\x08aaaaaaaa"), &TIGHT).unwrap_err();
    assert!(matches!(error, PickleError::TooMuch { unit: "levels of nesting", .. }), "{error}");
}

#[test]
fn a_value_that_contains_itself_is_an_error() {
    for bytes in [&b"]q\x00h\x00a."[..], b"}q\x00K\x01h\x00s."] {
        let error = read(bytes, &Limits::default()).unwrap_err();
        assert!(matches!(error, PickleError::Cycle { .. }), "{error}");
    }
}

#[test]
fn memory_does_not_grow_with_the_items() {
    // Ten thousand items of 100 bytes, batches of one, and a value that all of them share.
    let mut bytes = b"}\x8c\x06sharedq\x000".to_vec();
    for item in 0..10_000u32 {
        bytes.extend(b"J");
        bytes.extend(item.to_le_bytes());
        bytes.extend(b"]q\x01(h\x00\x8c\x64");
        bytes.extend([b'x'; 100]);
        bytes.extend(b"es");
    }
    bytes.extend(b".");
    let small = Limits { memory_bytes: 4096, file_bytes: 10 << 20, ..TIGHT };
    let items = items(&bytes, &small).unwrap();
    assert_eq!(items.len(), 10_000);
    assert_eq!(items[9_999].0, Value::Int(9_999));
    assert_eq!(items[9_999].1, list([text("shared"), text(&"x".repeat(100))]));
    assert!(matches!(read(&bytes, &small), Err(PickleError::TooMuch { .. })));
}

#[test]
fn a_dict_is_asked_for() {
    for bytes in [&b"N."[..], b"]."] {
        assert!(matches!(items(bytes, &Limits::default()), Err(PickleError::NoDict)));
    }
    assert_eq!(items(b"}.", &Limits::default()).unwrap(), []);
    let pairs = [(Value::Int(1), Value::None), (Value::Int(2), Value::None)];
    assert_eq!(items(b"(K\x01NK\x02Nd.", &Limits::default()).unwrap(), pairs);
    let mut n = 0;
    let broken_off = read_dict(|| Ok(&b"}K\x01NsK\x02Ns."[..]), &Limits::default(), &mut |_, _| {
        n += 1;
        ControlFlow::Break(())
    });
    assert!(broken_off.is_ok() && n == 1);
    let failed = read_dict(
        || Err::<&[u8], _>(std::io::Error::other("stopped")),
        &Limits::default(),
        &mut |_, _| ControlFlow::Continue(()),
    );
    assert!(matches!(failed, Err(PickleError::Io(_))));
}

proptest! {
    /// Any bytes yield a value or an error, never a panic; most bytes are opcodes.
    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(
        prop_oneof![
            any::<u8>(),
            prop::sample::select(&b"(.012NIJKLMFGVXTUBC]})ltdaesupqrghjcRbQ\x80\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x93\x94\x95\x96\x00\x01"[..]),
        ],
        0..200,
    )) {
        let _ = read(&bytes, &TIGHT);
        let _ = items(&bytes, &TIGHT);
    }
}
