package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"tandem/trainer"
)

// ends is the number of steps averaged at each end of a run.
const ends = 5

// summary shows what the run came to, and fails if the reward did not rise as expected.
func (l *loop) summary() error {
	first, last := mean(l.rewards[:min(ends, len(l.rewards))]), mean(l.rewards[max(0, len(l.rewards)-ends):])
	if len(l.rewards) > 1 {
		fmt.Printf("\nreward by step\n%s", plot(l.rewards, 60, 10))
		fmt.Printf("mean reward of the first %d steps %.3f, of the last %d %.3f\n", min(ends, len(l.rewards)), first, min(ends, len(l.rewards)), last)
	}
	before, ok := l.evals[l.recipe.Warmup.Steps]
	after, ok2 := l.evals[l.recipe.Steps()]
	if ok && ok2 && l.recipe.Train.Steps > 0 {
		fmt.Printf("\nheld out            before   after\n")
		fmt.Printf("accuracy, greedy    %6.3f  %6.3f\n", before[0].Accuracy, after[0].Accuracy)
		fmt.Printf("reward, sampled     %6.3f  %6.3f\n", before[1].Reward, after[1].Reward)
		fmt.Printf("tokens of a reply   %6.1f  %6.1f\n", before[1].Length, after[1].Length)
		if l.recipe.Tools.Name != "" {
			fmt.Printf("replies that call   %6.3f  %6.3f\n", before[1].Called, after[1].Called)
			fmt.Printf("calls of a reply    %6.2f  %6.2f\n", before[1].Calls, after[1].Calls)
			fmt.Printf("failed calls        %6.3f  %6.3f\n", before[1].Failed, after[1].Failed)
		}
		fmt.Println()
		fmt.Print(sideBySide(before[1].Replies, after[1].Replies))
	}
	fmt.Printf("run directory %s, the trained model in %s/model\n", l.dir.Path(), l.dir.Path())
	if l.expectRise > 0 && !(last-first >= l.expectRise) {
		return fmt.Errorf("the mean reward of the last %d steps exceeds that of the first by %.3f, expected %.3f", min(ends, len(l.rewards)), last-first, l.expectRise)
	}
	return nil
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// sideBySide shows replies to the same problems from before and after.
func sideBySide(before, after []trainer.Rendered) string {
	const width = 40
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s  %s\n", width, "reply before", "reply after")
	for i := range min(len(before), len(after)) {
		fmt.Fprintf(&b, "%s\n", printable(before[i].Problem))
		left, right := lines(before[i].Reply, width), lines(after[i].Reply, width)
		for n := range max(len(left), len(right)) {
			fmt.Fprintf(&b, "%s  %s\n", pad(at(left, n), width), at(right, n))
		}
		fmt.Fprintf(&b, "%s  %s\n", pad(verdict(before[i]), width), verdict(after[i]))
	}
	return b.String()
}

func verdict(r trainer.Rendered) string {
	if r.Reward > 0 {
		return "  right"
	}
	return fmt.Sprintf("  wrong: %s, want %s", r.Reason, r.Answer)
}

// lines breaks text into lines of at most width runes.
func lines(text string, width int) []string {
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = printable(line)
		r := []rune(line)
		for len(r) > width {
			out, r = append(out, string(r[:width])), r[width:]
		}
		out = append(out, string(r))
	}
	return out
}

// printable is text that moves no cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func at(lines []string, n int) string {
	if n < len(lines) {
		return lines[n]
	}
	return ""
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// plot draws values from 0 to 1 (or to their range, if it is larger) as bars of eighths.
func plot(values []float64, width, height int) string {
	lo, hi := 0.0, 1.0
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	columns := make([]float64, min(width, len(values)))
	for c := range columns {
		columns[c] = mean(values[c*len(values)/len(columns) : (c+1)*len(values)/len(columns)])
	}
	eighths := []rune(" ▁▂▃▄▅▆▇█")
	var b strings.Builder
	for row := height - 1; row >= 0; row-- {
		label := "      "
		if row == height-1 || row == 0 {
			edge := lo
			if row > 0 {
				edge = hi
			}
			label = fmt.Sprintf("%5.2f ", edge)
		}
		fmt.Fprintf(&b, "%s│", label)
		for _, v := range columns {
			filled := (v-lo)/(hi-lo)*float64(height) - float64(row)
			b.WriteRune(eighths[int(8*min(max(filled, 0), 1))])
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "      └%s\n", strings.Repeat("─", len(columns)))
	return b.String()
}
