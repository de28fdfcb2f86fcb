#!/usr/bin/env bash
# On a machine with a GPU, from the folder that bundle.sh made: kernels, decoding, and the yardsticks if there is a python3 with
# torch. At most four minutes; the report is in report/. Exit status 2 where there is no GPU.
set -uo pipefail
cd "$(dirname "$0")"
timeout 180 ./tandem bench --out report "$@" || exit
if python3 -c 'import torch' 2>/dev/null; then
	timeout 100 python3 yardsticks.py report/report.json >yardsticks.jsonl || echo 'bench-gpu: the yardsticks did not end in time or failed: what they wrote is used' >&2
	./tandem bench --out report --yardsticks yardsticks.jsonl
else
	echo 'bench-gpu: there is no python3 with torch: no yardsticks'
fi
cat report/report.md
