//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-CltMZSyX.js", include_bytes!("../../../web/dist/assets/compare-CltMZSyX.js")),
    ("assets/diff-_-_8HZQi.js", include_bytes!("../../../web/dist/assets/diff-_-_8HZQi.js")),
    ("assets/index-DJbRS-1m.css", include_bytes!("../../../web/dist/assets/index-DJbRS-1m.css")),
    ("assets/index-e0MFqG7O.js", include_bytes!("../../../web/dist/assets/index-e0MFqG7O.js")),
    ("assets/playground-KR958TtA.js", include_bytes!("../../../web/dist/assets/playground-KR958TtA.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("assets/run-D7yeuKC6.js", include_bytes!("../../../web/dist/assets/run-D7yeuKC6.js")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
