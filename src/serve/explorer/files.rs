//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-BBiCmd3b.js", include_bytes!("../../../web/dist/assets/compare-BBiCmd3b.js")),
    ("assets/diff-B91qnG3s.js", include_bytes!("../../../web/dist/assets/diff-B91qnG3s.js")),
    ("assets/index-8V10wbrw.js", include_bytes!("../../../web/dist/assets/index-8V10wbrw.js")),
    ("assets/index-JEqu_pJu.css", include_bytes!("../../../web/dist/assets/index-JEqu_pJu.css")),
    ("assets/playground-KsheG5Sw.js", include_bytes!("../../../web/dist/assets/playground-KsheG5Sw.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("assets/run-D1cSG984.js", include_bytes!("../../../web/dist/assets/run-D1cSG984.js")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
    ("report.html", include_bytes!("../../../web/dist/report.html")),
];
