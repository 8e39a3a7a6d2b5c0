//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-zowEM7fU.js", include_bytes!("../../../web/dist/assets/compare-zowEM7fU.js")),
    ("assets/diff-Aizic1VR.js", include_bytes!("../../../web/dist/assets/diff-Aizic1VR.js")),
    ("assets/index-CTNQTTGs.css", include_bytes!("../../../web/dist/assets/index-CTNQTTGs.css")),
    ("assets/index-D7yjMjqL.js", include_bytes!("../../../web/dist/assets/index-D7yjMjqL.js")),
    ("assets/playground-D0sRFzAM.js", include_bytes!("../../../web/dist/assets/playground-D0sRFzAM.js")),
    ("assets/run-C_azlo_S.js", include_bytes!("../../../web/dist/assets/run-C_azlo_S.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
    ("report.html", include_bytes!("../../../web/dist/report.html")),
];
