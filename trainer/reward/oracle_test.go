package reward_test

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandem/trainer/reward"
)

var pairsOut = flag.String("pairs", "", "write the pairs that the published graders' oracle judges to this file")

const shared = "../../../shared"

type pair struct {
	Response string `json:"response"`
	Label    string `json:"label"`
}

// key names a pair in the golden file, which holds no text of the data sets.
func (p pair) key() string {
	h := sha256.Sum256([]byte(p.Response + "\x00" + p.Label))
	return hex.EncodeToString(h[:6])
}

// sharedRows reads a JSON Lines file of the folder of data sets that may lie beside the
// repository; it is nil where there is none.
func sharedRows(t testing.TB, name string) []map[string]any {
	t.Helper()
	f, err := os.Open(filepath.Join(shared, name))
	if err != nil {
		t.Logf("%s is not beside the repository: its rows are left out", name)
		return nil
	}
	defer f.Close()
	var rows []map[string]any
	d := json.NewDecoder(bufio.NewReader(f))
	for d.More() {
		row := make(map[string]any)
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// goldAnswers are the gold answers of MATH-500 and of GSM8K's test split, each once.
func goldAnswers(t testing.TB) []string {
	var out []string
	seen := make(map[string]bool)
	add := func(s string) {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	for _, row := range sharedRows(t, "data/math500.jsonl") {
		add(row["answer"].(string))
	}
	for _, row := range sharedRows(t, "data/gsm8k_test.jsonl") {
		_, answer, _ := strings.Cut(row["answer"].(string), "#### ")
		add(answer)
	}
	return out
}

// algebraPairs are answers that the math grader has to decide by algebra.
var algebraPairs = [][2]string{
	{`x^2+2x+1`, `(x+1)^2`}, {`(x-1)(x+1)`, `x^2-1`}, {`x(x+1)`, `x^2+x`}, {`\frac{x^2-1}{x-1}`, `x+1`}, {`(x^2-1)/(x-1)`, `x+1`},
	{`\sqrt{8}`, `2\sqrt{2}`}, {`\sqrt{2}\sqrt{3}`, `\sqrt{6}`}, {`\frac{1}{\sqrt{2}}`, `\frac{\sqrt{2}}{2}`}, {`\sqrt{3+2\sqrt{2}}`, `1+\sqrt{2}`},
	{`1/(1+\sqrt{2})`, `\sqrt{2}-1`}, {`\sqrt{x^2}`, `x`}, {`\sqrt{x}^2`, `x`}, {`2\pi`, `\pi\cdot 2`}, {`\frac{\pi}{2}`, `0.5\pi`}, {`\frac{2\pi}{4}`, `\frac{\pi}{2}`},
	{`x+y`, `y+x`}, {`xy`, `yx`}, {`xyz`, `zyx`}, {`2x`, `x\cdot 2`}, {`2x`, `x*2`}, {`\frac{x}{2}`, `0.5x`}, {`x/2`, `\frac{1}{2}x`}, {`-x`, `-1x`}, {`x--y`, `x+y`},
	{`2^3`, `8`}, {`2^3x`, `8x`}, {`x^3x`, `x^4`}, {`2^{3}`, `8`}, {`2^x2`, `2*2^x`}, {`4^x`, `2^x2^x`}, {`x^y`, `y^x`}, {`3!x`, `6x`}, {`4!`, `24`}, {`n!/n`, `n!/n`},
	{`1.5`, `3/2`}, {`1.50`, `\frac{3}{2}`}, {`0.333`, `1/3`}, {`0.1`, `1/10`}, {`0.3`, `3/10`}, {`0.1+0.2`, `3/10`}, {`0.7*10`, `7.0`}, {`1.1*1.1`, `1.21`}, {`2.5/0.5`, `5`},
	{`1\frac12`, `1.5`}, {`-1\frac12`, `-1.5`}, {`7 3/4`, `31/4`}, {`7 3/4`, `7.75`}, {`3/4+1/4`, `1.0`}, {`1/3+1/3`, `2/3`}, {`2/3`, `4/6`}, {`-2/3`, `2/-3`},
	{`(1,2)`, `(2,1)`}, {`(0.5,2)`, `(1/2,2)`}, {`[0,1]`, `(0,1)`}, {`(\sqrt{8},1)`, `(2\sqrt{2},1)`}, {`(x,1)`, `(x,2-1)`}, {`(1,000,2)`, `(1000,2)`}, {`(a,b)`, `(a, b )`},
	{`1,234,567`, `1234567`}, {`12,34`, `1234`}, {`1,2`, `2,1`}, {`1e3`, `1000`}, {`10^3`, `1000`}, {`2\times10^3`, `2000`}, {`3 million`, `3000000`}, {`5 cm`, `5`}, {`5 cm^2`, `5`},
	{`\text{east}`, `East`}, {`\text{A}`, `A`}, {`\textbf{A}`, `A`}, {`(A)`, `A`}, {`\mathrm{A}`, `a`}, {`yes`, `Yes`}, {`x=5`, `5`}, {`5=x`, `5`}, {`y=2x`, `2x`}, {`x>5`, `x>5.0`},
	{`\{1,2\}`, `1,2`}, {`1 \text{ and } 2`, `1,2`}, {`1 or 2`, `1,2`}, {`1 \pm \sqrt{2}`, `1\pm\sqrt2`}, {`\infty`, `-\infty`}, {`90^{\circ}`, `90`}, {`90^\circ`, `90 degrees`},
	{`\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}`, `\begin{pmatrix}1&2\\3&4\end{pmatrix}`}, {`\begin{pmatrix} 1 \\ 2 \end{pmatrix}`, `\begin{pmatrix} 1 & 2 \end{pmatrix}`},
	{`i`, `-i`}, {`2+3i`, `3i+2`}, {`i^2`, `-1`}, {`e^2`, `e*e`}, {`\ln 4`, `2\ln 2`}, {`ln(4)`, `2ln(2)`}, {`\log 4`, `2\log 2`}, {`|x|`, `|x|`}, {`x(2)`, `2x`}, {`(2)(3)`, `2*3.0`},
	{`x^{-1}`, `1/x`}, {`x^-1`, `1/x`}, {`1/x+1/y`, `(x+y)/(xy)`}, {`a^2-b^2`, `(a-b)(a+b)`}, {`a^3-b^3`, `(a-b)(a^2+ab+b^2)`}, {`\frac{a}{b}`, `ab^-1`}, {`x^2.0`, `x^2`}, {`042`, `42`},
	{`042x`, `42x`}, {`5!!`, `15`}, {`2x+`, `2x`}, {`()`, `1`}, {`x\!y`, `xy`}, {`\frac{3}{2}x`, `1.5x`}, {`\sqrt{\frac{1}{4}}`, `\frac12`}, {`\sqrt{0.25}`, `\frac12`}, {`\sqrt[3]{8}`, `2`},
	{`\sqrt{50}`, `5\sqrt2`}, {`\sqrt{50}/5`, `\sqrt2`}, {`\sqrt5+\sqrt5`, `2\sqrt5`}, {`(\sqrt5+1)/2`, `2/(\sqrt5-1)`}, {`\sqrt{5}^2`, `5.0`}, {`\frac{\sqrt{6}-\sqrt{2}}{4}`, `\frac{\sqrt6}{4}-\frac{\sqrt2}{4}`},
}

// asResponse is a response in which every published grader finds the answer.
func asResponse(answer string) string {
	return "</think>So it is \\boxed{" + answer + "}.\nAnswer: " + answer
}

// oraclePairs are the replies, every gold answer in every rewriting and against
// another one, and the grading cases.
func oraclePairs(t testing.TB) []pair {
	var out []pair
	seen := make(map[pair]bool)
	add := func(response, label string) {
		p := pair{response, label}
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, row := range sharedRows(t, "data/math_responses.jsonl") {
		add(row["response"].(string), row["gold"].(string))
	}
	golds := goldAnswers(t)
	for i, gold := range golds {
		for _, r := range rewritings {
			add(asResponse(r.apply(gold)), gold)
		}
		add(asResponse(golds[(i*7+3)%len(golds)]), gold)
	}
	for _, p := range algebraPairs {
		add(asResponse(p[0]), p[1])
		add(asResponse(p[1]), p[0])
	}
	for _, c := range gradingCases(t) {
		if c.Kind == "grade_pair" {
			add(asResponse(c.Input.Answer), c.Input.Gold)
		}
	}
	return out
}

// knownDisagreements lists pairs, by the text of answer and label, on which this
// package and the oracle differ, with the reason.
var knownDisagreements = map[[2]string]string{}

func TestPublishedAgainstOracle(t *testing.T) {
	pairs := oraclePairs(t)
	if *pairsOut != "" {
		writePairs(t, pairs)
		return
	}
	golden := readVerdicts(t)
	names := []string{"math", "deepscaler", "dapo", "dapo-strict"}
	for k, name := range names {
		g, err := reward.New(name)
		if err != nil {
			t.Fatal(err)
		}
		agreed, compared := 0, 0
		for _, p := range pairs {
			want, ok := golden[p.key()]
			if !ok {
				t.Fatalf("no verdict on %q: generate the golden file again", p)
			}
			if want[k] == 'T' { // the published code gives no verdict in 10 s
				continue
			}
			compared++
			got := byte('0')
			if g.Grade(p.Response, p.Label).Score == 1 {
				got = '1'
			}
			if (want[k] == '1') == (got == '1') {
				agreed++
				continue
			}
			answer := tail(p.Response)
			if _, known := knownDisagreements[[2]string{answer, p.Label}]; !known {
				t.Errorf("%s: %q with label %q: got %c, the oracle says %c", name, answer, p.Label, got, want[k])
			}
		}
		t.Logf("%s: %d of %d verdicts agree (%.3f %%)", name, agreed, compared, 100*float64(agreed)/float64(compared))
		if float64(agreed) < 0.999*float64(compared) {
			t.Errorf("%s agrees on less than 99.9 %%", name)
		}
	}
}

// tail is the answer of a response made by asResponse, or the end of another one.
func tail(response string) string {
	if _, after, ok := strings.Cut(response, "\nAnswer: "); ok && strings.HasPrefix(response, "</think>") {
		return after
	}
	return response[max(0, len(response)-60):]
}

func writePairs(t *testing.T, pairs []pair) {
	f, err := os.Create(*pairsOut)
	if err != nil {
		t.Fatal(err)
	}
	e := json.NewEncoder(f)
	for _, p := range pairs {
		if err := e.Encode(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("wrote %d pairs", len(pairs))
}

func readVerdicts(t *testing.T) map[string]string {
	f, err := os.Open("testdata/published.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	s := bufio.NewScanner(z)
	for s.Scan() {
		if key, verdict, ok := strings.Cut(s.Text(), " "); ok && key != "#" {
			out[key] = verdict
		}
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return out
}
