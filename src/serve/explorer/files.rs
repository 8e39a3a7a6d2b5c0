//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-DOAxdnoT.js", include_bytes!("../../../web/dist/assets/compare-DOAxdnoT.js")),
    ("assets/diff-CvJvlbhl.js", include_bytes!("../../../web/dist/assets/diff-CvJvlbhl.js")),
    ("assets/index-9ZvUneea.js", include_bytes!("../../../web/dist/assets/index-9ZvUneea.js")),
    ("assets/index-CTNQTTGs.css", include_bytes!("../../../web/dist/assets/index-CTNQTTGs.css")),
    ("assets/playground-65WKJTQB.js", include_bytes!("../../../web/dist/assets/playground-65WKJTQB.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("assets/run-DeRQd92z.js", include_bytes!("../../../web/dist/assets/run-DeRQd92z.js")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
    ("report.html", include_bytes!("../../../web/dist/report.html")),
];
