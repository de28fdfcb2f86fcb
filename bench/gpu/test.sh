#!/usr/bin/env bash
# On a machine with a GPU, from the folder that bundle.sh made: every kernel against the CPU's answer and against the emulated
# card's bits, whole steps of training, and what the sampler says against the trainer, for a random 0.6B. At most three
# minutes. Exit status 2 where there is no GPU: that is no success.
set -uo pipefail
cd "$(dirname "$0")"
./tandem bench --models= --decode= --memory 2048 --out probe || { echo 'test-gpu: there is no GPU that this build can use: nothing was tested' >&2; exit 2; }
KERNELTEST_SEED=$(cat seed)
export KERNELTEST_SEED TANDEM_TEST_GPU=1 TANDEM_BITS_IN=$PWD/bits.jsonl
failed=0
run() {
	local name=$1
	shift
	if timeout 150 "$@" >"$name.log" 2>&1; then
		echo "ok    $name ($(grep -c '^ *--- PASS' "$name.log") tests)"
	else
		echo "FAIL  $name:"
		grep -E '^ *(--- FAIL|[a-z_0-9]+\.go:)|panic|FAIL' "$name.log" | head -40
		failed=1
	fi
}
for p in kernels engine trainer; do run "$p" "./$p.test" -test.run CUDA -test.v; done
unset TANDEM_BITS_IN
run random-0.6b ./bench.test -test.run RandomModelCUDA -test.v
if command -v compute-sanitizer >/dev/null; then
	for tool in memcheck racecheck; do
		run "$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 ./kernels.test -test.run '(Linear|Attention|Sample).*CUDA'
	done
else
	echo 'skip  memcheck, racecheck: compute-sanitizer is not installed'
fi
exit $failed
