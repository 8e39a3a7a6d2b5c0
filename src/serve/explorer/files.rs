//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-BTBsveMh.js", include_bytes!("../../../web/dist/assets/compare-BTBsveMh.js")),
    ("assets/diff-DNZtPAEE.js", include_bytes!("../../../web/dist/assets/diff-DNZtPAEE.js")),
    ("assets/index-CkbH46ad.js", include_bytes!("../../../web/dist/assets/index-CkbH46ad.js")),
    ("assets/index-DuqwkoQG.css", include_bytes!("../../../web/dist/assets/index-DuqwkoQG.css")),
    ("assets/playground-BedbRVHo.js", include_bytes!("../../../web/dist/assets/playground-BedbRVHo.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("assets/run-DB6uBNLK.js", include_bytes!("../../../web/dist/assets/run-DB6uBNLK.js")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
