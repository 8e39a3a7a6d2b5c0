#!/usr/bin/env bash
# Installs what build-packages.sh made on bare Debian systems, runs the first command there, and asks
# what it found; removes the package again. Nothing but the base system and the package is on them.
#
#   sudo scripts/check-packages.sh DIR [SUITE...]        (default: bookworm trixie)
#
# Needs debootstrap and a mirror of Debian (MIRROR); each system takes some 350 MB under TMPDIR while it
# is tried.
set -euo pipefail

dir="$(cd "${1:?the directory with the packages}" && pwd)"
shift
suites=("$@")
[ $# -gt 0 ] || suites=(bookworm trixie)
work="$(mktemp -d)"
trap 'rm -rf --one-file-system "$work"' EXIT
(cd "$dir" && sha256sum --check --quiet SHA256SUMS)

# The first command, and what a user does next; runs within a system.
cat >"$work/try" <<'TRY'
set -eu
export AGENT_HOME="$(mktemp -d)" AGENT_STATE="$(mktemp -d)"
agent --version
agent --quiet optimize --dataset amazon --steps 1 | tail -1
agent --quiet query latest "a lamp" -k 1 | head -1
agent --quiet verify latest
bash -n "$1/share/bash-completion/completions/agent"
ls "$1"/share/man/man1/agent.1*
TRY

for suite in "${suites[@]}"; do
    root="$work/$suite"
    debootstrap --variant=minbase "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$work/log" 2>&1 \
        || { tail -5 "$work/log" >&2; exit 1; }
    cp "$work/try" "$root/try"

    echo "== $suite: the Debian package"
    cp "$dir"/agent-retriever_*.deb "$root/agent.deb"
    chroot "$root" dpkg -i /agent.deb >/dev/null
    chroot "$root" bash /try /usr
    chroot "$root" dpkg --purge agent-retriever >/dev/null
    left="$(find "$root/usr" -name 'agent*' -newer "$work/try" ! -path '*/dpkg/*')"
    [ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }

    echo "== $suite: the archive"
    tar -C "$root/usr/local" --strip-components=1 -xzf "$dir"/agent-*.tar.gz
    chroot "$root" bash /try /usr/local
    rm -rf --one-file-system "$root"
done
