#!/usr/bin/env bash
# Builds libtokenizers.a, the Rust library behind github.com/daulet/tokenizers, into a folder.
#
#   tokenizer/native/build.sh OUTDIR
#
# The library comes from the Go module that go.mod asks for, and its crates from crates.io, pinned by the
# Cargo.lock beside this script. Two edits make that possible: the crate takes tiktoken-rs from the registry
# (upstream names a git address, and nothing here reads tiktoken files), and the wasm member is left out.
# Done already for this module version, lock and script: returns at once.
set -euo pipefail

if [ $# -ne 1 ]; then
	echo "usage: $0 OUTDIR" >&2
	exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module=github.com/daulet/tokenizers

need() { # command, how to install it
	if ! command -v "$1" >/dev/null; then
		echo "build the tokenizer library: $1 is not installed; install it with: $2" >&2
		exit 1
	fi
}
need go "see https://go.dev/doc/install"

mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$here"
version=$(go list -m -f '{{.Version}}' "$module")
stamp="$version $(cat Cargo.lock build.sh | sha256sum | cut -d' ' -f1) $(uname -m)"
if [ -f "$out/libtokenizers.a" ] && [ "$(cat "$out/libtokenizers.stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi

need cargo "apt-get install -y cargo (1.85 or newer), or https://rustup.rs"
need cc "apt-get install -y build-essential"
need c++ "apt-get install -y build-essential"

go mod download "$module"
src=$(go list -m -f '{{.Dir}}' "$module")
work=$(mktemp -d "$out/tokenizers.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp -r "$src/." "$work"
chmod -R u+w "$work"
cp Cargo.lock "$work/Cargo.lock"
sed -i 's|^tiktoken-rs = .*|tiktoken-rs = "0.7.0"|' "$work/crates/tokenizers/Cargo.toml"
sed -i '/"crates\/tokenizers-wasm",/d' "$work/Cargo.toml"

echo "building libtokenizers.a ($module $version), about a minute on two cores" >&2
(cd "$work" && env -u RUSTFLAGS CARGO_TARGET_DIR="$work/target" cargo build --release --locked --quiet -p tokenizers-ffi)
strip --strip-debug "$work/target/release/libtokenizers_ffi.a" 2>/dev/null || true
mv "$work/target/release/libtokenizers_ffi.a" "$out/libtokenizers.a"
printf '%s\n' "$stamp" >"$out/libtokenizers.stamp"
