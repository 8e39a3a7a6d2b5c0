//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-CTJmxjVI.js", include_bytes!("../../../web/dist/assets/compare-CTJmxjVI.js")),
    ("assets/diff-mgrtXijw.js", include_bytes!("../../../web/dist/assets/diff-mgrtXijw.js")),
    ("assets/index-6AGXprIc.css", include_bytes!("../../../web/dist/assets/index-6AGXprIc.css")),
    ("assets/index-Cwx-TXEY.js", include_bytes!("../../../web/dist/assets/index-Cwx-TXEY.js")),
    ("assets/playground-hbssezOe.js", include_bytes!("../../../web/dist/assets/playground-hbssezOe.js")),
    ("assets/run-C3t7-evJ.js", include_bytes!("../../../web/dist/assets/run-C3t7-evJ.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
