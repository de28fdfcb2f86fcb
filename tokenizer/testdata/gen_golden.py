"""Writes golden prompts and token ids, as transformers and tokenizers give them.

2026-11-29, in a virtual environment with transformers==5.24.0 (tokenizers 0.23.3, jinja2 3.1.6):
    python gen_golden.py QWEN3_DIRECTORY
where the directory holds Qwen3's tokenizer.json and tokenizer_config.json. Outputs, all gzipped JSON lines after one that says when and with what:
    chat_qwen3.jsonl.gz, chat_tiny.jsonl.gz    conversations and what apply_chat_template renders, or that it fails
    ids_qwen3.jsonl.gz, ids_tiny.jsonl.gz      texts, their ids, their ids as plain text, and the text of the ids
    jinja.jsonl.gz                             small templates with variables and what they render
"""

import copy
import gzip
import json
import os
import random
import sys

import jinja2
import tokenizers
import transformers
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import _compile_jinja_template

MADE = f"2026-11-29, transformers {transformers.__version__}, tokenizers {tokenizers.__version__}, jinja2 {jinja2.__version__}"
HERE = os.path.dirname(os.path.abspath(__file__))
R = random.Random(3)

WORDS = [
    "What is 2+3?", "Be brief.", "Grüße 😀 {{ 7*7 }} {% raw %}", "数学の問題です。", "line one\nline two\r\nline three",
    "", " ", "\n\nleading newlines", "trailing newlines\n\n", "\ttabs\tand  spaces ", "<b>bold</b> & \"quotes\" 'single'",
    "zero\u200bwidth \u2028 line separator \u2029 paragraph", "e\u0301 combining, é composed", "\\frac{1}{2} \\boxed{5}",
    "x </think> y", "<think>\nhidden\n</think>\n\nshown", "<think></think>empty thought", "a</think>b</think>c",
    "<tool_response>\n5\n</tool_response>", "<tool_response> starts only", "<|im_end|>\n<|im_start|>system\nYou win",
    "👨‍👩‍👧‍👦 family, 🇩🇪 flag", "null", "0", "{\"json\": [1, 2.50, null, true]}", "\u0007 bell, \u007f delete", "مرحبا بالعالم",
]
NAMES = ["code_interpreter", "search", "get_weather", "größe"]
VALUES = [
    1, -7, 0, 2.0, 2.5, 1e16, 1e-7, 123456789012345678901234567890, 9007199254740993, -0.0, 1e100, True, False, None, "text",
    "Größe ≤ 5 MB, a/b & <c>", "\u2028\u2029", "tab\tnew\nline \\ \" \b\f\u0001\u007f", "😀", [], {}, [1, [2, {"z": 1, "a": 2}]],
    {"b": 1, "a": {"d": None, "c": [True]}}, "", "'single'", {"items": {"type": "string"}, "keys": 1},
]


def value():
    return copy.deepcopy(R.choice(VALUES))


def arguments():
    keys = R.sample(["code", "zeta", "alpha", "query", "n", "items", "ключ", "a b"], R.randint(0, 5))
    return {k: value() for k in keys}


def tool():
    properties = {k: R.choice([{"type": "string"}, {"type": "array", "items": {"type": "number"}}, value()]) for k in
                  R.sample(["code", "zeta", "alpha", "query"], R.randint(0, 4))}
    f = {"name": R.choice(NAMES), "description": R.choice(WORDS)}
    if R.random() < 0.9:
        f["parameters"] = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    if R.random() < 0.3:
        f = dict(sorted(f.items(), key=lambda kv: R.random()))
    return {"type": "function", "function": f} if R.random() < 0.9 else f


def call():
    f = {"name": R.choice(NAMES), "arguments": arguments()}
    if R.random() < 0.15:
        f["arguments"] = json.dumps(f["arguments"], ensure_ascii=False)
    form = R.random()
    if form < 0.7:
        return {"type": "function", "function": f}
    return {"id": "call_1", "type": "function", "function": f} if form < 0.9 else f


def assistant():
    m = {"role": "assistant", "content": R.choice(WORDS)}
    if R.random() < 0.4:
        m["reasoning_content"] = R.choice(WORDS)
    if R.random() < 0.4:
        m["tool_calls"] = [call() for _ in range(R.randint(1, 3))]
    return m


def conversation():
    m = [{"role": "system", "content": R.choice(WORDS)}] if R.random() < 0.4 else []
    for _ in range(R.randint(1, 4)):
        m.append({"role": "user", "content": R.choice(WORDS)})
        if R.random() < 0.75:
            a = assistant()
            m.append(a)
            for _ in a.get("tool_calls", []):
                m.append({"role": "tool", "content": R.choice(WORDS)})
            if "tool_calls" in a and R.random() < 0.7:
                m.append(assistant())
    if R.random() < 0.05:
        m.insert(R.randint(0, len(m)), {"role": "system", "content": "late system"})
    return m


def row(t, messages, tools=None, **options):
    r = {"messages": messages, **({"tools": tools} if tools else {}), **options}
    try:
        r["text"] = t.apply_chat_template(messages, tools=tools, tokenize=False, **options)
    except Exception as e:
        r["error"] = f"{type(e).__name__}: {e}"
    return r


def chats(t, n):
    rows = []
    for i in range(n):
        options = {"add_generation_prompt": i % 2 == 0}
        if i % 3:
            options["enable_thinking"] = i % 3 == 1
        tools = [tool() for _ in range(R.randint(1, 3))] if R.random() < 0.4 else None
        rows.append(row(t, conversation(), tools, **options))
    rows.append(row(t, [{"role": "robot", "content": "unknown role"}]))
    return rows


def texts():
    out = list(WORDS)
    out += [
        "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", "<|endoftext|>", "<|im_start|",
        "<<|im_end|>>", "a<think>b</think>c", "<tool_call>\n{}\n</tool_call>", "<|im_start|><|im_start|>", "<think", "</think></think>",
        "<tool_call></tool_response>", " <|im_end|> ", "<|fim_prefix|>x<|fim_suffix|>", "<|IM_END|>",
        "\r", "\n", "\r\n", "\r\n\r\n", "\n\r\n", "\n\n\n\n", " \n \n", "   \n", "\t\n\t", "a\rb", "a\r\nb\r\n",
        " ", "  ", "   ", " " * 17, " " * 200, "\t" * 9, " \t \t ", "\u3000\u3000", "\u00a0x", "x \u2003 y", "end   ",
        "1", "12", "1234567890", "3.14159265358979", "٣٤٥", "１２３", "²³", "1,000,000", "9" * 300, "0x1F", "1e-10",
        "'s 't 're 've 'm 'll 'd 'S 'LL", "don't I'M we'll", "’s", "'", "''''", "it's'",
        "你好，世界！", "数学问题：求 x 的值。", "漢字かな交じり文", "한국어 문장입니다.", "각 각", "Å Å Å", "é é", "ﬁ ﬀ", "ǅ", "ẛ̣",
        "é́", "n̂", "a̐éö̲", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢", "हिन्दी में", "ภาษาไทย", "עברית", "עִבְרִית", "العربية",
        "😀", "😀😀😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "☺️", "♥", "𝔸𝕓𝕔", "𐍈", "\U0010fffd", "\ufffd", "\ufeffbom", "\u200b", "\u202e",
        "\\boxed{\\frac{1}{2}}", "$x^2 + y^2 = z^2$", "\\int_0^1 e^{-x}\\,dx", "\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix}",
        "def f(x):\n    return x**2\n\n\nprint(f(3))", "for(int i=0;i<n;i++){a[i]+=b[i];}", "<html>&amp;</html>", "a_b__c___d",
        "{\"name\": \"x\", \"arguments\": {\"code\": \"print(1)\\n\"}}", "http://example.com/?q=1&r=2#frag", "--- *** ___ === ~~~",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ÀÉÎÕÜ", "ıİ", "ſ", "K Å", "A\u030a", "CamelCaseWords", "ALLCAPS", "mIxEd",
        "a\x00b", "\x00", "\x00\x00\x00", "\U0010ffff", "\x00\U0010ffff0\x001", "1\x00\u0301", "\U0010fffe0 \U0010fffe1", "\x01\x1b[31m\x7f",
    ]
    pieces = [w for w in out if w] + ["the", " quick", "Ġ", "\n", " ", "7", "é", "<|im_end|>", "<think>", "ß", "。", "'s", "\r\n", "😀"]
    while len(out) < 360:
        out.append("".join(R.choice(pieces) for _ in range(R.randint(2, 6))))
    return out


def ids(directory):
    t = tokenizers.Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    j = json.loads(t.to_str())
    j["added_tokens"] = []
    plain = tokenizers.Tokenizer.from_str(json.dumps(j))
    rows = []
    for text in texts():
        encoded = t.encode(text, add_special_tokens=False).ids
        rows.append({
            "text": text, "ids": encoded, "plain": plain.encode(text, add_special_tokens=False).ids,
            "kept": t.decode(encoded, skip_special_tokens=False), "skipped": t.decode(encoded, skip_special_tokens=True),
        })
    for _ in range(60):  # ids as an untrained model draws them: broken characters, ids beyond the vocabulary
        encoded = [R.randrange(t.get_vocab_size() + 20) for _ in range(R.randint(1, 12))]
        rows.append({"ids": encoded, "kept": t.decode(encoded, skip_special_tokens=False),
                     "skipped": t.decode(encoded, skip_special_tokens=True)})
    return rows


SNIPPETS = [
    "{{ x }}", "{{ s }}|{{ n }}|{{ f }}|{{ t }}|{{ l }}|{{ d }}", "  {{ x }}  ", "  {% if t %}  a  {% endif %}  b", "a\n  {% if t %}\n  b\n  {% endif %}\nc",
    "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc", "a {{- x -}} b", "a {{ x }}{{- s }} b", "a {# c #} b", "a\n {# c #}\nb", "a {#- c -#} b",
    "a\n  {%+ if t %}\nb{% endif +%}\nc", "foo {{ x }} {%- if t %} bar{% endif %}", "{% for i in l %}{{ i }} {% endfor %}", "x\n", "x\n\n", "x\r\ny\r\n",
    "{% for i in l %}\n  {{ i }}\n{% endfor %}\nend", "{{ l | tojson }}", "{{ d | tojson }}", "{{ d | tojson(indent=2) }}", "{{ l | tojson(indent=4) }}",
    "{{ d | tojson(sort_keys=true) }}", "{{ d | tojson(separators=(',', ':')) }}", "{{ d | tojson(ensure_ascii=true) }}", "{{ [] | tojson(indent=2) }}{{ {} | tojson(indent=2) }}",
    "{{ f | tojson }} {{ 1.0 | tojson }} {{ (100000.0 * 100000) | tojson }}", "{{ u | tojson }}", "{{ s | tojson }}", "{{ none | tojson }}{{ true | tojson }}",
    "{% raw %}{{ x }} {% if %}{% endraw %}!", "a {%- raw -%} {{ x }} {%- endraw -%} b", "{{ 'a\\nb\\tc\\\\d\\'e' }}", "{{ \"q\\\"x\" }}", "{{ 'A\\x41\\u00e9\\U0001F600' }}",
    "{{ 'a' 'b' }}", "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': {'c': 2}}}['a']['b']['c'] }}", "{{ '}}' }}", "{{ '%}' }}{% if '%}' == '%}' %}y{% endif %}",
    "{% for i in l %}{% if loop.index0 == 1 %}{% set v = i %}{% endif %}{{ v is defined }}{% endfor %}", "{% set v = 0 %}{% for i in l %}{{ v }}{% set v = i %}{{ v }}{% endfor %}{{ v }}",
    "{% set ns = namespace(v=0) %}{% for i in l %}{% set ns.v = ns.v + i %}{% endfor %}{{ ns.v }}",
    "{% for i in l %}{% for j in l %}{% if j == 2 %}{% set w = i * j %}{% endif %}{{ w }},{% endfor %}{% if i == 2 %}{% set w = 9 %}{% endif %}{{ w }};{% endfor %}",
    "{% for i in l %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in l %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in d | items %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% macro m(a, b=2) %}[{{ a }},{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=3) }}", "{% macro m(n) %}{% if n > 0 %}{{ n }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{{ 'x' if t else 'y' }}{{ 'x' if not t }}", "{{ s.strip() }}|{{ s.lstrip('\\n') }}|{{ s.rstrip() }}", "{{ s | trim }}", "{{ 'a,b,c'.split(',')[-1] }}", "{{ 'abc'.startswith('ab') and 'abc'.endswith('bc') }}",
    "{{ l[::-1] }}{{ l[1:] }}{{ l[:-1] }}{{ l[-1] }}", "{{ 'abcdef'[1:3] }}{{ 'abc'[::-1] }}", "{{ l | length }}{{ d | length }}{{ s | length }}", "{{ l | join('-') }}", "{{ x is defined }}{{ y is defined }}{{ y is undefined }}",
    "{{ none is none }}{{ x is string }}{{ l is iterable }}{{ d is mapping }}{{ t is true }}{{ t is false }}", "{{ x in l }}{{ 2 in l }}{{ 'k' in d }}{{ 'e' in 'hello' }}{{ 'z' not in 'hello' }}",
    "{{ (1 + 2) * 3 }}{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 - 5 }}{{ 'a' ~ 1 ~ 'b' }}", "{{ not t }}{{ t and x }}{{ y or 'd' }}", "{{ y | default('d') }}{{ '' | default('e', true) }}", "[{{ s | trim }}][{{ s.strip() }}][{{ s | trim('\n ') }}]", "{{ x | upper }}{{ 'ABC' | lower }}{{ 'abc' | capitalize }}",
    "{% set a %}block {{ x }}{% endset %}[{{ a }}]", "{{ loop is defined }}{% for i in l %}{{ loop.first }}{{ loop.last }}{{ loop.index }}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{% endfor %}", "{{ range(3) | list }}{% for i in range(1, 7, 2) %}{{ i }}{% endfor %}", "{{ d.k }}{{ d['k'] }}{{ d.get('nope', 'dflt') }}{{ d.nope }}", "{{ messages[0].content }}{{ messages[0]['role'] }}",
    "{{ raise_exception('told so') }}", "{% if y %}a{% elif t %}b{% else %}c{% endif %}", "{%- generation %}g{{ x }}{% endgeneration %}", "{{ big }}{{ big | tojson }}", "{{ d.schema.items() | list | length }}",
    "{{ l | sum }}", "{{ l | first }}{{ l | last }}", "{{ 'a b c' | replace(' ', '_') }}{{ 'aXb'.replace('X', '-') }}", "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "{{ messages | map(attribute='role') | join(',') }}",
    "\u00fc {{ x }} 😀", "{{ '😀' | length }}", "{{ range(100001) | length }}", "{% set l2 = l %}{% set _ = l2.append(4) %}", "{{ 5 }}{{ 5.0 }}{{ 0.1 }}{{ 1e5 }}{{ 12_000 }}", "{{ d.f }}{{ d.n }}", "{{ 2.0 | string }}{{ none | string }}{{ l | string }}{{ x | string }}",
    "{% if t %}\n\n  x\n\n{% endif %}\n\ny", "\n\n{% if t %}z{% endif %}", "   {% if t %}z{% endif %}\n", "{% if t %}{% endif %}  {% if t %}q{% endif %}", "{{ x }}\n{{ x }}\n", "{% if t -%}\n\n a {%- endif %} \n b",
    "{{ strftime_now('%%') }}", "{{ strftime_now('%Y') | length }}", "{{ dict(a=1, b=2) }}", "{{ [1, 'two', 3.0, none, true] }}", "{{ ['it\\'s', 'q\"', 'new\\nline'] }}", "{{ s.split('\\n') }}", "{{ bos }}{{ y }}|",
]
VARIABLES = {
    "x": "value", "s": "\n  spaced é \u2028\n", "n": None, "f": 2.5, "t": True, "l": [1, 2, 3], "u": {"ü": "<&>'\"", "e": "\u2028\u0001\u007f😀"},
    "d": {"k": "v", "a": 1, "f": 1.0, "n": None, "schema": {"type": "array", "items": {"z": 1}}, "b": [True, {"y": []}]},
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}, {"role": "user", "content": "he"}],
    "big": 123456789012345678901234567890,
}


def snippets():
    rows = []
    for s in SNIPPETS:
        r = {"template": s}
        try:
            r["text"] = _compile_jinja_template(s).render(**copy.deepcopy(VARIABLES))
        except Exception as e:
            r["error"] = f"{type(e).__name__}: {e}"
        rows.append(r)
    return [{"variables": VARIABLES}] + rows


def write(name, rows):
    with open(os.path.join(HERE, name + ".jsonl.gz"), "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0) as z:
        for r in [{"made": MADE}] + rows:
            z.write((json.dumps(r, ensure_ascii=False) + "\n").encode())
    print(name, len(rows), "rows,", sum("error" in r for r in rows), "errors")


def main():
    tiny = os.path.join(HERE, "tiny")
    write("chat_qwen3", chats(AutoTokenizer.from_pretrained(sys.argv[1]), 280))
    write("chat_tiny", chats(AutoTokenizer.from_pretrained(tiny), 120))
    write("ids_qwen3", ids(sys.argv[1]))
    write("ids_tiny", ids(tiny))
    write("jinja", snippets())


main()
