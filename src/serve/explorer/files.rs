//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-BZrQxFqE.js", include_bytes!("../../../web/dist/assets/compare-BZrQxFqE.js")),
    ("assets/diff-CQ5dKVLL.js", include_bytes!("../../../web/dist/assets/diff-CQ5dKVLL.js")),
    ("assets/index-DuqwkoQG.css", include_bytes!("../../../web/dist/assets/index-DuqwkoQG.css")),
    ("assets/index-osKdrVVV.js", include_bytes!("../../../web/dist/assets/index-osKdrVVV.js")),
    ("assets/playground-BQ9JjQnE.js", include_bytes!("../../../web/dist/assets/playground-BQ9JjQnE.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("assets/run-DmSjKUe7.js", include_bytes!("../../../web/dist/assets/run-DmSjKUe7.js")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
