#!/usr/bin/env bash
# Compiles kernels/*.cu into a folder: images.mk says what lies there. Only what changed is compiled again.
#
#   kernels/cuda/build.sh OUTDIR            compiles
#   kernels/cuda/build.sh OUTDIR install    and puts the images where the binary takes them from, and bench/ptxas.txt
#
# nvcc is that of CUDA_HOME, or the one on PATH, or comes from wheels on PyPI (295 MB), which are unpacked in OUTDIR. Where
# none can be had, the script says so in a line and there are no images; with TANDEM_OFFLINE=1 it does not ask PyPI.
# Exits with 3 if there is no compiler and it is not to install.
set -euo pipefail
shopt -s nullglob

if [ $# -lt 1 ]; then
	echo "usage: $0 OUTDIR [install]" >&2
	exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
images=kernels/cuda/images

# What knows Blackwell is new enough. Pinned together: crt and nvvm of another version do not fit.
wheels="nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
	nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37"
complete() { [ -x "$1/nvcc" ] && [ -x "$1/cuobjdump" ] && [ -x "$1/nvdisasm" ] && "$1/nvcc" --list-gpu-arch | grep compute_100 >/dev/null; }

find_nvcc() {
	local bin
	for bin in "${CUDA_HOME:+$CUDA_HOME/bin}" "$(dirname "$(command -v nvcc 2>/dev/null || echo /none/nvcc)")" "$out"/venv/lib/python3*/site-packages/nvidia/cu13/bin; do
		if [ -n "$bin" ] && complete "$bin"; then
			echo "$bin"
			return
		fi
	done
	return 1
}

fetch() {
	[ "${TANDEM_OFFLINE:-}" != 1 ] || return 1
	[ -z "$(find "$out/none" -mmin -60 2>/dev/null)" ] || return 1 # it was asked for less than an hour ago
	echo "fetching nvcc from PyPI, 295 MB" >&2
	# shellcheck disable=SC2086 # a list of words
	if python3 -m venv "$out/venv" && "$out/venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 $wheels; then
		rm -f "$out/none"
	else
		touch "$out/none"
		return 1
	fi
} >/dev/null 2>>"$out/fetch.log"

exec 9>"$out/lock"
flock 9
nvcc=$(find_nvcc || { fetch && find_nvcc; } || true)
if [ -z "$nvcc" ]; then
	[ "${2:-}" = install ] || exit 3
	find "$images" -type f ! -name README.md -delete
	echo "make: no CUDA compiler here (nvcc 12.8 or newer with cuobjdump and nvdisasm in CUDA_HOME or on PATH, or wheels from PyPI): the binary will have no CUDA kernels and run on the CPU" >&2
	exit 0
fi

version=$("$nvcc/nvcc" --version | sed -n 's/.*release.*, V\([0-9.]*\)$/\1/p')
note() { [ "$(cat "$out/$1" 2>/dev/null)" = "$2" ] || echo "$2" >"$out/$1"; }
note compiler "$version $(sed -n 's/^FLAGS := //p' kernels/cuda/images.mk)"
sources=$(echo kernels/*.cu)
if [ "$(cat "$out/sources" 2>/dev/null)" != "$sources" ]; then
	for f in "$out"/*.gz "$images"/*.gz; do # what belongs to a .cu that is no more goes
		stem=${f##*/}
		stem=${stem%%.*}
		[ -f "kernels/$stem.cu" ] || rm -f "$out/$stem".* "$images/$stem".*
	done
	echo "$sources" >"$out/sources"
fi
MAKEFLAGS='' make --no-print-directory -s -j 2 -f kernels/cuda/images.mk NVCC="$nvcc" OUT="$out" IMAGES="$images" VERSION="$version" "${2:-all}" >&2

# bench/ptxas.txt is of one compiler: what another makes is no news.
if [ "${2:-}" = install ]; then
	read -r was <bench/ptxas.txt || was=
	read -r is <"$out/ptxas.txt"
	if [ -z "$was" ] || [ "$was" = "$is" ]; then
		cmp -s "$out/ptxas.txt" bench/ptxas.txt || cp "$out/ptxas.txt" bench/ptxas.txt
	fi
fi
