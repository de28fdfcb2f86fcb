#!/usr/bin/env bash
# Keeps build/gpu/report under bench/results/<device>/. Run from the root.
set -euo pipefail
name=$(sed -n 's/^# //p; 1q' build/gpu/report/report.md | sed 's/,.*//; s/[^A-Za-z0-9]\+/-/g; s/-$//' | tr A-Z a-z)
mkdir -p "bench/results/$name"
cp build/gpu/report/report.json build/gpu/report/report.md "bench/results/$name/"
echo "bench/results/$name"
