//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-CmVWFm2i.js", include_bytes!("../../../web/dist/assets/compare-CmVWFm2i.js")),
    ("assets/diff-CWyGI5iV.js", include_bytes!("../../../web/dist/assets/diff-CWyGI5iV.js")),
    ("assets/index-BRlrjj-F.js", include_bytes!("../../../web/dist/assets/index-BRlrjj-F.js")),
    ("assets/index-BdwsXoQa.css", include_bytes!("../../../web/dist/assets/index-BdwsXoQa.css")),
    ("assets/playground-rI5pZSBu.js", include_bytes!("../../../web/dist/assets/playground-rI5pZSBu.js")),
    ("assets/run-CHY6Crxo.js", include_bytes!("../../../web/dist/assets/run-CHY6Crxo.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
