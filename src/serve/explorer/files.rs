//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-Bv6m6Ip4.js", include_bytes!("../../../web/dist/assets/compare-Bv6m6Ip4.js")),
    ("assets/diff-Dc2BGtlS.js", include_bytes!("../../../web/dist/assets/diff-Dc2BGtlS.js")),
    ("assets/index-C13sLEx1.js", include_bytes!("../../../web/dist/assets/index-C13sLEx1.js")),
    ("assets/index-DuqwkoQG.css", include_bytes!("../../../web/dist/assets/index-DuqwkoQG.css")),
    ("assets/playground-Dk_xrHHG.js", include_bytes!("../../../web/dist/assets/playground-Dk_xrHHG.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("assets/run-DYFfkcsh.js", include_bytes!("../../../web/dist/assets/run-DYFfkcsh.js")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
