package answer

import (
	"math/big"
	"strings"

	"tandem/trainer/reward/algebra"
)

// separators may stand between groups of three digits.
var separators = []string{",", "{,}", `,\!`, `\,`, `{\,}`, `\!`, `,\,`}

// maxDigits bounds a number; its value still fits the exact arithmetic.
const maxDigits = 4000

// number reads a decimal with its separators, its repeating part and its exponent of
// ten: 1,250.75 and 0.1\overline{6} and 2.5e-3. places and digits tell how a plain
// decimal was written.
func (p *parser) number() (e *algebra.Expr, places, digits int) {
	whole := p.digits()
	whole = p.groups(whole)
	part, repeat := "", ""
	dot := p.pos < len(p.src) && p.src[p.pos] == '.'
	if dot && (whole != "" || p.pos+1 < len(p.src) && (isDigit(p.src[p.pos+1]) || strings.HasPrefix(p.src[p.pos+1:], `\overline`))) {
		p.pos++
		part = p.digits()
		repeat = p.repeating()
	}
	if whole == "" && part == "" && repeat == "" {
		return p.unexpected(), 0, 0
	}
	if len(whole)+len(part) > maxDigits {
		return p.fail(errLength), 0, 0
	}
	v := decimal(whole, part)
	if repeat != "" {
		v.Add(v, repeatingValue(len(part), repeat))
	}
	if exp, ok := p.exponentOfTen(); ok {
		return algebra.Product(algebra.Rat(v), algebra.Power(algebra.Int(10), algebra.Int(exp))), 0, 0
	}
	if part == "" || repeat != "" {
		return algebra.Rat(v), 0, 0
	}
	return algebra.Rat(v), len(part), len(strings.TrimLeft(whole+part, "0"))
}

// decimal is the value of whole.part, both digits or empty.
func decimal(whole, part string) *big.Rat {
	digits := whole + part
	if len(digits) <= 18 {
		n, d := int64(0), int64(1)
		for i := range len(digits) {
			n = n*10 + int64(digits[i]-'0')
		}
		for range len(part) {
			d *= 10
		}
		return big.NewRat(n, d)
	}
	n, _ := new(big.Int).SetString(digits, 10)
	return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(part))), nil))
}

func (p *parser) digits() string {
	start := p.pos
	for p.pos < len(p.src) && isDigit(p.src[p.pos]) {
		p.pos++
	}
	return p.src[start:p.pos]
}

// groups reads the groups of three digits after the first one. They count only if
// every group of the run has three digits; a comma alone separates groups only outside
// brackets, where no list of them is likely.
func (p *parser) groups(first string) string {
	if first == "" || len(first) > 3 || first[0] == '0' {
		return first
	}
	whole, start := []byte(first), p.pos
	inList := start > len(first) && p.src[start-len(first)-1] == ',' // 11,14,101 has no thousands
	for {
		next, n := p.group(p.pos, p.bare && !inList)
		if n == 0 {
			return string(whole)
		}
		if len(next) != 3 {
			p.pos = start
			return first
		}
		whole = append(whole, next...)
		p.pos += n
	}
}

// group looks for a separator, which may be a plain comma, and digits at i: the digits,
// and the length of both.
func (p *parser) group(i int, comma bool) (string, int) {
	rest := p.src[i:]
	for _, sep := range separators {
		after, ok := strings.CutPrefix(rest, sep)
		if !ok || sep == "," && (!comma || strings.HasPrefix(after, `\!`) || strings.HasPrefix(after, `\,`)) {
			continue
		}
		if strings.HasSuffix(sep, "!") {
			after = strings.TrimLeft(after, " ")
		}
		n := 0
		for n < len(after) && isDigit(after[n]) {
			n++
		}
		if n > 0 {
			return after[:n], len(rest) - len(after) + n
		}
	}
	return "", 0
}

// repeating reads the \overline{...} after the point.
func (p *parser) repeating() string {
	if !strings.HasPrefix(p.src[p.pos:], `\overline`) {
		return ""
	}
	start := p.pos
	p.pos += len(`\overline`)
	inner, ok := p.rawGroup()
	if !ok || inner == "" || len(inner) > 200 || strings.Trim(inner, "0123456789") != "" {
		p.pos = start
		return ""
	}
	return inner
}

// repeatingValue is 0.000r r r..., with the given number of zeros before.
func repeatingValue(zeros int, r string) *big.Rat {
	n, _ := new(big.Int).SetString(r, 10)
	nines := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(r))), nil)
	nines.Sub(nines, big.NewInt(1))
	shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(zeros)), nil)
	return new(big.Rat).SetFrac(n, nines.Mul(nines, shift))
}

// exponentOfTen reads e5 or E-3 where it touches a number.
func (p *parser) exponentOfTen() (int64, bool) {
	rest := p.src[p.pos:]
	if rest == "" || rest[0]|0x20 != 'e' {
		return 0, false
	}
	i := 1
	if i < len(rest) && (rest[i] == '+' || rest[i] == '-') {
		i++
	}
	start := i
	var n int64
	for i < len(rest) && isDigit(rest[i]) && i-start < 5 {
		n = n*10 + int64(rest[i]-'0')
		i++
	}
	if i == start || i < len(rest) && (isDigit(rest[i]) || isLetter(rest[i])) {
		return 0, false
	}
	if rest[1] == '-' {
		n = -n
	}
	p.pos += i
	return n, true
}

// tailFraction reads the fraction of a mixed number, 3\frac14 or 3 1/4, when a proper
// fraction of whole numbers stands next.
func (p *parser) tailFraction() (*big.Rat, bool) {
	start := p.pos
	p.space()
	gap := p.pos > start
	if f, ok := p.acceptAny(`\frac`, `\dfrac`, `\tfrac`, `\cfrac`); ok && f != "" {
		a, okA := p.plainInteger()
		b, okB := p.plainInteger()
		if okA && okB && a.Cmp(b) < 0 && a.Sign() > 0 {
			return new(big.Rat).SetFrac(a, b), true
		}
		p.pos = start
		return nil, false
	}
	if gap && isDigitAt(p.src, p.pos) {
		n := p.digits()
		if p.pos < len(p.src) && p.src[p.pos] == '/' && isDigitAt(p.src, p.pos+1) {
			p.pos++
			a, _ := new(big.Int).SetString(n, 10)
			b, _ := new(big.Int).SetString(p.digits(), 10)
			if a.Cmp(b) < 0 && a.Sign() > 0 {
				return new(big.Rat).SetFrac(a, b), true
			}
		}
	}
	p.pos = start
	return nil, false
}

func isDigitAt(s string, i int) bool { return i < len(s) && isDigit(s[i]) }

// plainInteger reads {12} or one digit.
func (p *parser) plainInteger() (*big.Int, bool) {
	text := ""
	if p.peek() == '{' {
		inner, ok := p.rawGroup()
		if !ok {
			return nil, false
		}
		text = strings.TrimSpace(inner)
	} else if isDigitAt(p.src, p.pos) {
		text = p.src[p.pos : p.pos+1]
		p.pos++
	}
	if text == "" || len(text) > maxDigits || strings.Trim(text, "0123456789") != "" {
		return nil, false
	}
	return new(big.Int).SetString(text, 10)
}
