//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-D0N9rsg2.js", include_bytes!("../../../web/dist/assets/compare-D0N9rsg2.js")),
    ("assets/diff-74hOeqQh.js", include_bytes!("../../../web/dist/assets/diff-74hOeqQh.js")),
    ("assets/index-C_WavKEA.css", include_bytes!("../../../web/dist/assets/index-C_WavKEA.css")),
    ("assets/index-CzcF2qiP.js", include_bytes!("../../../web/dist/assets/index-CzcF2qiP.js")),
    ("assets/playground-CZaxq56q.js", include_bytes!("../../../web/dist/assets/playground-CZaxq56q.js")),
    ("assets/run-BkEycZPU.js", include_bytes!("../../../web/dist/assets/run-BkEycZPU.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
    ("report.html", include_bytes!("../../../web/dist/report.html")),
];
