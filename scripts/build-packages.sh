#!/usr/bin/env bash
# Builds what is given to users of one system: an archive (binary, manual pages, completions, unit of
# systemd, what it was built from) and a Debian package of the same, with SHA256SUMS, in DIR (default:
# dist/). Same commit, toolchain and system, same bytes.
#
#   scripts/build-packages.sh [--out DIR] [--binary FILE]
#
# --binary takes one that was built before. Needs the Rust toolchain, a C compiler, dpkg-dev and jq.
# What comes out runs where glibc is at least as new as the one it asks for, which is said at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=dist binary=
while [ $# -gt 0 ]; do
    case "$1" in
        --out) out="$2"; shift ;;
        --binary) binary="$2"; shift ;;
        *) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
    shift
done
for tool in dpkg-shlibdeps dpkg-deb jq; do
    command -v "$tool" >/dev/null || { echo "build-packages: $tool is missing: apt-get install dpkg-dev jq" >&2; exit 1; }
done

if [ -z "$binary" ]; then
    cargo build --release --locked --bin agent
    binary="${CARGO_TARGET_DIR:-target}/release/agent"
fi
version="$("$binary" --version | cut -d' ' -f2)"
arch="$(dpkg --print-architecture)"
target="$(rustc -vV | sed -n 's/^host: //p')"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
root="$work/root" docs="$work/root/usr/share/doc/agent-retriever"
umask 022
mkdir -p "$docs" "$root/usr/bin" "$root/usr/lib/systemd/system" \
    "$root"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}

strip -o "$root/usr/bin/agent" "$binary"
"$binary" --quiet man "$root/usr/share/man/man1" >/dev/null
"$binary" completions bash >"$root/usr/share/bash-completion/completions/agent"
"$binary" completions zsh >"$root/usr/share/zsh/vendor-completions/_agent"
"$binary" completions fish >"$root/usr/share/fish/vendor_completions.d/agent.fish"
cp deploy/agent.service "$root/usr/lib/systemd/system/"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$docs/"

# What is in the binary: every crate that is linked into it, with version, licence and, where it comes
# from the registry, the digest of its source. CycloneDX 1.5.
digests="$(sed -n '/^name = /{s/name = "\(.*\)"/\1/;h};/^version = /{s/version = "\(.*\)"/ \1/;H};/^checksum = /{s/checksum = "\(.*\)"/ \1/;H;x;s/\n//g;p}' Cargo.lock)"
cargo tree --locked --edges normal --target "$target" --prefix none --format '{p}|{l}' \
    | sed 's/ (.*)|/|/; s/ v\([^ |]*\)|/|\1|/; s/ (\*)$//' | sort -u \
    | jq -nR --arg version "$version" --arg digests "$digests" '
        ($digests | split("\n") | map(split(" ") | {key: "\(.[0]) \(.[1])", value: .[2]}) | from_entries) as $digest
        | {bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
           metadata: {component: {type: "application", name: "agent-retriever", version: $version}},
           components: [inputs | split("|") | select(.[0] != "agent-retriever")
             | {type: "library", name: .[0], version: .[1], purl: "pkg:cargo/\(.[0])@\(.[1])"}
               + (if .[2] == "" then {} else {licenses: [{expression: (.[2] | gsub("/"; " OR "))}]} end)
               + ($digest["\(.[0]) \(.[1])"] as $sha
                  | if $sha then {hashes: [{alg: "SHA-256", content: $sha}]} else {} end)]}' \
    >"$docs/sbom.cdx.json"

# The archive, with one directory in it, whose content belongs under /usr/local.
name="agent-$version-$target"
cp -r "$root/usr" "$work/$name"
find "$work/$name" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$out"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$work/$name.tar.gz"

# The package.
sed -i 's|/usr/local/bin|/usr/bin|' "$root/usr/lib/systemd/system/agent.service"
gzip -9n "$root"/usr/share/man/man1/*.1 "$docs/CHANGELOG.md"
cat >"$docs/copyright" <<COPYRIGHT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: agent

Files: *
License: MIT or Apache-2.0
 The licences are beside this file (LICENSE-MIT, LICENSE-APACHE); those of what the binary is
 linked with are in sbom.cdx.json.
COPYRIGHT
mkdir -p "$root/DEBIAN" "$work/debian"
touch "$work/debian/control"
needs="$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/agent 2>/dev/null | sed -n 's/^shlibs:Depends=//p')"
cat >"$root/DEBIAN/control" <<CONTROL
Package: agent-retriever
Version: $version
Architecture: $arch
Maintainer: ${DEBFULLNAME:-The authors of agent} <${DEBEMAIL:-root@localhost}>
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: $needs
Section: utils
Priority: optional
Description: answers questions over semi-structured knowledge bases
 Finds small retrieval programs for a knowledge base of text and typed relations from questions with
 known answers, proves them, and answers new questions with the best of them.
CONTROL
find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
deb="agent-retriever_${version}_$arch.deb"
dpkg-deb --root-owner-group -Zxz --build "$root" "$work/$deb" >/dev/null

mv "$work/$name.tar.gz" "$work/$deb" "$out/"
(cd "$out" && sha256sum "$name.tar.gz" "$deb" >SHA256SUMS)
echo "$out: $name.tar.gz, $deb, SHA256SUMS; $(jq '.components | length' "$docs/sbom.cdx.json") crates; needs $needs"
