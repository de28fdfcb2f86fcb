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
left() { echo $((175 - SECONDS > 1 ? 175 - SECONDS : 1)); } # seconds
run() {
	local name=$1
	shift
	if timeout "$(left)" "$@" >"$name.log" 2>&1; then
		echo "ok    $name ($(grep -c '^ *--- PASS' "$name.log") tests, $SECONDS s)"
	else
		echo "FAIL  $name, status $?, $SECONDS s:"
		grep -E '^ *(--- FAIL|[a-z_0-9]+\.go:)|panic|FAIL' "$name.log" | grep -v KERNELTEST_SEED | cut -c1-300 | head -60
		failed=1
	fi
}
# First what all else rests on: what the tensor cores' sums are, and whether every form has the same.
run chains ./kernels.test -test.run ChainCUDA -test.v
for p in kernels engine trainer; do run "$p" "./$p.test" -test.run CUDA -test.v; done
unset TANDEM_BITS_IN
run random-0.6b ./bench.test -test.run RandomModelCUDA -test.v
# As far as the time goes: tools like these slow a kernel down ten times and more.
for tool in memcheck racecheck; do
	if ! command -v compute-sanitizer >/dev/null; then
		echo "skip  $tool: compute-sanitizer is not installed"
		continue
	fi
	timeout "$(($(left) / 2 + 1))" compute-sanitizer --tool "$tool" --error-exitcode 1 ./kernels.test -test.run '(Linear|Attention|Sample).*CUDA' >"$tool.log" 2>&1
	case $? in
	0) echo "ok    $tool" ;;
	124) echo "skip  $tool: it found nothing in the time that was left, and did not end" ;;
	*)
		echo "FAIL  $tool:"
		grep -E '^========= ' "$tool.log" | head -40
		failed=1
		;;
	esac
done
exit $failed
