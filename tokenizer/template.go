package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// maxTemplate bounds a chat template. The longest in use have some 30 KB.
const maxTemplate = 1 << 18

// template is a chat template, rewritten so that github.com/ardanlabs/jinja v1.8.0 renders it as Jinja2 does in transformers.
// What that library gets wrong and the rewriting mends:
//
//   - "-" strips blanks across other tags, and "{%+", "+%}", "}}" inside an expression and most string escapes are not
//     known: the lexer here strips, and all text goes in as string expressions;
//   - tojson and printing write 1.0 as 1, tojson escapes U+2028 and sorts keys if indented, None prints as nothing: both, and the
//     filter string, are ours (python.go);
//   - x.items() finds a key "items" first, which every JSON schema of a list has: it becomes x|items;
//   - strip, lstrip, rstrip and trim know few of the characters that are blank in Python: they are ours;
//   - a variable set in a loop keeps its value in the next round: it is set back at the start of each;
//   - range, loops and macros have no bounds, and a macro that calls itself or a value that holds itself kills the process:
//     rounds and depth are counted, and a namespace cannot be put into itself.
//
// What it does not mend is refused when it is compiled: statements and tests that the library does not know, assignments
// to several names, and methods that change a value, which the sandbox of transformers forbids too.
type template struct{ compiled *jinja.Template }

// Names that rewritten templates call.
const (
	callToJSON = "tandem_tojson"
	callPrint  = "tandem_print"
	callRound  = "tandem_round"
	callEnter  = "tandem_enter"
	callLeave  = "tandem_leave"
	callMember = "tandem_member"
	callStrip  = "tandem_strip"
	callLStrip = "tandem_lstrip"
	callRStrip = "tandem_rstrip"
	savedName  = "tandem_saved_"
)

func compileTemplate(source string) (t *template, err error) {
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, fmt.Errorf("the template library failed: %v", r)
		}
	}()
	if len(source) > maxTemplate {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(source), maxTemplate)
	}
	pieces, err := lex(source)
	if err != nil {
		return nil, err
	}
	rewritten, err := rewrite(pieces)
	if err != nil {
		return nil, err
	}
	compiled, err := jinja.Compile(rewritten)
	if err != nil {
		return nil, err
	}
	return &template{compiled}, nil
}

// render runs the template. Time stands still at now while it does.
func (t *template) render(variables map[string]jinja.Value, now time.Time) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			text, err = "", fmt.Errorf("the template library failed: %v", r)
		}
	}()
	all := maps.Clone(variables)
	maps.Copy(all, functions(now))
	return t.compiled.RenderValues(all)
}

const (
	maxRounds = 1_000_000 // of all loops of one rendering
	maxCalls  = 200       // of macros inside each other
	maxRange  = 100_000   // as in Jinja2's sandbox
)

// functions are what rewritten templates call; the counts are those of one rendering.
func functions(now time.Time) map[string]jinja.Value {
	rounds, calls := 0, 0
	nothing := jinja.NewString("")
	all := map[string]func(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error){
		callToJSON: toJSON,
		callPrint: func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			return jinja.NewString(pyString(args[0])), nil
		},
		callRound: func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
			if rounds++; rounds > maxRounds {
				return nothing, fmt.Errorf("the chat template loops more than %d times", maxRounds)
			}
			return nothing, nil
		},
		callEnter: func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
			if calls++; calls > maxCalls {
				return nothing, fmt.Errorf("the chat template calls macros more than %d deep", maxCalls)
			}
			return nothing, nil
		},
		callLeave: func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
			calls--
			return nothing, nil
		},
		callMember: func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			return args[1], acyclic(args[0], args[1], &rounds)
		},
		callStrip:  stripper(strings.TrimLeftFunc, strings.TrimRightFunc),
		callLStrip: stripper(strings.TrimLeftFunc),
		callRStrip: stripper(strings.TrimRightFunc),
		"range":    boundedRange,
		"strftime_now": func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			if len(args) != 1 || !args[0].IsString() {
				return nothing, errors.New("strftime_now: want one format")
			}
			return jinja.NewString(strftime(args[0].AsString(), now)), nil
		},
	}
	values := make(map[string]jinja.Value, len(all))
	for name, f := range all {
		values[name] = jinja.NewCallable(name, f)
	}
	return values
}

// stripper takes off blanks, or the characters of its argument.
func stripper(sides ...func(string, func(rune) bool) string) func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		blank := pySpace
		if len(args) > 1 && args[1].IsString() {
			blank = func(r rune) bool { return strings.ContainsRune(args[1].AsString(), r) }
		}
		text := pyString(args[0])
		for _, side := range sides {
			text = side(text, blank)
		}
		return jinja.NewString(text), nil
	}
}

// acyclic refuses a value that holds the namespace it is put into. What it looks at counts as rounds.
func acyclic(namespace, v jinja.Value, rounds *int) error {
	if *rounds++; *rounds > maxRounds {
		return fmt.Errorf("the chat template puts more than %d values into namespaces", maxRounds)
	}
	var inside []jinja.Value
	switch {
	case v.IsList():
		inside = v.AsList().Items
	case v.IsDict() && namespace.IsDict() && v.AsDict() == namespace.AsDict():
		return errors.New("the chat template puts a namespace into itself")
	case v.IsDict():
		inside = slices.Collect(maps.Values(v.AsDict().Data))
	}
	for _, i := range inside {
		if err := acyclic(namespace, i, rounds); err != nil {
			return err
		}
	}
	return nil
}

func boundedRange(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	bounds := [3]int64{0, 0, 1} // from, to, step
	for i, a := range args {
		if !a.IsInt() || len(args) > 3 {
			return jinja.Undefined(), errors.New("range: want one to three integers")
		}
		bounds[i] = a.AsInt()
	}
	if len(args) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	from, to, step := bounds[0], bounds[1], bounds[2]
	if step == 0 || len(args) == 0 {
		return jinja.Undefined(), errors.New("range: want one to three integers, the step not 0")
	}
	var items []jinja.Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(items) == maxRange {
			return jinja.Undefined(), fmt.Errorf("range: more than %d numbers", maxRange)
		}
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), nil
}

// strftime formats a time with the directives of Python's strftime that do not depend on the locale; others stay as they are.
func strftime(format string, now time.Time) string {
	layouts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'y': "06", 'j': "002",
		'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06"}
	unpadded := map[byte]string{'d': "2", 'm': "1", 'I': "3"}
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		rest := format[i:]
		switch {
		case strings.HasPrefix(rest, "%%"):
			out.WriteByte('%')
			i++
		case len(rest) >= 2 && rest[0] == '%' && layouts[rest[1]] != "":
			out.WriteString(now.Format(layouts[rest[1]]))
			i++
		case len(rest) >= 3 && rest[:2] == "%-" && unpadded[rest[2]] != "":
			out.WriteString(now.Format(unpadded[rest[2]]))
			i += 2
		default:
			out.WriteByte(format[i])
		}
	}
	return out.String()
}
