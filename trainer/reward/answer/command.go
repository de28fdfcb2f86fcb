package answer

import (
	"errors"
	"strings"

	"tandem/trainer/reward/algebra"
)

// greek are the commands that are variables.
var greek = set("alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota", "kappa", "lambda", "mu", "nu", "xi",
	"rho", "varrho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega",
	"ell", "hbar", "aleph", "imath", "jmath", "nabla", "partial")

// styles change the look of their argument and nothing else.
var styles = set("mathbf", "mathit", "mathcal", "mathfrak", "mathsf", "mathtt", "boldsymbol", "bm", "bold", "mathnormal", "pmb", "displaylines", "ensuremath", "boxed", "fbox", "underline",
	"cancel", "phantom", "mathbin", "mathord", "mathop", "mathrel")

// accents make a name of their argument's name.
var accents = set("vec", "hat", "bar", "tilde", "dot", "ddot", "overline", "overrightarrow", "widehat", "widetilde", "overleftrightarrow", "wideparen", "overarc", "breve", "check")

// textual are the commands whose argument is text.
var textual = set("text", "mbox", "textbf", "textit", "textrm", "textsf", "texttt", "textnormal", "mathrm", "hbox", "operatorname", "emph", "rm", "bf", "it", "textup", "textsc", "rmfamily")

// commandValue reads a command that an operand begins with.
func (p *parser) commandValue() *algebra.Expr {
	name := p.command()
	if name == "" {
		return p.escape()
	}
	start := p.pos
	p.pos += 1 + len(name)
	if f := functions[name]; f != "" {
		return p.function(f)
	}
	switch name {
	case "frac", "dfrac", "tfrac", "cfrac":
		a := p.argument()
		return algebra.Quotient(a, p.argument())
	case "binom", "dbinom", "tbinom":
		a := p.argument()
		return algebra.Apply("binomial", a, p.argument())
	case "pi":
		return algebra.Const(algebra.Pi)
	case "infty":
		return algebra.Const(algebra.Inf)
	case "lfloor":
		return p.enclosed("floor", `\rfloor`)
	case "lceil":
		return p.enclosed("ceil", `\rceil`)
	case "lvert", "vert":
		return p.bars(`\` + strings.Replace(name, "l", "r", 1))
	case "lVert", "Vert":
		return p.enclosed("norm", strings.Replace(`\`+name, "l", "r", 1))
	case "emptyset", "varnothing":
		return p.part(Value{Kind: List, Open: '{'}, nil)
	case "lbrace":
		return p.setOf(`\rbrace`)
	case "langle":
		return p.angled()
	case "begin":
		return p.environment()
	case "mathbb", "Bbb":
		return p.numberSet()
	case "angle", "triangle", "measuredangle", "odot", "square":
		return algebra.Var(name + strings.ReplaceAll(p.word2(), " ", ""))
	case "pounds", "euro":
		return p.operandValue()
	}
	switch {
	case greek[name]:
		return p.variable(name)
	case styles[name]:
		return p.styled()
	case accents[name]:
		return p.accented(name)
	case textual[name]:
		p.pos = start
		return p.textOperand()
	}
	return p.fail(errors.New(`the command \` + name[:min(len(name), 20)]))
}

// escape reads what a backslash and a character other than a letter begin.
func (p *parser) escape() *algebra.Expr {
	switch {
	case p.accept(`\{`):
		return p.setOf(`\}`)
	case p.accept(`\|`):
		return p.enclosed("norm", `\|`)
	case p.accept(`\$`):
		p.unit = unit{name: "dollar", power: 1}
		return p.operandValue()
	}
	return p.unexpected()
}

func (p *parser) enclosed(f, end string) *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	e := p.sum()
	if !p.accept(end) {
		return p.unexpected()
	}
	return algebra.Apply(f, e)
}

// word2 reads the letters that stand next, or a group of them.
func (p *parser) word2() string {
	if p.peek() == '{' {
		inner, _ := p.rawGroup()
		return inner[:min(len(inner), 100)]
	}
	w := p.word()
	p.pos += len(w)
	return w
}

// styled reads the argument of a style: a group, or one token.
func (p *parser) styled() *algebra.Expr {
	if p.peek() == '{' {
		return p.braces()
	}
	return p.argument()
}

// accented makes a variable of the accent and what is under it.
func (p *parser) accented(accent string) *algebra.Expr {
	if p.peek() != '{' {
		return algebra.Apply(accent, p.argument())
	}
	inner, ok := p.rawGroup()
	if !ok {
		return p.fail(errors.New("a { is not closed"))
	}
	if strings.HasPrefix(accent, "over") { // a segment, a ray or a conjugate
		accent = "overline"
	}
	inner = strings.NewReplacer(" ", "", `\mathbf`, "", `\text`, "", "{", "", "}", "").Replace(inner)
	return p.variable(accent + ":" + inner[:min(len(inner), 100)])
}

// numberSet reads ℝ as an interval and the other sets of numbers as words.
func (p *parser) numberSet() *algebra.Expr {
	name := strings.TrimSpace(p.word2())
	if name == "R" {
		inf := algebra.Const(algebra.Inf)
		return p.part(Value{Kind: Tuple, Open: '(', Close: ')', Items: []Value{scalar(algebra.Negate(inf)), scalar(inf)}}, nil)
	}
	return p.part(Value{Kind: Text, Text: "set " + name}, nil)
}

// setOf reads the rest of \{...\}: elements, or a condition on a variable.
func (p *parser) setOf(end string) *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	bars, bare := p.inBars, p.bare
	p.inBars, p.bare = 1, false // so that a bar ends the head of a condition
	defer func() { p.inBars, p.bare = bars, bare }()
	if p.accept(end) {
		return p.part(Value{Kind: List, Open: '{'}, nil)
	}
	v := p.items("}|:")
	if _, ok := p.acceptAny("|", ":", `\mid`, `\colon`, `\vert`); ok {
		p.inBars = 0
		v = p.items("}")
	} else {
		v = asList(v)
	}
	if _, ok := p.acceptAny(end, `\}`, `\rbrace`); !ok {
		if p.pos < len(p.src) { // \left\{ 2,3 \right. has no closing brace
			return p.unexpected()
		}
	}
	return p.part(v, nil)
}

// asList makes a set of what stands in curly brackets.
func asList(v Value) Value {
	if v.Kind == List && v.Open == 0 {
		v.Open = '{'
		return v
	}
	return Value{Kind: List, Open: '{', Items: []Value{v}}
}

// angled reads the rest of \langle a, b \rangle, a tuple.
func (p *parser) angled() *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	bare := p.bare
	p.bare = false
	v := p.items("")
	p.bare = bare
	if !p.accept(`\rangle`) {
		return p.unexpected()
	}
	return p.part(Value{Kind: Tuple, Open: '(', Close: ')', Items: asList(v).Items}, nil)
}

// environment reads \begin{pmatrix} ... \end{pmatrix} and its kin.
func (p *parser) environment() *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	name, ok := p.rawGroup()
	if ok && rowNames[name] {
		return p.rowsOf(name)
	}
	if !ok || !matrixNames[name] {
		return p.fail(errors.New("the environment " + strings.ToValidUTF8(name[:min(len(name), 20)], "?")))
	}
	if name == "array" {
		p.rawGroup()
	}
	bare, bars := p.bare, p.inBars
	p.bare, p.inBars = true, 0
	rows, count := [][]*algebra.Expr{nil}, 0
	for p.err == nil && !p.accept(`\end{`+name+`}`) {
		last := len(rows) - 1
		switch {
		case p.accept("&"):
		case p.accept(`\\`), p.accept(`\cr`):
			if len(rows[last]) > 0 {
				rows = append(rows, nil)
			}
		case p.accept(`\hline`):
		default:
			if count++; count > maxItems {
				return p.fail(errItems)
			}
			rows[last] = append(rows[last], p.sum())
		}
	}
	p.bare, p.inBars = bare, bars
	if last := len(rows) - 1; len(rows[last]) == 0 {
		rows = rows[:last]
	}
	if len(rows) == 0 {
		return p.fail(errors.New("an empty matrix"))
	}
	return p.part(Value{Kind: Matrix, Rows: rows}, nil)
}

// rowsOf reads the rows of an environment that lists equations or cases, as a list.
func (p *parser) rowsOf(name string) *algebra.Expr {
	var items []Value
	for p.err == nil && !p.accept(`\end{`+name+`}`) {
		if _, ok := p.acceptAny(`\\`, "&"); ok {
			continue
		}
		if len(items) > maxItems {
			return p.fail(errItems)
		}
		v := p.items("&\\")
		if v.Kind == List && v.Open == 0 {
			items = append(items, v.Items...)
		} else {
			items = append(items, v)
		}
	}
	if len(items) == 0 {
		return p.fail(errEmpty)
	}
	return p.part(Value{Kind: List, Items: items}, nil)
}

var rowNames = set("cases", "aligned", "align", "align*", "gathered", "split")

var matrixNames = set("pmatrix", "bmatrix", "matrix", "vmatrix", "Bmatrix", "Vmatrix", "array", "smallmatrix")
