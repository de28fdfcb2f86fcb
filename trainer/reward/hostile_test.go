package reward_test

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem/trainer/reward"
)

func rep(s string, n int) string { return strings.Repeat(s, n) }

// hostileAnswers are answers that a policy under training may write, none of them equal
// to hostileGold.
var hostileAnswers = map[string]string{
	"power tower":            `9^{9^{9^9}}`,
	"tall power tower":       rep("9^{", 90) + "9" + rep("}", 90),
	"tower of plain powers":  rep("9^", 2000) + "9",
	"double star tower":      "9**9**9**9",
	"large power":            `9^{9^7}`,
	"many large powers":      rep(`9^{4000}+`, 1500) + "1",
	"power of a sum":         `(a+b+c+d+e+f+g)^{99}`,
	"powers of sums":         rep(`(a+b+c+d)^{40}`, 20),
	"nested powers of sums":  rep("(x+", 50) + "y" + rep(")^9", 50),
	"open braces":            rep("{", 1_000_000),
	"open brackets":          rep("(", 1_000_000),
	"open sets":              rep(`\{`, 300_000),
	"braces":                 rep("{", 5000) + "1" + rep("}", 5000),
	"nested fractions":       rep(`\frac{1}{1+`, 10_000) + "1" + rep("}", 10_000),
	"shallow fractions":      rep(`\frac{1}{x+`, 38) + "1" + rep("}", 38),
	"continued fraction":     rep(`\frac{1}{a+\frac{b}{c+`, 18) + "1" + rep("}}", 18),
	"frac without end":       rep(`\frac`, 100_000),
	"roots":                  rep(`\sqrt{2+`, 38) + "2" + rep("}", 38),
	"roots of variables":     rep(`\sqrt{x+`, 38) + "y" + rep("}", 38),
	"sines":                  rep(`\sin(`, 35) + "x" + rep(")", 35),
	"sum of sines":           rep(`\sin(x+1)+`, 1500) + "1",
	"product of sines":       rep(`\sin(x)\cos(y)`, 1000),
	"sum of roots":           rep(`\sqrt{1000003}+\sqrt{999983}+`, 500) + "1",
	"roots of primes":        `\sqrt{2}\sqrt{3}\sqrt{5}(\sqrt{7}+\sqrt{11})^{60}(\sqrt{13}+\sqrt{17})^{60}`,
	"root of a large number": `\sqrt{` + rep("7", 3900) + "}",
	"high root":              `\sqrt[999]{` + rep("7", 900) + "}",
	"digits":                 rep("7", 10_000_000),
	"digits after a point":   "0." + rep("7", 19_000),
	"repeating":              `0.\overline{` + rep("7", 15_000) + "}",
	"leading zeros":          rep("0", 19_000) + "7",
	"commas":                 rep("1,", 100_000) + "1",
	"commas in brackets":     "(" + rep("1,", 9000) + "1)",
	"groups":                 "1" + rep(",000", 4900),
	"groups of text":         "x=1" + rep(",000", 4900),
	"list of expressions":    rep(`\sin(x),`, 290) + "1",
	"factorial":              `(10^9)!`,
	"factorial of factorial": `((((9!)!)!)!)!`,
	"factorials":             rep("999!", 2000),
	"many factorial marks":   "3" + rep("!", 15_000),
	"binomial":               `\binom{10^9}{5\cdot10^8}`,
	"binomials":              rep(`\binom{2000}{1000}`, 500),
	"huge exponent":          `10^{10^{10}}`,
	"exponent of ten":        "1e99999",
	"tiny":                   "1e-99999",
	"exp of exp":             `e^{e^{e^{e^e}}}`,
	"log tower":              `\log_{2^7}(\log_{2^6}(\log_{2^5}(\log_{2^4}(\log_{2^3}x))))`,
	"invalid UTF-8":          "\xff\xfe\x80 1 \xc3",
	"NUL":                    "1\x002\x00",
	"control characters":     rep("\x01\x02\x1b", 3000),
	"bars":                   rep("|", 15_000),
	"bars round x":           rep("|", 50) + "x" + rep("|", 50),
	"signs":                  rep("-", 19_999) + "x",
	"plus minus":             rep(`1\pm`, 2000) + "1",
	"text":                   `\text{` + rep("word ", 3000) + "}",
	"nested text":            rep(`\text{`, 3000) + "a" + rep("}", 3000),
	"matrix":                 `\begin{pmatrix}` + rep("1&", 5000) + `\end{pmatrix}`,
	"nested matrices":        rep(`\begin{pmatrix}`, 500) + rep(`\end{pmatrix}`, 500),
	"unions":                 rep(`(1,2)\cup`, 1500) + "(1,2)",
	"scattered unions":       rep(`(\sqrt{2},\sqrt{3})\cup(\pi,4)\cup`, 15) + "(0,1)",
	"inequalities":           rep("x<", 5000) + "1",
	"equation":               rep("x+y+", 2000) + "z=(a+b+c)^{20}",
	"colons":                 rep("1:", 9000) + "1",
	"backslashes":            rep(`\`, 19_999),
	"left and right":         rep(`\left(\right.`, 1000),
	"subscripts":             "x" + rep("_{x", 1000) + rep("}", 1000),
	"letters":                rep("abcdefgh", 2000),
	"sum of letters":         rep("a+b-c+", 3000) + "d",
	"product of sums":        rep("(a+b)(a-b)", 200),
	"units":                  "5" + rep(" cm", 5000),
	"percent":                "5" + rep("%", 15_000),
	"dollars":                rep("$", 19_000) + "5",
	"primes":                 "x" + rep("'", 10_000),
	"degree":                 "5" + rep(`^\circ`, 3000),
	"mixed numbers":          rep(`1\frac12`, 1500),
	"functions":              rep(`\sin`, 5000) + "x",
	"named functions":        rep("f(", 50) + "x" + rep(")", 50),
	"unclosed environment":   rep(`\begin{pmatrix}1`, 100),
	"division by zero":       `\frac{1}{` + rep("(1-1)+", 500) + "0}",
	"quotients":              "1" + rep("/(x+1)", 300),
	"sum of quotients":       rep(`\frac{1}{x+y}+`, 300) + "1",
	"sum of other quotients": `\frac{1}{a+b}+\frac{1}{b+c}+\frac{1}{c+d}+\frac{1}{d+f}+\frac{1}{f+g}+\frac{1}{g+h}+\frac{1}{h+k}+\frac{1}{k+l}+\frac{1}{l+m}`,
}

const hostileGold = `\frac{17}{23}`

// TestHostileAnswers grades answers that try to take time, memory or the process. The
// verdict must be "wrong", the same each time, for no more than 64 MB of allocations.
// The time is logged; BenchmarkHostile measures it.
func TestHostileAnswers(t *testing.T) {
	for _, name := range reward.Names() {
		g, err := reward.New(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, answer := range hostileAnswers {
			response := "</think>Answer: \\boxed{" + answer + "}"
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := cpuTime()
			r := g.Grade(response, hostileGold)
			took := cpuTime() - start
			runtime.ReadMemStats(&after)
			if took > 20*time.Millisecond {
				t.Logf("%s: %s took %v: %s", name, what, took, r.Reason)
			}
			if r.Score == 1 {
				t.Errorf("%s: %s counts as right: %+.200v", name, what, r)
			}
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 64 {
				t.Errorf("%s: %s allocated %d MB", name, what, mb)
			}
			if again := g.Grade(response, hostileGold); again != r {
				t.Errorf("%s: %s gives %+.200v, then %+.200v", name, what, r, again)
			}
		}
	}
}

// TestHostileResponses puts the trouble around the box.
func TestHostileResponses(t *testing.T) {
	responses := map[string]string{
		"boxes":          rep(`\boxed{`, 200_000),
		"empty boxes":    rep(`\boxed{}`, 200_000),
		"thinking":       rep("<think>", 200_000) + `\boxed{7}`,
		"closed often":   rep("</think>", 200_000) + rep("{", 100_000),
		"answer lines":   rep("Answer: ", 300_000),
		"spaces":         "Answer" + rep(" ", 1_000_000) + "7",
		"one long line":  rep("a", 10_000_000),
		"binary":         rep("\x00\xff\x80", 1_000_000),
		"unclosed box":   `\boxed{7` + rep(" ", 5_000_000),
		"empty":          "",
		"only backslash": `\`,
	}
	for _, name := range reward.Names() {
		g, err := reward.New(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, response := range responses {
			start := cpuTime()
			if r := g.Grade(response, "13"); r.Score == 1 {
				t.Errorf("%s: %s counts as right", name, what)
			}
			if took := cpuTime() - start; took > 20*time.Millisecond {
				t.Logf("%s: %s took %v", name, what, took)
			}
		}
	}
}

// TestHostileLabels checks and grades against labels that no data set should hold.
func TestHostileLabels(t *testing.T) {
	for _, name := range reward.Names() {
		g, err := reward.New(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, label := range hostileAnswers {
			_ = g.Check(label) // must return
			if r := g.Grade("</think>Answer: \\boxed{"+hostileGold+"}", label); r.Score == 1 {
				t.Errorf("%s: label %s counts as right", name, what)
			}
		}
	}
}

// cpuTime is what this process has used so far; other programs do not count.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHostile reports the slowest answer of each grader.
func BenchmarkHostile(b *testing.B) {
	for _, name := range reward.Names() {
		g, err := reward.New(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			var worst time.Duration
			for range b.N {
				for what, answer := range hostileAnswers {
					start := cpuTime()
					g.Grade("</think>Answer: \\boxed{"+answer+"}", hostileGold)
					if took := cpuTime() - start; took > worst {
						worst = took
						b.Logf("%s took %v", what, took)
					}
				}
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
		})
	}
}
