#!/usr/bin/env bash
# Prints a line for every entry of a cubin: kernel, card, registers, spilled bytes, static shared memory, HMMA and HGMMA
# instructions. What ptxas said when it was compiled lies beside it.
#
#   kernels/cuda/facts.sh sm_90a FILE.cubin
set -euo pipefail

cuobjdump -sass "$2" | awk '
	/^[ \t]*Function :/ { name = $3 }
	/[ \t]HMMA\./ { hmma[name]++ }
	/[ \t]HGMMA\./ { hgmma[name]++ }
	END { for (n in hmma) print n, "HMMA", hmma[n]; for (n in hgmma) print n, "HGMMA", hgmma[n] }' |
	awk -v card="$1" '
	FILENAME == "-" { count[$1 " " $2] = $3; next }
	/Compiling entry function/ { split($0, q, "\047"); name = q[2]; spilled = 0 }
	/bytes spill stores/ { spilled += $1 + $5 + $9 } # what lies on the stack was meant for registers, too
	/Used [0-9]+ registers/ {
		shared = 0
		for (i = 1; i < NF; i++) if ($i == "bytes" && $(i + 1) ~ /^smem/) shared = $(i - 1)
		for (i = 1; i < NF; i++) if ($i == "Used") registers = $(i + 1)
		print name, card, registers, spilled, shared, count[name " HMMA"] + 0, count[name " HGMMA"] + 0
	}' - "$2.log" | sort
