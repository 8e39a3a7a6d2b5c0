//! The explorer: pages for people, built from `web/` beforehand and kept in the binary, so that one
//! process answers and shows. They ask what every client may ask; one page is a file with its record in
//! it, and asks nothing. Must not know what they show.

mod files;

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    extract::Path,
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use files::FILES;
use serde::Serialize;

use crate::{Server, reply::ApiError};

/// Where the page is found: all state of a view is in the query of its address.
pub(super) const VIEWS: [&str; 7] =
    ["/", "/ask", "/node", "/data", "/compare", "/run", "/playground"];
/// The page of all views.
const PAGE: &str = "index.html";
/// Files below this folder are named by their digests, so that they never change.
const NAMED_BY_DIGEST: &str = "assets/";
/// Only what this server sent runs, is drawn, and is asked.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";

/// The page that opens without a server, and where its record stands.
const REPORT: &str = "report.html";
const RECORD: &str = "<script type=\"application/json\" id=\"record\">";

/// The page of a record, for a file; every text of the record stays text.
///
/// # Errors
/// That the record is not JSON.
pub fn report_page(record: &impl Serialize) -> serde_json::Result<String> {
    // No tag can begin or end within it.
    let record = serde_json::to_string(record)?.replace('<', "\\u003c");
    let page = FILES.iter().find(|(path, _)| *path == REPORT).map_or(&b""[..], |(_, bytes)| bytes);
    let page = String::from_utf8_lossy(page);
    Ok(page.replacen(RECORD, &format!("{RECORD}{record}"), 1))
}

/// A file as it is sent.
struct File {
    path: &'static str,
    bytes: &'static [u8],
    kind: &'static str,
    etag: String,
}

/// All files, with digests that are computed once.
static SENT: LazyLock<Vec<File>> = LazyLock::new(|| {
    let file = |&(path, bytes): &(&'static str, &'static [u8])| File {
        path,
        bytes,
        kind: kind(path),
        etag: format!("\"{}\"", blake3::hash(bytes).to_hex()),
    };
    FILES.iter().map(file).collect()
});

/// The pages and their files; a key is asked for by what they ask.
pub(super) fn routes() -> Router<Arc<Server>> {
    let page = |headers: HeaderMap| async move { sent(PAGE, &headers) };
    let asset = |Path(name): Path<String>, headers: HeaderMap| async move {
        sent(&format!("{NAMED_BY_DIGEST}{name}"), &headers)
    };
    let icon = |headers: HeaderMap| async move { sent("icon.svg", &headers) };
    let licences = |headers: HeaderMap| async move { sent("licences.md", &headers) };
    let pages = VIEWS.iter().fold(Router::new(), |router, view| router.route(view, get(page)));
    pages
        .route("/assets/{name}", get(asset))
        .route("/icon.svg", get(icon))
        .route("/licences.md", get(licences))
}

/// A file, or that the client has it already.
fn sent(path: &str, headers: &HeaderMap) -> Response {
    let Some(file) = SENT.iter().find(|file| file.path == path) else {
        let remedy = "load the page again; it names the files of this version";
        return ApiError::not_found("there is no such file", remedy).into_response();
    };
    let caching = if path.starts_with(NAMED_BY_DIGEST) {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let about: [(HeaderName, &str); 6] = [
        (header::CONTENT_TYPE, file.kind),
        (header::CACHE_CONTROL, caching),
        (header::ETAG, &file.etag),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let has = |known: &str| known.split(',').any(|tag| tag.trim().ends_with(&file.etag));
    match known.is_some_and(has) {
        true => (StatusCode::NOT_MODIFIED, about).into_response(),
        false => (about, file.bytes).into_response(),
    }
}

/// What a file is, by the end of its name.
fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_that_a_page_names_is_sent_once_and_its_kind_is_known() {
        let page = SENT.iter().find(|file| file.path == PAGE).unwrap();
        let text = std::str::from_utf8(page.bytes).unwrap();
        let named: Vec<&str> = text.split("=\"./").skip(1).collect();
        assert!(named.len() >= 3, "{text}");
        for name in named {
            let name = name.split('"').next().unwrap();
            assert!(SENT.iter().any(|file| file.path == name), "{name}");
            assert_ne!(kind(name), kind("x.md"), "{name}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(sent(PAGE, &headers).status(), StatusCode::OK);
        headers.insert(header::IF_NONE_MATCH, page.etag.parse().unwrap());
        assert_eq!(sent(PAGE, &headers).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(sent("assets/other.js", &headers).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn a_record_stays_within_its_page() {
        let page = report_page(&["</script><!--", "&\u{2028}"]).unwrap();
        let (_, rest) = page.split_once(RECORD).unwrap();
        let (record, rest) = rest.split_once("</script>").unwrap();
        let record: Vec<String> = serde_json::from_str(record).unwrap();
        assert_eq!(record, ["</script><!--", "&\u{2028}"]);
        assert_eq!(rest.matches("</script>").count(), 1);
    }
}
