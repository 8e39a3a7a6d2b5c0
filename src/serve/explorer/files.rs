//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-DFvoyq8_.js", include_bytes!("../../../web/dist/assets/compare-DFvoyq8_.js")),
    ("assets/diff-DE2JMmAF.js", include_bytes!("../../../web/dist/assets/diff-DE2JMmAF.js")),
    ("assets/index-CTNQTTGs.css", include_bytes!("../../../web/dist/assets/index-CTNQTTGs.css")),
    ("assets/index-vngcXV3F.js", include_bytes!("../../../web/dist/assets/index-vngcXV3F.js")),
    ("assets/playground-CTEDO1tf.js", include_bytes!("../../../web/dist/assets/playground-CTEDO1tf.js")),
    ("assets/run-BC1JsYRg.js", include_bytes!("../../../web/dist/assets/run-BC1JsYRg.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
    ("report.html", include_bytes!("../../../web/dist/report.html")),
];
