"""Verdicts of the published graders, as golden data for TestPublishedAgainstOracle.

Written from the description of their behaviour, on top of the two libraries whose
behaviour is part of it. In a virtual environment with sympy==1.14.0 and
pylatexenc==2.11:

    go test ./trainer/reward -run TestPublishedAgainstOracle -pairs /tmp/pairs.jsonl
    python trainer/reward/testdata/gen_published.py /tmp/pairs.jsonl trainer/reward/testdata/published.txt.gz

Input: JSON lines {"response", "label"}. Output: a header line, then per pair the first
12 hex digits of sha256(response NUL label) and one letter each for math, deepscaler, dapo
and dapo-strict: 1 right, 0 wrong, E the published code raises, T no verdict in 10 s.
"""

import datetime
import gzip
import hashlib
import importlib.metadata
import json
import multiprocessing
import re
import signal
import sys

import sympy
from pylatexenc.latex2text import LatexNodes2Text
from sympy.parsing import sympy_parser as sp


def boxed(text, strict_open=False):
    start = text.rfind("\\boxed{" if strict_open else "\\boxed")
    if start < 0:
        return None
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if text[i] == "}" and depth == 0:
            whole = text[start : i + 1]
            return whole[7:-1] if whole.startswith("\\boxed{") else None
    return None


def unwrap(s):
    m = re.search(r"^\\text\{(.+?)\}$", s)
    return m.group(1) if m else None


# --- the string normalisation that came with MATH ---


def mathd_steps(s):
    for a, b in [("\n", ""), ("\\!", ""), ("\\\\", "\\"), ("tfrac", "frac"), ("dfrac", "frac"), ("\\left", ""),
                 ("\\right", ""), ("^{\\circ}", ""), ("^\\circ", ""), ("\\$", "")]:
        s = s.replace(a, b)
    if "\\text{ " in s:
        head, _ = s.split("\\text{ ")  # more than one: an exception, like the assertion
        s = head
    s = s.replace("\\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if not s:
        return s
    if s[0] == ".":
        s = "0" + s
    sides = s.split("=")
    if len(sides) == 2 and len(sides[0]) <= 2:
        s = sides[1]
    head, *tails = s.split("\\sqrt")
    s = head + "".join("\\sqrt" + (t if t[0] == "{" else "{" + t[0] + "}" + t[1:]) for t in tails)
    s = fractions(s.replace(" ", ""))
    if s == "0.5":
        s = "\\frac{1}{2}"
    halves = s.split("/")
    if len(halves) == 2:
        try:
            a, b = int(halves[0]), int(halves[1])
        except ValueError:
            return s
        if s == f"{a}/{b}":
            return "\\frac{%d}{%d}" % (a, b)
    return s


def fractions(s):
    head, *tails = s.split("\\frac")
    out = head
    for t in tails:
        if t[0] == "{":
            out += "\\frac" + t
        elif len(t) < 2:
            return s
        elif t[1] == "{":
            out += "\\frac{" + t[0] + "}" + t[1:]
        else:
            out += "\\frac{" + t[0] + "}{" + t[1] + "}" + t[2:]
    return out


def mathd(s):
    s = s.strip()
    try:
        inner = unwrap(s)
        if inner is not None:
            s = inner.strip()
        return mathd_steps(s)
    except Exception:
        return s


# --- the normalisation and comparison that end in algebra ---

UNITS = "degree cm centimeter meter mile second minute hour day week month year foot feet inch yard".split()


def as_float(s):
    try:
        return float(s)
    except ValueError:
        return None


def near_int(v):
    try:
        return abs(v - int(round(v))) <= 1e-7
    except Exception:
        return False


def ungroup(s):
    while True:
        t = re.sub(r"(\d)(,)(\d\d\d)($|\D)", r"\1\3\4", s)
        if t == s:
            return s
        s = t


def int_text(s):
    v = as_float(ungroup(s))
    return v is not None and near_int(v)


def to_text(s):
    s = s.replace("\\tfrac", "\\frac").replace("\\dfrac", "\\frac").replace("\\frac", " \\frac")
    s = LatexNodes2Text().latex_to_text(s)
    for a, b in zip("√π∞∪·×", ["sqrt", "pi", "inf", "U", "*", "*"]):
        s = s.replace(a, b)
    return s.strip()


def normal(s):
    inner = unwrap(s)
    if inner is not None:
        s = inner
    for a, b in [("\\%", "%"), ("\\$", "$"), ("$", ""), ("%", ""), (" or ", " , "), (" and ", " , "), ("million", "*10^6"),
                 ("billion", "*10^9"), ("trillion", "*10^12")]:
        s = s.replace(a, b)
    for u in UNITS:
        s = re.sub(u + r"(es)?(s)? *(\^[0-9]+)?", "", s)
    s = re.sub(r"\^ *\\circ", "", s)
    if s and s[0] == "{" and s[-1] == "}":
        s = s[1:-1]
    s = re.sub(r",\\! *", "", s)
    v = as_float(s)
    if v is not None and near_int(v):
        s = str(int(round(v)))
    if "\\" in s:
        try:
            s = to_text(s)
        except Exception:
            pass
    s = re.sub("- *", "-", s)
    s = re.sub("([0-9]) +([0-9])", r"\1+\2", s)
    s = s.replace(" ", "").replace("{", "").replace("}", "").lower()
    if int_text(s):
        s = str(int(float(s.replace(",", ""))))
    return s


def elements(s):
    s = ungroup(s)
    if not s:
        return []
    if len(s) > 2 and s[0] in "()[]" and s[-1] in "()[]" and not any(c in s[1:-1] for c in "()[]"):
        return [e.strip() for e in s[1:-1].split(",")]
    return [s]


def algebra_says_zero(want, given):
    expr = f"({want})-({given})"
    letters = {c for c in expr.replace("sqrt", "").replace("frac", "") if c.isalpha()}
    if len(letters) > 2 or "^{" in expr or "^(" in expr or re.search(r"\^[0-9]+\^", expr) or re.search(r"\^[0-9][0-9]+", expr):
        return False
    try:
        rules = sp.standard_transformations + (sp.implicit_multiplication_application,)
        return bool(sympy.simplify(sp.parse_expr(expr.replace("^", "**"), transformations=rules)) == 0)
    except TimeoutError:
        raise
    except Exception:
        return False


FRACTION = r"^-?[0-9]+.?/0*[1-9][0-9]*.?$"


def sympy_rule(given, want):
    want, given = normal(want), normal(given)
    if want == given:
        return True
    if not given:
        return False
    ws, gs = elements(want), elements(given)
    if len(ws) > 1 and (want[0] != given[0] or want[-1] != given[-1]) or len(ws) != len(gs):
        return False
    for w, g in zip(ws, gs):
        if re.search(FRACTION, w) and re.search(FRACTION, g):
            ok = w == g
        elif int_text(w) != int_text(g):
            ok = False
        else:
            ok = algebra_says_zero(w, g)
        if not ok:
            return False
    return bool(ws)


def right(answer, label):
    return mathd(answer) == mathd(label) or sympy_rule(answer, label)


def grade_math(response, label):
    if not label:
        return False
    if "\\boxed" in label:
        label = boxed(label)
    answer = boxed(response)
    if answer is None or label is None:
        return False
    return right(answer, label)


def grade_deepscaler(response, label):
    if "</think>" in response:
        response = response.split("</think>")[-1]
    elif "###Response" in response:
        response = response.split("###Response")[1]
    else:
        return False
    return grade_math(response, label)


# --- dapo ---

REWRITES = [("an ", ""), ("a ", ""), (".$", "$"), ("\\$", ""), ("\\ ", ""), (" ", ""), ("mbox", "text"), (",\\text{and}", ","),
            ("\\text{and}", ","), ("\\text{m}", "\\text{}")]
DELETIONS = ("square ways integers dollars mph inches hours km units \\ldots sue points feet minutes digits cents degrees cm gm pounds meters "
             "meals edges students childrentickets multiples \\text{s} \\text{.}").split() + ["\\text{\ns}", "\\text{}^2", "\\text{}^3",
             "\\text{\n}", "\\text{}", "\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", '"', "\\dots", "<|im_end|>", "<|endoftext|>"]


def dapo_normal(s):
    s = s.split("=")[-1]
    for a, b in REWRITES:
        s = s.replace(a, b)
    for d in DELETIONS:
        s = s.replace(d, "")
    s = re.sub(r"(.*?)(\$)(.*?)(\$)(.*)", r"$\3$", s)
    for command in ("text", "textbf", "overline"):
        s = re.sub(r"\\%s\{(.*?)\}" % command, r"\1", s)
    s = re.sub(r"\\boxed\{(.*)\}", r"\1", s)
    s = re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", s)
    s = re.sub(r"sqrt([^{])", r"sqrt{\1}", s)
    s = s.replace("$", "")
    if s.replace(",", "").isdigit():
        s = s.replace(",", "")
    return s.strip()


def grade_dapo(response, label):
    found = re.findall(r"(?i)Answer\s*:\s*([^\n]+)", response[-300:])
    given = dapo_normal(found[-1] if found else "[INVALID]")
    return given == str(int(float(dapo_normal(label))))


def grade_strict(response, label):
    return boxed(response[-300:][-100:], True) == label


GRADERS = [grade_math, grade_deepscaler, grade_dapo, grade_strict]


def letter(grader, response, label):
    def late(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    try:
        return "1" if grader(response, label) else "0"
    except TimeoutError:
        return "T"
    except Exception:
        return "E"
    finally:
        signal.alarm(0)


def verdicts(line):
    row = json.loads(line)
    response, label = row["response"], row["label"]
    key = hashlib.sha256((response + "\0" + label).encode()).hexdigest()[:12]
    return key + " " + "".join(letter(g, response, label) for g in GRADERS)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        lines = f.read().splitlines()
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("sympy", "pylatexenc"))
    with multiprocessing.Pool(2) as pool, gzip.GzipFile(sys.argv[2], "wb", mtime=0) as out:
        out.write(f"# {datetime.date.today()} python {sys.version.split()[0]}, {versions}\n".encode())
        for v in pool.imap(verdicts, lines, chunksize=20):
            out.write((v + "\n").encode())


if __name__ == "__main__":
    main()
