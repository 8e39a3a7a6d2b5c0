# Sourced by scripts that ask a server: optimizes the sample and serves its bundle until the script
# ends; `start` serves it again. Takes the binary as the first argument of that script; sets root, agent,
# work, home, server and url.
root=$(cd "$(dirname "$0")/.." && pwd)
agent=${1:-$root/target/release/agent}
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

home=$work/home
"$agent" --home "$home" optimize --dataset amazon --steps 1 --run "$home/runs/one" >"$work/log" 2>&1

start() { # further words: an environment
    # Else the server before may be read of, until the shell behind & opens the file anew.
    : >"$work/serve"
    env "$@" "$agent" --home "$home" serve --bundle one --base amazon --listen 127.0.0.1:0 2>"$work/serve" &
    server=$!
    until grep -q 'listening on' "$work/serve"; do
        kill -0 "$server"
        sleep 0.1
    done
    url=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$work/serve")
}

start
