//! The explorer: web pages, built from `web/` and embedded in the binary. The pages send the same
//! requests as any client. The report page holds its data and needs no server. Does not depend on
//! what the pages show.

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

use crate::{ApiError, Server};

/// Paths of the explorer's views, all served by the same page. The state of a view is in the query
/// of its URL.
pub(super) const VIEWS: [&str; 7] =
    ["/", "/ask", "/node", "/data", "/compare", "/run", "/playground"];
/// File of the page that shows all views.
const PAGE: &str = "index.html";
/// Folder of the files whose names contain a digest of their content. The content under such a name
/// never changes.
const NAMED_BY_DIGEST: &str = "assets/";
/// Content security policy of the pages: allows scripts, styles, images and requests only from and
/// to this server.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; object-src 'none'";

/// File of the report page, which needs no server; the page's data are inserted after the tag
/// `RECORD`.
const REPORT: &str = "report.html";
const RECORD: &str = "<script type=\"application/json\" id=\"record\">";

/// Returns the report page as HTML, with the data `record` embedded. The data are escaped, so that
/// no text in them becomes HTML.
///
/// # Errors
/// If the record cannot be serialized.
pub fn report_page(record: &impl Serialize) -> serde_json::Result<String> {
    // Without `<`, no tag can begin or end in the record.
    let record = serde_json::to_string(record)?.replace('<', "\\u003c");
    let page = FILES.iter().find(|(path, _)| *path == REPORT).map_or(&b""[..], |(_, bytes)| bytes);
    let page = String::from_utf8_lossy(page);
    Ok(page.replacen(RECORD, &format!("{RECORD}{record}"), 1))
}

/// A file of the explorer, with values for its response headers.
struct File {
    path: &'static str,
    bytes: &'static [u8],
    kind: &'static str,
    etag: String,
}

/// All files of the explorer; their digests are computed once.
static SENT: LazyLock<Vec<File>> = LazyLock::new(|| {
    let file = |&(path, bytes): &(&'static str, &'static [u8])| File {
        path,
        bytes,
        kind: kind(path),
        etag: format!("\"{}\"", blake3::hash(bytes).to_hex()),
    };
    FILES.iter().map(file).collect()
});

/// Returns the routes of the pages and their files. These routes need no key, but the requests that
/// the pages send do.
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

/// Responds with the file at `path`, or with status 304 if the client already has this version of
/// the file.
fn sent(path: &str, headers: &HeaderMap) -> Response {
    let Some(file) = SENT.iter().find(|file| file.path == path) else {
        let remedy = "reload the page, so that it names the files of this version";
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

/// Returns the media type of a file, by the extension of its path.
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
