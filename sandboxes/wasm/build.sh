#!/usr/bin/env bash
# Builds the engine for Rhai inside WebAssembly and the examples, and notes what the engine was built
# from. `--check` builds elsewhere and says whether the same bytes come out.
#
# Needs Rust's target wasm32-unknown-unknown. Where rustup cannot fetch it, the standard library is
# built from Debian's packages rustc-web, cargo-web and rust-web-src (bookworm), which are unpacked
# below $XDG_CACHE_HOME, never installed; AGENT_WASM_DEBIAN=1 takes that way in any case.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

target=wasm32-unknown-unknown
cache="${XDG_CACHE_HOME:-$HOME/.cache}/agent-wasm"
export CARGO_TARGET_DIR="${AGENT_WASM_TARGET_DIR:-$cache/target}"
export CARGO_INCREMENTAL=0
# The same bytes from the same sources: no random seeds, no paths of this machine.
export CONST_RANDOM_SEED=agent
stack=$((16 << 20))
export RUSTFLAGS="-C link-arg=-zstack-size=$stack --remap-path-prefix=$PWD=guest --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"

build() { # DIRECTORY
    (cd "$1" && "${cargo[@]}" build --release --locked --target "$target" "${options[@]}")
}

with_rustup() {
    rustup target list --installed 2>/dev/null | grep -qx "$target" ||
        rustup target add "$target" 2>/dev/null
}

# Debian's compiler with the sources of its standard library.
with_debian() {
    local root="$cache/debian" packages=(rustc-web cargo-web rust-web-src libstd-rust-web-1.96
        libstd-rust-web-dev libllvm22 libgit2-1.5 libhttp-parser2.9 libmbedtls14 libmbedx509-1
        libmbedcrypto7)
    if [ ! -x "$root/usr/bin/rustc" ]; then
        mkdir -p "$cache/packages" && (cd "$cache/packages" && apt-get download "${packages[@]}")
        mkdir -p "$root" && for package in "$cache"/packages/*.deb; do dpkg -x "$package" "$root"; done
    fi
    export RUSTC="$root/usr/bin/rustc" RUSTC_BOOTSTRAP=1
    export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu"
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$(find "$HOME/.rustup/toolchains" -name rust-lld | head -1)"
    export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER
    cargo=("$root/usr/bin/cargo")
    options=(-Zbuild-std=std,panic_abort)
}

cargo=(cargo) options=()
if [ -n "${AGENT_WASM_DEBIAN:-}" ] || ! with_rustup; then with_debian; fi

# npm's binaryen, below the same folder; what it leaves out is not needed to run.
optimizer="$cache/npm/node_modules/.bin/wasm-opt"
if [ ! -x "$optimizer" ]; then
    mkdir -p "$cache/npm"
    npm install --silent --no-fund --prefix "$cache/npm" binaryen@132.0.0 assemblyscript@0.28.20
fi
optimize() { # FROM TO
    "$optimizer" -O2 --enable-bulk-memory --enable-sign-ext --enable-mutable-globals \
        --enable-nontrapping-float-to-int --enable-reference-types --enable-multivalue \
        --strip-debug --strip-producers "$1" -o "$2"
}

out=.
if [ "${1:-}" = --check ]; then out="$(mktemp -d)"; mkdir "$out/examples"; fi

build rhai-guest
optimize "$CARGO_TARGET_DIR/$target/release/rhai_guest.wasm" "$out/rhai.wasm"

# An example needs no stack to speak of.
export RUSTFLAGS="${RUSTFLAGS/zstack-size=$stack/zstack-size=65536}"
build examples/rust
optimize "$CARGO_TARGET_DIR/$target/release/brand_then_text.wasm" "$out/examples/rust.wasm"
"$cache/npm/node_modules/.bin/asc" examples/assemblyscript/program.ts --optimize --runtime stub \
    --use abort= --disable simd --outFile "$out/examples/assemblyscript.wasm"
ls -l "$out"/*.wasm "$out"/examples/*.wasm

if [ "$out" != . ]; then
    # The order of functions of the example in Rust depends on where it is built.
    cmp rhai.wasm "$out/rhai.wasm"
    cmp examples/assemblyscript.wasm "$out/examples/assemblyscript.wasm"
    rm -r "$out"
    exit
fi

root=../..
(cd "$root" && sha256sum src/sandbox/{alloc,failure,given,limits}.rs src/sandbox/wasm/wire.rs \
    src/sandbox/rhai/{bridge,engine,meter,natives,values}.rs \
    sandboxes/wasm/rhai-guest/{Cargo.toml,Cargo.lock} \
    $(find sandboxes/wasm/rhai-guest/src -name '*.rs' | LC_ALL=C sort) \
    sandboxes/wasm/rhai.wasm) >rhai.digest
