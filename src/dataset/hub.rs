//! Downloads files of a dataset repository over the Hugging Face protocol: lists a folder with
//! sizes and digests, and resumes interrupted downloads.
//!
//! The hub documents the two endpoints, `/api/datasets/REPO/tree/main/FOLDER` and
//! `/datasets/REPO/resolve/main/FILE`. The token is sent only to the endpoint's own host, never to
//! another host after a redirect. A download is named `NAME.DIGEST.part` until its size and, if
//! known, its SHA-256 are verified; then it is renamed to `NAME`.

use std::{
    fmt::Display,
    fs::{self, File},
    future::Future,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use reqwest::{
    Client, Response, StatusCode, Url,
    header::{self, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::{runtime::Runtime, time};

use agent_remote::{Retry, is_transient, retry_after};

/// Maximum size of a downloaded file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 30;
/// Maximum size of the hub's response that lists a folder, in bytes.
const MAX_LIST_BYTES: usize = 8 << 20;
/// Maximum number of redirects followed for one request.
const MAX_REDIRECTS: usize = 5;
/// Maximum number of consecutive attempts in which a download gains no bytes.
const MAX_ATTEMPTS: u32 = 5;
/// Upper limit of the random delay between two attempts. The hub may request a further delay, to
/// which the same limit applies; if the requested delay is longer, the download fails.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// Upper limit of the random delay before the second attempt; the limit doubles with each further
/// attempt.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which a wait checks the stop flag.
const POLL: Duration = Duration::from_millis(100);
/// Number of hexadecimal digits of a SHA-256 digest.
const SHA256_DIGITS: usize = 64;
/// Number of bytes hashed at a time.
const HASH_BUFFER: usize = 1 << 20;

/// Why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// The endpoint is not a valid address, or a redirect leads to an invalid or unsafe address.
    #[error("{address:?} is not a valid hub address; use, for example, https://huggingface.co")]
    Address {
        /// The invalid or unsafe address.
        address: String,
    },
    /// The hub could not be reached, or the connection failed too often.
    #[error(
        "{url}: {message}, {attempts} attempts failed; check the connection and run the command again to resume"
    )]
    Network {
        /// The requested address.
        url: String,
        /// Error of the last attempt.
        message: String,
        /// Number of attempts made.
        attempts: u32,
    },
    /// The hub answered with an error status.
    #[error("{url}: the hub returned {status}{}", remedy(*.status))]
    Status {
        /// The requested address.
        url: String,
        /// HTTP status code, such as 404.
        status: u16,
    },
    /// The HTTP client could not be created, the hub's response violates the protocol, the
    /// downloaded bytes do not match the size or digest of the file, or the disk is full.
    #[error("{0}")]
    Failed(String),
    /// A local file could not be read or written.
    #[error("cannot write {path}: {source}")]
    Io {
        /// The local file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The caller set the stop flag.
    #[error("stopped; downloaded parts are kept")]
    Stopped,
}

fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "; set HF_TOKEN to a token that may read the repository",
        404 => "; the repository has no such file, check the endpoint",
        429 => "; too many requests, run the command again later",
        _ => "; run the command again later",
    }
}

/// A file in a dataset repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Path of the file in the repository.
    pub path: String,
    /// Size of the file, in bytes.
    pub size: u64,
    /// Hexadecimal SHA-256 digest of the file; the hub gives it for large files only.
    pub sha256: Option<String>,
}

/// Client of one dataset repository on a hub.
pub struct Hub {
    endpoint: Url,
    repository: String,
    token: Option<HeaderValue>,
    idle_timeout: Duration,
    client: Client,
    runtime: Runtime,
}

/// Why one attempt of a request failed.
enum Failure {
    Final(HubError),
    /// The hub refuses the request for now; it may request a delay.
    Refused(StatusCode, Option<Duration>),
    /// The hub did not answer completely.
    Interrupted(String),
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Failure {
        Failure::Final(error)
    }
}

fn transient(error: reqwest::Error) -> Failure {
    // The innermost error is specific; the outermost only reports that a request failed.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Failure::Interrupted(cause.to_string())
}

fn protocol(url: &Url, reason: String) -> HubError {
    HubError::Failed(format!("{url}: {reason}; check the endpoint"))
}

fn no_client(message: impl Display) -> HubError {
    HubError::Failed(format!("cannot create the HTTP client: {message}"))
}

impl Hub {
    /// Creates a client for the repository `owner/name` of the hub at `endpoint`. `token` is sent
    /// to the host of `endpoint` only. A connection that sends no data for `idle_timeout` is
    /// closed.
    ///
    /// # Errors
    /// [`HubError::Address`] or [`HubError::Failed`].
    pub fn new(
        endpoint: &str,
        repository: &str,
        token: Option<&str>,
        idle_timeout: Duration,
    ) -> Result<Hub, HubError> {
        let bad_address = || HubError::Address { address: endpoint.to_owned() };
        let url = Url::parse(endpoint.trim_end_matches('/')).map_err(|_| bad_address())?;
        if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
            return Err(bad_address());
        }
        let token = token.map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let mut token = token
            .transpose()
            .map_err(|_| no_client("HF_TOKEN has characters that are not allowed in a token"))?;
        token.iter_mut().for_each(|token| token.set_sensitive(true));
        let client = agent_remote::http_client(|client| {
            client
                .user_agent(concat!("agent/", env!("CARGO_PKG_VERSION")))
                .redirect(redirect::Policy::none())
                .connect_timeout(CONNECT_TIMEOUT)
        });
        let client = client.map_err(no_client)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(no_client)?;
        let repository = repository.to_owned();
        Ok(Hub { endpoint: url, repository, token, idle_timeout, client, runtime })
    }

    /// Lists all files in a folder and its subfolders, in the hub's order.
    ///
    /// # Errors
    /// Any [`HubError`] except [`HubError::Io`].
    pub fn list(&self, folder: &str, stop: &AtomicBool) -> Result<Vec<RemoteFile>, HubError> {
        let repository = &self.repository;
        let url = self.url(&format!("api/datasets/{repository}/tree/main/{folder}"))?;
        let url = Url::parse_with_params(url.as_str(), [("recursive", "true")]).unwrap_or(url);
        let mut retry = Retry::new(MAX_ATTEMPTS, FIRST_WAIT, MAX_WAIT);
        let bytes = loop {
            retry.begin();
            let asked = self.runtime.block_on(async {
                let mut response = self.get(&url, &HeaderMap::new(), stop).await?;
                let mut bytes = Vec::new();
                while let Some(chunk) = self.with_timeout(response.chunk(), stop).await? {
                    bytes.extend_from_slice(&chunk);
                    if bytes.len() > MAX_LIST_BYTES {
                        let reason = format!("the list has more than {MAX_LIST_BYTES} bytes");
                        return Err(protocol(&url, reason).into());
                    }
                }
                Ok(bytes)
            });
            match asked {
                Ok(bytes) => break bytes,
                Err(failure) => wait(failure, &mut retry, &url, stop)?,
            }
        };
        let entries: Vec<Entry> = serde_json::from_slice(&bytes)
            .map_err(|error| protocol(&url, format!("cannot parse the list: {error}")))?;
        let files = entries.into_iter().filter(|entry| entry.kind == "file");
        let files: Result<Vec<RemoteFile>, String> = files.map(Entry::into_file).collect();
        files.map_err(|reason| protocol(&url, reason))
    }

    /// Returns the total size of files, in bytes.
    ///
    /// # Errors
    /// [`HubError::Failed`] if a file exceeds the size limit.
    pub fn total_bytes(&self, files: &[RemoteFile]) -> Result<u64, HubError> {
        files.iter().try_for_each(|file| self.check_size(file))?;
        // Cannot overflow: the listing is bounded, and so is the size of each file.
        Ok(files.iter().map(|file| file.size).sum())
    }

    fn check_size(&self, file: &RemoteFile) -> Result<(), HubError> {
        if file.size <= MAX_FILE_BYTES {
            return Ok(());
        }
        let reason =
            format!("{} has {} bytes, above the limit of {MAX_FILE_BYTES}", file.path, file.size);
        Err(protocol(&self.endpoint, reason))
    }

    /// Downloads a file to `target`, and creates the folder of `target`; does nothing if `target`
    /// already has the file's size and digest. A partial download is resumed if the digest is
    /// known. `on_progress` receives the number of downloaded bytes and the total number of bytes.
    ///
    /// # Errors
    /// Any [`HubError`]; `target` is then unchanged.
    pub fn download(
        &self,
        file: &RemoteFile,
        target: &Path,
        on_progress: &mut dyn FnMut(u64, u64),
        stop: &AtomicBool,
    ) -> Result<(), HubError> {
        self.check_size(file)?;
        if is_whole(file, target, stop)? {
            on_progress(file.size, file.size);
            return Ok(());
        }
        let folder = target.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder).map_err(io_error(folder))?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let digest: String = file.sha256.iter().flat_map(|hex| hex.chars().take(16)).collect();
        let path = target.with_file_name(format!("{name}.{digest}.part"));
        let options = File::options().read(true).write(true).create(true).truncate(false).clone();
        let mut part = options.open(&path).map_err(io_error(&path))?;
        // Without a digest, the partial file may belong to another version.
        if file.sha256.is_none() || part_len(&part, &path)? > file.size {
            part.set_len(0).map_err(io_error(&path))?;
        }
        let url = self.url(&format!("datasets/{}/resolve/main/{}", self.repository, file.path))?;
        let mut retry = Retry::new(MAX_ATTEMPTS, FIRST_WAIT, MAX_WAIT);
        let mut etag = None;
        loop {
            let before = part_len(&part, &path)?;
            if before == file.size {
                break;
            }
            on_progress(before, file.size);
            let mut sink = Sink { part: &mut part, path: &path, size: file.size, on_progress };
            retry.begin();
            let asked = self.fetch(&url, before, &mut etag, &mut sink, stop);
            if let Err(failure) = self.runtime.block_on(asked) {
                if part_len(&part, &path)? > before {
                    retry.restart();
                }
                wait(failure, &mut retry, &url, stop)?;
                if etag.is_none() && file.sha256.is_none() {
                    part.set_len(0).map_err(io_error(&path))?;
                }
            }
        }
        part.sync_all().map_err(io_error(&path))?;
        if !is_whole(file, &path, stop)? {
            fs::remove_file(&path).map_err(io_error(&path))?;
            return Err(HubError::Failed(format!(
                "{} arrived damaged: its SHA-256 does not match; it was removed, run the command \
                 again",
                file.path
            )));
        }
        fs::rename(&path, target).map_err(io_error(target))?;
        on_progress(file.size, file.size);
        Ok(())
    }

    fn url(&self, path: &str) -> Result<Url, HubError> {
        let address = format!("{}/{path}", self.endpoint.as_str().trim_end_matches('/'));
        Url::parse(&address).map_err(|_| HubError::Address { address })
    }

    /// Downloads the bytes of a file from the offset `from` to its end into `sink`.
    async fn fetch(
        &self,
        url: &Url,
        from: u64,
        etag: &mut Option<HeaderValue>,
        sink: &mut Sink<'_>,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        if from > 0 {
            let range = HeaderValue::try_from(format!("bytes={from}-"));
            headers.extend(range.ok().map(|range| (header::RANGE, range)));
            headers.extend(etag.clone().map(|etag| (header::IF_RANGE, etag)));
        }
        let mut response = self.get(url, &headers, stop).await?;
        // Any other successful response holds the whole file.
        let partial = response.status() == StatusCode::PARTIAL_CONTENT;
        let range = text_of(&response, header::CONTENT_RANGE).unwrap_or_default();
        if partial && !range.starts_with(&format!("bytes {from}-")) {
            let reason = format!("the reply contains {range:?} instead of the bytes from {from}");
            return Err(protocol(url, reason).into());
        }
        let from = if partial { from } else { 0 };
        // Equal weak tags do not imply equal bytes.
        let strong = |tag: &&HeaderValue| !tag.as_bytes().starts_with(b"W/");
        *etag = response.headers().get(header::ETAG).filter(strong).cloned();
        let (path, size) = (sink.path, sink.size);
        sink.part.set_len(from).map_err(io_error(path))?;
        sink.part.seek(SeekFrom::Start(from)).map_err(io_error(path))?;
        let mut done = from;
        while let Some(chunk) = self.with_timeout(response.chunk(), stop).await? {
            if done + chunk.len() as u64 > size {
                let reason = format!("the reply exceeds the listed size of {size} bytes");
                return Err(protocol(url, reason).into());
            }
            sink.part.write_all(&chunk).map_err(|source| match source.kind() {
                io::ErrorKind::StorageFull => HubError::Failed(format!(
                    "{}: the disk is full, {} more bytes are needed; free them and run the command \
                     again",
                    path.display(),
                    size - done
                )),
                _ => HubError::Io { path: path.to_path_buf(), source },
            })?;
            done += chunk.len() as u64;
            (sink.on_progress)(done, size);
        }
        if done < size {
            return Err(Failure::Interrupted(format!(
                "the connection ended after {done} of {size} bytes"
            )));
        }
        Ok(())
    }

    /// Sends a request and follows redirects; returns the response if its status is a success.
    async fn get(
        &self,
        url: &Url,
        headers: &HeaderMap,
        stop: &AtomicBool,
    ) -> Result<Response, Failure> {
        let mut at = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = self.client.get(at.clone()).headers(headers.clone());
            if at.origin() == self.endpoint.origin()
                && let Some(token) = &self.token
            {
                request = request.header(header::AUTHORIZATION, token.clone());
            }
            let response = self.with_timeout(request.send(), stop).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            if !status.is_redirection() {
                if is_transient(status.as_u16()) {
                    return Err(Failure::Refused(status, retry_after(response.headers())));
                }
                let (url, status) = (at.to_string(), status.as_u16());
                return Err(HubError::Status { url, status }.into());
            }
            let place = text_of(&response, header::LOCATION).and_then(|to| at.join(to).ok());
            let safe = |to: &Url| to.scheme() == "https" || to.scheme() == at.scheme();
            let no_place = || HubError::Address { address: at.to_string() };
            at = place.filter(safe).ok_or_else(no_place)?;
        }
        Err(protocol(url, format!("more than {MAX_REDIRECTS} redirects")).into())
    }

    /// Awaits a reply; fails after the idle timeout or once the stop flag is set.
    async fn with_timeout<T>(
        &self,
        future: impl Future<Output = reqwest::Result<T>>,
        stop: &AtomicBool,
    ) -> Result<T, Failure> {
        let (mut future, began) = (pin!(future), Instant::now());
        loop {
            if let Ok(output) = time::timeout(POLL, &mut future).await {
                return output.map_err(transient);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(HubError::Stopped.into());
            }
            if began.elapsed() >= self.idle_timeout {
                let seconds = self.idle_timeout.as_secs_f64();
                return Err(Failure::Interrupted(format!("no data for {seconds} s")));
            }
        }
    }
}

/// Whether the local file at `path` has the size and, if known, the digest of a repository's
/// file.
fn is_whole(file: &RemoteFile, path: &Path, stop: &AtomicBool) -> Result<bool, HubError> {
    let Ok(mut local) = File::open(path) else { return Ok(false) };
    if local.metadata().map_err(io_error(path))?.len() != file.size {
        return Ok(false);
    }
    let Some(expected) = &file.sha256 else { return Ok(true) };
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; HASH_BUFFER]);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(HubError::Stopped);
        }
        let n = local.read(&mut buffer).map_err(io_error(path))?;
        if n == 0 {
            break;
        }
        hash.update(buffer.get(..n).unwrap_or_default());
    }
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(found.eq_ignore_ascii_case(expected))
}

/// Sleeps before the next attempt; returns the error if no attempt is left.
fn wait(failure: Failure, retry: &mut Retry, url: &Url, stop: &AtomicBool) -> Result<(), HubError> {
    let url = url.to_string();
    let (retry_after, error) = match failure {
        Failure::Final(error) => return Err(error),
        Failure::Refused(status, retry_after) => {
            (retry_after, HubError::Status { url, status: status.as_u16() })
        }
        Failure::Interrupted(message) => {
            (None, HubError::Network { url, message, attempts: retry.attempts() })
        }
    };
    let wait = retry.wait(retry_after).map_err(|_| error)?;
    let began = Instant::now();
    while let Some(left) = wait.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        if stop.load(Ordering::Relaxed) {
            return Err(HubError::Stopped);
        }
        std::thread::sleep(POLL.min(left));
    }
    Ok(())
}

/// Where a download is written, with its progress.
struct Sink<'a> {
    part: &'a mut File,
    path: &'a Path,
    size: u64,
    on_progress: &'a mut dyn FnMut(u64, u64),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> HubError {
    let path = path.to_path_buf();
    move |source| HubError::Io { path, source }
}

/// Returns the length of a partially downloaded file, in bytes.
fn part_len(part: &File, path: &Path) -> Result<u64, HubError> {
    part.metadata().map(|metadata| metadata.len()).map_err(io_error(path))
}

fn text_of(response: &Response, name: HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok()
}

/// An entry of the hub's list of a folder.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    /// Digest and size of the content; set for files in Git large file storage (LFS).
    lfs: Option<LfsPointer>,
}

#[derive(Deserialize)]
struct LfsPointer {
    oid: String,
    size: u64,
}

impl Entry {
    /// Converts the entry to a file; returns an error for an invalid digest, because the digest
    /// becomes part of a file name.
    fn into_file(self) -> Result<RemoteFile, String> {
        let Some(LfsPointer { oid, size }) = self.lfs else {
            return Ok(RemoteFile { path: self.path, size: self.size, sha256: None });
        };
        if oid.len() != SHA256_DIGITS || !oid.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let shown: String = oid.chars().take(SHA256_DIGITS).collect();
            return Err(format!("the digest {shown:?} of {} is not a SHA-256 digest", self.path));
        }
        Ok(RemoteFile { path: self.path, size, sha256: Some(oid) })
    }
}
