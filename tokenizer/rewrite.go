package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// block is a statement that is open while a template is rewritten.
type block struct {
	keyword string
	start   int      // a for's place in the output
	loop    []string // a for's own variables
	set     []string // variables set in the body of a for
}

// rewriter writes a template for the library; see template.
type rewriter struct {
	out   []string
	open  []block
	loops int
}

// maxBlocks bounds how deep statements nest.
const maxBlocks = 100

func rewrite(pieces []piece) (string, error) {
	var r rewriter
	for _, p := range pieces {
		var err error
		switch p.kind {
		case 't':
			r.write("{{" + quote(p.text) + "}}")
		case 'e':
			var expression string
			expression, err = source(p.tokens)
			r.write("{{" + callPrint + "(" + expression + ")}}")
		case 's':
			err = r.statement(p.tokens)
		}
		if err != nil {
			return "", fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	if len(r.open) > 0 {
		return "", fmt.Errorf("%s is not closed", r.open[len(r.open)-1].keyword)
	}
	return strings.Join(r.out, ""), nil
}

func (r *rewriter) write(text string) { r.out = append(r.out, text) }

// statement writes one statement and keeps track of the blocks that it opens, closes or sets variables in.
func (r *rewriter) statement(tokens []lexeme) error {
	if len(tokens) == 0 || tokens[0].kind != 'n' {
		return fmt.Errorf("a statement without a name")
	}
	keyword := tokens[0].text
	text, err := source(tokens)
	if err != nil {
		return err
	}
	text = "{%" + text + "%}"
	if end, ok := strings.CutPrefix(keyword, "end"); ok {
		return r.close(end, text)
	}
	if len(r.open) == maxBlocks {
		return fmt.Errorf("statements nest deeper than %d", maxBlocks)
	}
	switch keyword {
	case "for":
		in := slices.Index(tokens, lexeme{'n', "in"})
		if in < 0 {
			return fmt.Errorf("for without in")
		}
		b := block{keyword: keyword, start: len(r.out)}
		for _, x := range tokens[1:in] {
			b.loop = append(b.loop, x.text)
		}
		r.open = append(r.open, b)
		// The first and the third are filled in when the loop's variables are known.
		r.out = append(r.out, "", text+"{{"+callRound+"()}}", "")
		return nil
	case "macro":
		r.write(text + "{{" + callEnter + "()}}")
	case "set":
		member, err := r.set(tokens)
		if err != nil {
			return err
		}
		if member {
			value, _ := source(tokens[5:])
			text = fmt.Sprintf("{%%set %s.%s=%s(%s,%s)%%}", tokens[1].text, tokens[3].text, callMember, tokens[1].text, value)
		}
		r.write(text)
		if slices.Contains(tokens, lexeme{'o', "="}) {
			return nil
		}
	case "else", "elif", "break", "continue":
		r.write(text)
		return nil
	default:
		r.write(text)
	}
	r.open = append(r.open, block{keyword: keyword})
	return nil
}

// close ends the innermost block.
func (r *rewriter) close(keyword, text string) error {
	last := len(r.open) - 1
	if last < 0 || r.open[last].keyword != keyword {
		return fmt.Errorf("end%s where no %s is open", keyword, keyword)
	}
	b := r.open[last]
	r.open = r.open[:last]
	if keyword == "macro" {
		r.write("{{" + callLeave + "()}}")
	}
	r.write(text)
	if len(b.set) == 0 {
		return nil
	}
	r.loops++
	var save, restore strings.Builder
	for _, name := range b.set {
		saved := fmt.Sprintf("%s%d_%s", savedName, r.loops, name)
		save.WriteString("{%set " + saved + "=" + name + "%}")
		restore.WriteString("{%set " + name + "=" + saved + "%}")
	}
	r.out[b.start], r.out[b.start+2] = save.String(), restore.String()
	return nil
}

// set notes which variable of which loop a set statement changes, or says that it sets a member of a namespace.
func (r *rewriter) set(tokens []lexeme) (member bool, err error) {
	plain := len(tokens) >= 2 && tokens[1].kind == 'n' && (len(tokens) == 2 || tokens[2] == lexeme{'o', "="})
	member = len(tokens) >= 5 && tokens[2].text == "." && tokens[3].kind == 'n' && tokens[4] == lexeme{'o', "="}
	if !plain && !member {
		return false, fmt.Errorf("set of anything but one name or one member of a namespace is not supported")
	}
	if member {
		return true, nil
	}
	name := tokens[1].text
	for i := len(r.open) - 1; i >= 0; i-- {
		b := &r.open[i]
		if b.keyword == "macro" || b.keyword == "call" {
			return false, nil
		}
		if b.keyword == "for" {
			if !slices.Contains(b.loop, name) && !slices.Contains(b.set, name) {
				b.set = append(b.set, name)
			}
			return false, nil
		}
	}
	return false, nil
}

// changing are the methods that Jinja2's immutable sandbox refuses.
var changing = []string{"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"}

// Filters and methods without arguments for which a filter stands in.
var (
	filters = map[string]string{"tojson": callToJSON, "trim": callStrip, "string": callPrint}
	methods = map[string]string{"items": "items", "strip": callStrip, "lstrip": callLStrip, "rstrip": callRStrip}
)

// source writes the lexemes of a tag.
func source(tokens []lexeme) (string, error) {
	tokens = literalDicts(tokens)
	var out strings.Builder
	isOp := func(i int, text string) bool { return i >= 0 && i < len(tokens) && tokens[i] == lexeme{'o', text} }
	for i := 0; i < len(tokens); i++ {
		x := tokens[i]
		if x.kind == 'n' && strings.HasPrefix(x.text, "tandem_") {
			return "", fmt.Errorf("the name %s is kept for tandem", x.text)
		}
		if x.kind == 'n' && isOp(i-1, ".") && isOp(i+1, "(") && slices.Contains(changing, x.text) {
			return "", fmt.Errorf("the method %s changes a value, which chat templates may not", x.text)
		}
		if i > 0 && !isOp(i, ".") && !isOp(i-1, ".") {
			out.WriteByte(' ')
		}
		switch {
		case x.kind == '"':
			out.WriteString(quote(x.text))
		case x.kind == 'n' && isOp(i-1, "|") && filters[x.text] != "":
			out.WriteString(filters[x.text])
		case isOp(i, ".") && i+1 < len(tokens) && methods[tokens[i+1].text] != "" && isOp(i+2, "(") && isOp(i+3, ")"):
			out.WriteString("|" + methods[tokens[i+1].text])
			i += 3
		default:
			out.WriteString(x.text)
		}
	}
	return out.String(), nil
}

// literalDicts writes dict(a=1, b=2) as {"a": 1, "b": 2}: the library passes named arguments in a map, which has no order.
// A dict of anything else is left alone.
func literalDicts(tokens []lexeme) []lexeme {
	out := slices.Clone(tokens)
	op := func(i int, text string) bool { return i >= 0 && i < len(out) && out[i] == lexeme{'o', text} }
	for i := range out {
		if out[i] != (lexeme{'n', "dict"}) || !op(i+1, "(") || op(i-1, ".") || op(i+2, ")") {
			continue
		}
		var keys []int
		end, depth, named := -1, 0, true
		for j := i + 1; j < len(out) && end < 0; j++ {
			switch {
			case op(j, "(") || op(j, "[") || op(j, "{"):
				depth++
			case op(j, ")") || op(j, "]") || op(j, "}"):
				if depth--; depth == 0 {
					end = j
				}
			}
			if depth == 1 && (j == i+1 || op(j, ",")) && !op(j+1, ")") {
				named = named && j+1 < len(out) && out[j+1].kind == 'n' && op(j+2, "=")
				keys = append(keys, j+1)
			}
		}
		if end < 0 || !named {
			continue
		}
		for _, k := range keys {
			out[k], out[k+1] = lexeme{'"', out[k].text}, lexeme{'o', ":"}
		}
		out[i], out[i+1], out[end] = lexeme{'o', " "}, lexeme{'o', "{"}, lexeme{'o', "}"}
	}
	return out
}

// quote writes a string with the escapes that the library knows.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
