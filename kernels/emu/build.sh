#!/bin/sh
# Builds the emulator into build/emu. Does nothing, and says so, where it can't be had.
set -eu
cd "$(dirname "$0")/../.."
if [ "$(uname -m)" != x86_64 ] || [ "$(uname -s)" != Linux ]; then
	echo 'make: the emulated GPU runs on Linux on amd64 only: tests of CUDA kernels will skip' >&2
	exit 0
fi
if ! command -v "${CXX:-g++}" >/dev/null; then
	echo 'make: a C++ compiler is not installed (apt-get install -y g++): tests of CUDA kernels will skip' >&2
	exit 0
fi
exec "${MAKE:-make}" --no-print-directory -s -j "${JOBS:-2}" -f kernels/emu/Makefile
