package reward_test

import (
	"testing"

	"tandem/trainer/reward"
)

// BenchmarkReplies grades the 800 labelled replies; divide Math-Verify's time on the
// same rows (testdata/bench_math_verify.py, which runs this benchmark as well) by it.
func BenchmarkReplies(b *testing.B) {
	rows := sharedRows(b, "data/math_responses.jsonl")
	if len(rows) == 0 {
		b.Skip("the labelled replies are not beside the repository")
	}
	for _, name := range reward.Names() {
		g, err := reward.New(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			start := cpuTime()
			for range b.N {
				for _, row := range rows {
					g.Grade(row["response"].(string), row["gold"].(string))
				}
			}
			b.ReportMetric(float64((cpuTime()-start).Microseconds())/float64(b.N*len(rows)), "cpu-µs/row")
		})
	}
}
