#!/usr/bin/env bash
# Prepares build/gpu and packs it as build/gpu.tar.gz: all that test.sh and bench.sh want on a machine that has nothing but a
# driver. The emulated card's bits of every kernel test are in it. Run from the root, after make build and make emu.
set -euo pipefail
out=build/gpu
rm -rf "$out" && mkdir -p "$out"
emulator=build/emu/libcuda-emu.so
[ -f "$emulator" ] || { echo "gpu-bundle: there is no $emulator: make emu builds it where that is possible" >&2; exit 1; }
bin/tandem version | grep -q 'kernels for' || { echo 'gpu-bundle: bin/tandem has no kernels in it: make build compiles them where nvcc or PyPI can be had' >&2; exit 1; }

cp bin/tandem bench/yardsticks.py bench/gpu/test.sh bench/gpu/bench.sh "$out"
for p in kernels engine trainer bench; do
	go test -c -ldflags='-s -w' -o "$out/$p.test" "./$p"
done

seed=$RANDOM
echo "$seed" >"$out/seed"
export KERNELTEST_SEED=$seed TANDEM_BITS_OUT=$PWD/$out/bits.jsonl
unset TANDEM_TEST_GPU
# In folders of their own, so that a test finds the emulator above it as it does in the tree.
for p in kernels engine trainer; do
	(cd "$p" && "$OLDPWD/$out/$p.test" -test.run CUDA)
done
if command -v strip >/dev/null; then strip "$out"/tandem "$out"/*.test; fi
tar -C build -czf build/gpu.tar.gz gpu
ls -l build/gpu.tar.gz
