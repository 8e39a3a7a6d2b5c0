//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-Cb_dQJFX.js", include_bytes!("../../../web/dist/assets/compare-Cb_dQJFX.js")),
    ("assets/diff-BlT2Fseo.js", include_bytes!("../../../web/dist/assets/diff-BlT2Fseo.js")),
    ("assets/index-DuqwkoQG.css", include_bytes!("../../../web/dist/assets/index-DuqwkoQG.css")),
    ("assets/index-pQEHPt2v.js", include_bytes!("../../../web/dist/assets/index-pQEHPt2v.js")),
    ("assets/playground-CteryT-E.js", include_bytes!("../../../web/dist/assets/playground-CteryT-E.js")),
    ("assets/run-BpcKspVR.js", include_bytes!("../../../web/dist/assets/run-BpcKspVR.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
