//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-D1giU7hT.js", include_bytes!("../../../web/dist/assets/compare-D1giU7hT.js")),
    ("assets/diff-BfgQX55j.js", include_bytes!("../../../web/dist/assets/diff-BfgQX55j.js")),
    ("assets/index-ByQY2oaG.js", include_bytes!("../../../web/dist/assets/index-ByQY2oaG.js")),
    ("assets/index-CTNQTTGs.css", include_bytes!("../../../web/dist/assets/index-CTNQTTGs.css")),
    ("assets/playground-Ci-mVfMi.js", include_bytes!("../../../web/dist/assets/playground-Ci-mVfMi.js")),
    ("assets/run-BwQ75QEr.js", include_bytes!("../../../web/dist/assets/run-BwQ75QEr.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
