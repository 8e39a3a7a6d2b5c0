#!/usr/bin/env bash
# What becomes of a server, and of the home it serves, when it is killed at any moment, when the disk is
# full, when its base is removed, and when the clock jumps.
# usage: scripts/check-faults.sh [AGENT]     (Linux, as root for the full disk; keeps nothing)
# KILLS: how often it is killed (default 20). With libfaketime installed the clock jumps too.
set -euo pipefail
source "$(dirname "$0")/served.sh"
query='{"query": "a durable steel bottle", "k": 3}'

ask() { # METHOD PATH BODY: status and body
    curl -s -m 20 -X "$1" -H 'Content-Type: application/json' -d "$3" -w ' %{http_code}' "$url$2"
}

answers() {
    local reply
    # A crowded machine may be late with one.
    for _ in 1 2 3; do
        reply=$(ask POST /v1/query "$query") || true
        [[ $reply == *' 503' || $reply == *' 429' ]] || break
    done
    [[ $reply == *' 200' ]] || { echo "$1: no answer but: $reply"; exit 1; }
}

stop() {
    kill "-$1" "$server"
    wait "$server" 2>/dev/null || true
    server=
}

# Every file of the home but what readers of SQLite leave beside a journal.
whole() {
    (cd "$home" && find . -type f ! -name '*-shm' ! -name '*-wal' ! -name lock -print0 | sort -z | xargs -0 sha256sum | sha256sum)
}

answers 'at first'
before=$(whole)
for n in $(seq "${KILLS:-20}"); do
    for _ in 1 2 3 4; do
        (while ask POST /v1/query "$query" >"$work/reply" && ask PUT /v1/base/active '{}' >"$work/reply"; do :; done) &
    done
    sleep "0.$((RANDOM % 900 + 100))"
    stop KILL
    wait
    [ "$(whole)" = "$before" ] || { echo "kill $n changed the home"; exit 1; }
    start
    answers "after kill $n"
done
"$agent" --home "$home" verify one >"$work/log" 2>&1
"$agent" --home "$home" run log one >"$work/log" 2>&1
echo "killed ${KILLS:-20} times under load: every file of the home is what it was, and it serves again"

stop TERM
mkdir "$work/full"
mount -t tmpfs -o size=16k none "$work/full"
dd if=/dev/zero of="$work/full/all" bs=1k 2>"$work/log" || true
start AGENT_STATE="$work/full"
answers 'on a full disk'
stop TERM
mkdir "$work/full-home"
cp -a "$home/." "$work/full-home"
mount --bind "$work/full" "$work/full-home/runs"
said=$("$agent" --home "$work/full-home" optimize --dataset amazon --steps 1 2>&1) && { echo "a run on a full disk"; exit 1; }
umount "$work/full-home/runs" "$work/full"
echo "full disk: answers without kept code; a run says: ${said##*error: }"

start
mv "$home/bases" "$home/away" 2>/dev/null || true
answers 'with its base removed'
echo "base removed: answers go on; exchange says: $(ask PUT /v1/base/active '{}')"
stop TERM
"$agent" --home "$home" serve --bundle one --base nowhere --listen 127.0.0.1:0 2>"$work/serve" && exit 1
echo "a base that is not there: $(tail -2 "$work/serve" | tr '\n' ' ')"
mv "$home/away" "$home/bases" 2>/dev/null || true

faketime=$(find /usr/lib -name libfaketime.so.1 2>/dev/null | head -1)
if [ -n "$faketime" ]; then
    echo +0 >"$work/clock"
    start LD_PRELOAD="$faketime" FAKETIME_TIMESTAMP_FILE="$work/clock" FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1
    for jump in +0 +400d -400d -20y +0; do
        echo "$jump" >"$work/clock"
        answers "with the clock at $jump"
        curl -sf "$url/health/ready" >"$work/log"
    done
    stop TERM
    echo "clock: answers while it jumps by 400 days and by 20 years, both ways"
fi
