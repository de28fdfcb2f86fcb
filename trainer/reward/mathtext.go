package reward

import (
	"strings"
	"unicode/utf8"
)

// maxTextDepth bounds the nesting of LaTeX arguments; deeper input is left unread.
const maxTextDepth = 200

// latexText writes LaTeX as plain text in the way of the converter behind the
// published grader: \frac{a}{b} becomes a/b without brackets, \sqrt[n]{a} loses its
// index, symbols become Unicode characters, unknown commands vanish and their
// arguments stay. The last step spells roots and a few symbols for the algebra.
// ok is false where the converter fails.
func latexText(s string) (string, bool) {
	s = strings.ReplaceAll(s, `\tfrac`, `\frac`)
	s = strings.ReplaceAll(s, `\dfrac`, `\frac`)
	s = strings.ReplaceAll(s, `\frac`, ` \frac`) // keeps the gap of a mixed number
	t := texter{src: s, ok: true}
	t.run(&t.out, "", 0)
	if !t.ok {
		return "", false
	}
	return pyStrip(textSpelling.Replace(t.out.String())), true
}

var textSpelling = strings.NewReplacer("√", "sqrt", "π", "pi", "∞", "inf", "∪", "U", "·", "*", "×", "*")

type texter struct {
	src string
	pos int
	out strings.Builder
	ok  bool
}

// run converts up to the end of the source, a closing brace, or \end{env}.
func (t *texter) run(out *strings.Builder, env string, depth int) {
	if depth > maxTextDepth {
		t.ok = false
	}
	for t.ok && t.pos < len(t.src) {
		c := t.src[t.pos]
		switch {
		case c == '{':
			t.pos++
			t.run(out, "}", depth+1)
		case c == '}':
			t.pos++
			if env == "}" {
				return
			}
		case c == '\\':
			if strings.HasPrefix(t.src[t.pos:], `\end{`) {
				t.pos += len(`\end{`)
				t.pos += max(strings.IndexByte(t.src[t.pos:], '}'), 0) + 1
				t.pos = min(t.pos, len(t.src))
				if env == "env" {
					return
				}
				continue
			}
			t.command(out, depth)
		default:
			t.special(out)
		}
	}
}

// special copies one character or one of the ligatures of text.
func (t *texter) special(out *strings.Builder) {
	rest := t.src[t.pos:]
	for _, sp := range [...][2]string{{"---", "—"}, {"--", "–"}, {"``", "“"}, {"''", "”"}, {"~", "\u00a0"}, {"&", "   "}} {
		if strings.HasPrefix(rest, sp[0]) {
			out.WriteString(sp[1])
			t.pos += len(sp[0])
			return
		}
	}
	n := firstRune(rest)
	out.WriteString(rest[:n])
	t.pos += n
}

// name reads a command: a backslash with letters, and the spaces after them, or with
// one other character.
func (t *texter) name() string {
	i := t.pos + 1
	for i < len(t.src) && isLetter(t.src[i]) {
		i++
	}
	if i == t.pos+1 {
		n := firstRune(t.src[i:])
		name := t.src[i : i+n]
		t.pos = i + n
		return name
	}
	name := t.src[t.pos+1 : i]
	for i < len(t.src) && t.src[i] == ' ' {
		i++
	}
	t.pos = i
	return name
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func (t *texter) command(out *strings.Builder, depth int) {
	name := t.name()
	switch name {
	case "frac":
		a, okA := t.argument(depth)
		b, okB := t.argument(depth)
		if !okA || !okB {
			out.WriteString("%s/%s" + a)
			return
		}
		out.WriteString(a + "/" + b)
	case "sqrt":
		t.optional()
		a, ok := t.argument(depth)
		if !ok {
			t.ok = false
			return
		}
		out.WriteString("√(" + a + ")")
	case "mathbf":
		a, _ := t.argument(depth)
		out.WriteString(strings.Map(boldLetter, a))
	case "mbox", "hspace", "vspace", "label", "color", "textsf":
		t.argument(depth)
	case "begin":
		t.environment(out, depth)
	case "\\":
		out.WriteByte('\n')
	case ",", ";", ":", " ":
		out.WriteByte(' ')
	case "%", "$", "#", "&", "_", "{", "}":
		out.WriteString(name)
	default:
		out.WriteString(textSymbols[name])
	}
}

// boldLetter maps a letter to its mathematical bold form.
func boldLetter(r rune) rune {
	switch {
	case r >= 'A' && r <= 'Z':
		return r - 'A' + 0x1D400
	case r >= 'a' && r <= 'z':
		return r - 'a' + 0x1D41A
	}
	return r
}

// argument reads a group, a command or one character.
func (t *texter) argument(depth int) (string, bool) {
	for t.pos < len(t.src) && t.src[t.pos] == ' ' {
		t.pos++
	}
	if t.pos >= len(t.src) || t.src[t.pos] == '}' {
		return "", false
	}
	var out strings.Builder
	switch c := t.src[t.pos]; {
	case c == '{':
		t.pos++
		t.run(&out, "}", depth+1)
	case c == '\\': // a command as an argument takes none of its own
		name := t.name()
		if name == "frac" {
			name = "%s/%s"
			out.WriteString(name)
			break
		}
		out.WriteString(textSymbols[name])
	default:
		n := firstRune(t.src[t.pos:])
		out.WriteString(t.src[t.pos : t.pos+n])
		t.pos += n
	}
	return out.String(), true
}

// optional skips an argument in square brackets.
func (t *texter) optional() {
	i := t.pos
	for i < len(t.src) && t.src[i] == ' ' {
		i++
	}
	if i < len(t.src) && t.src[i] == '[' {
		if j := strings.IndexByte(t.src[i:], ']'); j >= 0 {
			t.pos = i + j + 1
		}
	}
}

// environment writes a matrix as [ 1 2; 3 4 ], its entries padded to one width, and
// any other environment as its content.
func (t *texter) environment(out *strings.Builder, depth int) {
	name, _, ok := strings.Cut(t.src[t.pos:], "}")
	if !ok || !strings.HasPrefix(name, "{") {
		t.ok = false
		return
	}
	t.pos += len(name) + 1
	name = name[1:]
	if name == "array" {
		t.argument(depth)
	}
	matrix := name == "pmatrix" || name == "bmatrix" || name == "array" || name == "smallmatrix"
	if !matrix {
		t.run(out, "env", depth+1)
		return
	}
	var body strings.Builder
	t.run(&body, "env", depth+1)
	out.WriteString(matrixText(body.String()))
}

// matrixText lays out rows and cells, which run has marked with line breaks and triple spaces.
func matrixText(body string) string {
	var rows [][]string
	width := 0
	for _, line := range strings.Split(body, "\n") {
		cells := strings.Split(line, "   ")
		for i := range cells {
			cells[i] = pyStrip(cells[i])
			width = max(width, utf8.RuneCountInString(cells[i]))
		}
		rows = append(rows, cells)
	}
	var out strings.Builder
	out.WriteString("[ ")
	for i, cells := range rows {
		if i > 0 {
			out.WriteString("; ")
		}
		for j, c := range cells {
			if j > 0 {
				out.WriteByte(' ')
			}
			if width < 1000 { // spaces are dropped later; only a gap between digits counts
				out.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(c)))
			}
			out.WriteString(c)
		}
	}
	out.WriteString(" ]")
	return out.String()
}

var textSymbols = symbolTable(`alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ
iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ
chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
infty ∞ cup ∪ cap ∩ cdot · times × div ÷ pm ± mp ∓ circ ∘ le ≤ leq ≤ leqslant ⩽ ge ≥ geq ≥ geqslant ⩾ neq ≠ ll ≪ gg ≫
approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ propto ∝ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ setminus ∖
emptyset ∅ varnothing ∅ forall ∀ exists ∃ wedge ∧ vee ∨ to → rightarrow → leftarrow ← Rightarrow ⇒ Leftarrow ⇐
Leftrightarrow ⇔ leftrightarrow ↔ mapsto ↦ mid | parallel ∥ perp ⊥ angle ∠ square □ cdots ⋯ ldots … dots … vdots ⋮
prime ' ell ℓ hbar ħ partial ∂ nabla ∇ sum ∑ prod ∏ int ∫ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉
lvert | rvert | vert | Vert ‖ lbrace { rbrace } ast ∗ star ⋆ bullet ∙ oplus ⊕ otimes ⊗ backslash \ therefore ∴ because ∵
aleph ℵ sin sin cos cos tan tan arcsin arcsin arccos arccos arctan arctan sinh sinh cosh cosh tanh tanh
log log ln ln exp exp lim lim max max min min sup sup inf inf`)

func symbolTable(list string) map[string]string {
	f := strings.Fields(list)
	m := make(map[string]string, len(f)/2+2)
	for i := 0; i+1 < len(f); i += 2 {
		m[f[i]] = f[i+1]
	}
	m["quad"], m["qquad"] = "  ", "    "
	return m
}
