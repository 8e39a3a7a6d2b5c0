//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-oTpcsRCV.js", include_bytes!("../../../web/dist/assets/compare-oTpcsRCV.js")),
    ("assets/diff-qderF4fm.js", include_bytes!("../../../web/dist/assets/diff-qderF4fm.js")),
    ("assets/index-D_OyvIgQ.js", include_bytes!("../../../web/dist/assets/index-D_OyvIgQ.js")),
    ("assets/index-JEqu_pJu.css", include_bytes!("../../../web/dist/assets/index-JEqu_pJu.css")),
    ("assets/playground-DnBSveFl.js", include_bytes!("../../../web/dist/assets/playground-DnBSveFl.js")),
    ("assets/run-BB9lWuuX.js", include_bytes!("../../../web/dist/assets/run-BB9lWuuX.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
    ("report.html", include_bytes!("../../../web/dist/report.html")),
];
