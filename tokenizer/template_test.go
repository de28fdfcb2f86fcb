package tokenizer

import (
	"strings"
	"testing"
	"time"

	"github.com/ardanlabs/jinja"
)

var testNow = time.Date(2026, 11, 29, 16, 5, 9, 0, time.UTC)

// TestTemplateHostile has templates that must fail with a reason: none may crash the process or run on.
func TestTemplateHostile(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"loops", "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "loops more than"},
		{"range", "{% for i in range(10**9) %}x{% endfor %}", "range"},
		{"long range", "{{ range(1000000) }}", "range"},
		{"recursion", "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}", "macros more than"},
		{"mutual recursion", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", "macros more than"},
		{"recursion by call", "{% macro m() %}{% call m() %}x{% endcall %}{% endmacro %}{{ m() }}", "macros more than"},
		{"namespace in itself", "{% set n = namespace(a=1) %}{% set n.a = n %}{{ n }}", "into itself"},
		{"namespace in itself through a list", "{% set n = namespace(a=1) %}{% set n.a = [1, {'k': n}] %}{{ n | tojson }}", "into itself"},
		{"list in itself", "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "append"},
		{"huge string", "{{ 'a' * 9999999999999999 }}", "failed"},
		{"raises", "{{ raise_exception('no ' + 'way') }}", "no way"},
		{"json of a function", "{{ range | tojson }}", "tojson"},
		{"deep parentheses", "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}", "parts"},
		{"deep not", "{{ " + strings.Repeat("not ", 5000) + "1 }}", "parts"},
		{"deep blocks", strings.Repeat("{% if 1 %}", 5000) + strings.Repeat("{% endif %}", 5000), "nest deeper"},
		{"huge", strings.Repeat("x", maxTemplate+1), "want at most"},
		{"not closed", "{% if x %}", "not closed"},
		{"tag not closed", "{{ x", "not closed"},
		{"comment not closed", "{# x", "not closed"},
		{"raw not closed", "{% raw %}{{ x }}", "not closed"},
		{"string not closed", "{{ 'x }}", "cannot read"},
		{"crossed blocks", "{% if x %}{% for i in l %}{% endif %}{% endfor %}", "endif"},
		{"end alone", "{% endfor %}", "endfor"},
		{"unknown statement", "{% include 'x' %}", "include"},
		{"unknown filter", "{{ 1 | nope }}", "nope"},
		{"two names set", "{% set a, b = 1, 2 %}", "not supported"},
		{"set with a filter", "{% set a | upper %}x{% endset %}", "not supported"},
		{"for without in", "{% for x %}{% endfor %}", "without in"},
		{"empty statement", "{% %}", "without a name"},
		{"our own name", "{{ tandem_print('x') }}", "kept for"},
		{"strange character", "{{ x ! y }}", "cannot read"},
		{"bad escape", `{{ '\ud800' }}`, "no character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmpl, err := compileTemplate(c.source)
			var got string
			if err == nil {
				got, err = tmpl.render(map[string]jinja.Value{"x": jinja.NewInt(1), "l": jinja.NewList(nil)}, testNow)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q and error %v, want one that says %q", clip(got), err, c.want)
			}
		})
	}
}

func TestStrftime(t *testing.T) {
	for format, want := range map[string]string{
		"%Y-%m-%d": "2026-11-29", "%d %b %Y": "29 Nov 2026", "%A, %B %-d at 15:04 %%": "Sunday, November 29 at 15:04 %",
		"%H:%M:%S": "16:05:09", "%I %p %j %y": "04 PM 333 26", "%Q %": "%Q %", "2006 Jan 1": "2006 Jan 1",
	} {
		if got := strftime(format, testNow); got != want {
			t.Errorf("%q gives %q, want %q", format, got, want)
		}
	}
}

func TestTemplateTime(t *testing.T) {
	tmpl, err := compileTemplate("{{ strftime_now('%d %B %Y') }}")
	if err != nil {
		t.Fatal(err)
	}
	tok := &Tokenizer{templates: map[string]*template{"default": tmpl}}
	got, err := tok.Chat([]Message{{Role: "user"}}, ChatOptions{Now: testNow})
	if got != "29 November 2026" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzTemplate wants errors, never a crash.
func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}{{ m.content | tojson }}{% endfor %}")
	f.Add("{%- set a = 'x' -%}{{ a ~ 1.5e3 }}{# c #}{% raw %}{{{% endraw %}")
	f.Add("{% macro m(a, b=1) %}{{ caller() }}{% endmacro %}{% call m(1) %}x{% endcall %}")
	f.Add("{{ messages[::-1][0]['role'].split('u')[-1][1:] if x is not defined else [1, {'a': 2}] }}")
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 1000 {
			return
		}
		tmpl, err := compileTemplate(source)
		if err != nil {
			return
		}
		message := jinja.NewDict()
		message.AsDict().Set("role", jinja.NewString("user"))
		message.AsDict().Set("content", jinja.NewString("hi"))
		tmpl.render(map[string]jinja.Value{"messages": jinja.NewList([]jinja.Value{message})}, testNow)
	})
}

// TestDictKeepsItsOrder: named arguments would lose it.
func TestDictKeepsItsOrder(t *testing.T) {
	for source, want := range map[string]string{
		"{{ dict(z=1, b=2, a=3, y=4, c=5) }}":             "{'z': 1, 'b': 2, 'a': 3, 'y': 4, 'c': 5}",
		"{{ dict(z=dict(q=1, a=[2, (3)]), b='x, y=1') }}": "{'z': {'q': 1, 'a': [2, 3]}, 'b': 'x, y=1'}",
		"{{ dict() }}": "{}",
		"{{ dict(b=2, a=(1 if true else 0)) | tojson }}": `{"b": 2, "a": 1}`,
	} {
		for range 10 {
			tmpl, err := compileTemplate(source)
			if err != nil {
				t.Fatalf("%s: %v", source, err)
			}
			if got, err := tmpl.render(map[string]jinja.Value{}, testNow); err != nil || got != want {
				t.Fatalf("%s: %q, %v, want %q", source, got, err, want)
			}
		}
	}
}
