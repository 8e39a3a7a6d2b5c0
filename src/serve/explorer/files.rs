//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-OOZL5rUq.js", include_bytes!("../../../web/dist/assets/compare-OOZL5rUq.js")),
    ("assets/diff-BByo5TfT.js", include_bytes!("../../../web/dist/assets/diff-BByo5TfT.js")),
    ("assets/index-C_WavKEA.css", include_bytes!("../../../web/dist/assets/index-C_WavKEA.css")),
    ("assets/index-DlKNLwez.js", include_bytes!("../../../web/dist/assets/index-DlKNLwez.js")),
    ("assets/playground-ByxMUwdS.js", include_bytes!("../../../web/dist/assets/playground-ByxMUwdS.js")),
    ("assets/run-CmmubO86.js", include_bytes!("../../../web/dist/assets/run-CmmubO86.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
    ("report.html", include_bytes!("../../../web/dist/report.html")),
];
