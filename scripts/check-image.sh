#!/usr/bin/env bash
# Runs an image of deploy/Dockerfile as deploy.md says, with a root that nobody may write: the first
# command, then a server over its home, asked with a key from outside; its health check; its end.
#
#   scripts/check-image.sh [IMAGE]        (default: agent)
#
# Needs docker, or podman, or what RUNTIME names; keeps neither container nor volume.
set -euo pipefail

image="${1:-agent}"
runtime="${RUNTIME:-$(command -v docker || command -v podman)}"
name="agent-check-$$"
log="$(mktemp)"
clean() {
    "$runtime" rm --force --volumes "$name" || true
    "$runtime" volume rm --force "$name-home" "$name-state" || true
    rm "$log"
}
trap 'clean >/dev/null 2>&1' EXIT

run() {
    "$runtime" run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
        -v "$name-state:/state" "$@"
}
fail() {
    "$runtime" logs "$name" >&2
    echo "$1" >&2
    exit 1
}

run --rm "$image" --version
run --rm -v "$name-home:/data" "$image" --quiet optimize --dataset amazon --steps 1 | tail -1
key="$(run --rm -v "$name-home:/data" "$image" key add site 2>"$log")" || { cat "$log" >&2; exit 1; }

run --detach --name "$name" -v "$name-home:/data:ro" -p 127.0.0.1::7700 "$image" >"$log"
url="http://$("$runtime" port "$name" 7700/tcp)"
for _ in $(seq 60); do
    [ "$(curl -s -o "$log" -w '%{http_code}' "$url/health/ready")" = 200 ] && break
    sleep 1
done
[ "$(cat "$log")" = ok ] || fail "not ready after 60 seconds: $(cat "$log")"

query() {
    curl -s -o "$log" -w '%{http_code}' "$@" "$url/v1/query" -H 'Content-Type: application/json' \
        -d '{"query": "a lamp", "k": 1}'
}
[ "$(query)" = 401 ] || fail "without a key: $(cat "$log")"
[ "$(query -H "Authorization: Bearer $key")" = 200 ] || fail "with a key: $(cat "$log")"
head -c 300 "$log"
echo
"$runtime" exec "$name" test -s /etc/ssl/certs/ca-certificates.crt || fail "no certificates for models behind TLS"

# Its health check says yes of this container, and no of one without a server.
check="$("$runtime" inspect --format '{{index .Config.Healthcheck.Test 3}}' "$name")"
"$runtime" exec "$name" bash -c "$check" || fail "the health check says no"
! run --rm --entrypoint bash "$image" -c "$check" 2>"$log" || fail "the health check always says yes"

"$runtime" stop -t 40 "$name" >"$log"
status="$("$runtime" inspect --format '{{.State.ExitCode}}' "$name")"
[ "$status" = 0 ] || fail "ended with status $status"
"$runtime" logs "$name" 2>&1 | tail -1
"$runtime" image inspect --format 'size: {{.Size}} bytes' "$image"
