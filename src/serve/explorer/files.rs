//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-CIi9qaaC.js", include_bytes!("../../../web/dist/assets/compare-CIi9qaaC.js")),
    ("assets/diff-Cd-pauct.js", include_bytes!("../../../web/dist/assets/diff-Cd-pauct.js")),
    ("assets/index-Do3Z9lxK.js", include_bytes!("../../../web/dist/assets/index-Do3Z9lxK.js")),
    ("assets/index-DuqwkoQG.css", include_bytes!("../../../web/dist/assets/index-DuqwkoQG.css")),
    ("assets/playground-D7QcpZJq.js", include_bytes!("../../../web/dist/assets/playground-D7QcpZJq.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("assets/run-DKrkt0zK.js", include_bytes!("../../../web/dist/assets/run-DKrkt0zK.js")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
