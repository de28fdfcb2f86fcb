#!/usr/bin/env bash
# On a machine with a GPU, from the folder that bundle.sh made: kernels, decoding, and the yardsticks if there is a python3 with
# torch. At most four minutes; the report is in report/. Exit status 2 where there is no GPU. What ends early, for want of time
# or memory, leaves a report of what was measured, and a status that is not 0.
set -uo pipefail
cd "$(dirname "$0")"
rm -rf report
timeout 170 ./tandem bench --out report "$@"
status=$?
[ -f report/report.json ] || exit $status
if timeout 30 python3 -c 'import torch' 2>/dev/null; then
	timeout $((235 - SECONDS)) python3 yardsticks.py report/report.json >yardsticks.jsonl || echo 'bench-gpu: the yardsticks did not end in time or failed: what they wrote is used' >&2
	./tandem bench --out report --yardsticks yardsticks.jsonl || status=1
else
	echo 'bench-gpu: there is no python3 with torch: no yardsticks'
fi
cat report/report.md
exit $status
