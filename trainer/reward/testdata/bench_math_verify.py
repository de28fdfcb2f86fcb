"""Time of Math-Verify and of the graders here on the same labelled replies.

In a virtual environment with math-verify==0.9.0, from the root of the repository:

    python trainer/reward/testdata/bench_math_verify.py ../shared/data/math_responses.jsonl

Both sides are timed in CPU seconds of one core, one after the other in one run, so that
other programs on the machine do not count. Also prints Math-Verify's errors on the labels.
"""

import json
import re
import subprocess
import sys
import time

from math_verify import parse, verify


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]

    def once():
        return [verify(parse("$" + r["gold"] + "$"), parse(r["response"])) for r in rows]

    once()  # warm caches
    start = time.process_time()
    verdicts = once()
    theirs = (time.process_time() - start) / len(rows) * 1e6
    errors = sum(v != r["correct"] for v, r in zip(verdicts, rows))
    print(f"math-verify {theirs:10.1f} µs a row, {errors} of {len(rows)} differ from their label")
    out = subprocess.run(["go", "test", "./trainer/reward", "-run", "xxx", "-bench", "Replies", "-benchtime", "20x", "-cpu", "1"],
                         check=True, capture_output=True, text=True).stdout
    for name, ours in re.findall(r"BenchmarkReplies/(\S+)\s.*?([\d.]+) cpu-µs/row", out):
        print(f"{name:11} {float(ours):10.1f} µs a row, {theirs / float(ours):8.0f} times as fast")


if __name__ == "__main__":
    main()
