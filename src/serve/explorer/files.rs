//! The files of the explorer, as `scripts/build-web.sh` lists them: do not edit.

/// Paths below `web/dist`, with what is in the files.
#[rustfmt::skip]
pub(super) static FILES: &[(&str, &[u8])] = &[
    ("assets/compare-uSVCf5JC.js", include_bytes!("../../../web/dist/assets/compare-uSVCf5JC.js")),
    ("assets/diff-Br8_Rx5e.js", include_bytes!("../../../web/dist/assets/diff-Br8_Rx5e.js")),
    ("assets/index-CTNQTTGs.css", include_bytes!("../../../web/dist/assets/index-CTNQTTGs.css")),
    ("assets/index-iFwP40ox.js", include_bytes!("../../../web/dist/assets/index-iFwP40ox.js")),
    ("assets/playground-Ddv66TQG.js", include_bytes!("../../../web/dist/assets/playground-Ddv66TQG.js")),
    ("assets/run-CnsZ1jie.css", include_bytes!("../../../web/dist/assets/run-CnsZ1jie.css")),
    ("assets/run-j6B2CL6U.js", include_bytes!("../../../web/dist/assets/run-j6B2CL6U.js")),
    ("icon.svg", include_bytes!("../../../web/dist/icon.svg")),
    ("index.html", include_bytes!("../../../web/dist/index.html")),
    ("licences.md", include_bytes!("../../../web/dist/licences.md")),
];
