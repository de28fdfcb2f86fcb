package answer_test

import (
	"testing"

	"tandem/trainer/reward/algebra"
	"tandem/trainer/reward/answer"
)

// compare parses two answers and compares them, under the budget the grader uses.
func compare(t testing.TB, a, b string) (answer.Outcome, string) {
	t.Helper()
	x, err := answer.Parse(a)
	if err != nil {
		return answer.Outcome{}, "could not read " + a + ": " + err.Error()
	}
	y, err := answer.Parse(b)
	if err != nil {
		return answer.Outcome{}, "could not read " + b + ": " + err.Error()
	}
	o := answer.Equal(x, y, algebra.NewBudget(5_000_000))
	return o, x.String() + " against " + y.String() + " by " + o.Rule
}

func TestEqual(t *testing.T) {
	groups := map[string][][2]string{
		"fractions": {{`\frac12`, `0.5`}, {`\frac{1}{2}`, `1/2`}, {`\frac{2}{4}`, `\tfrac12`}, {`-\frac{1}{2}`, `\frac{-1}{2}`}, {`\frac{1}{-2}`, `-1/2`},
			{`\frac 34`, `.75`}, {`\frac9{19}`, `9/19`}, {`\frac{270}7`, `\frac{270}{7}`}, {`\frac{\frac12}{3}`, `\frac16`}, {`{1 \over 2}`, `\frac12`}, {`\cfrac{1}{2}`, `1/2`},
			{`6/8`, `3/4`}, {`\dfrac{10}{4}`, `2.5`}, {`½`, `1/2`}, {`\frac{1}{3}`, `0.\overline{3}`}, {`0.1\overline{6}`, `1/6`}, {`.\overline{09}`, `1/11`}},
		"mixed numbers": {{`1\frac{4}{5}`, `9/5`}, {`137 \frac{1}{2}`, `137.5`}, {`-2\frac13`, `-7/3`}, {`7 3/4`, `31/4`}, {`2\frac{x}{3}`, `2x/3`}, {`1 1/2`, `\frac32`}},
		"thousands": {{`10,\!080`, `10080`}, {`11,\! 111,\! 111,\! 100`, `11111111100`}, {`58,500`, `58500`}, {`\$32,\!348`, `32348`}, {`1\,000\,000`, `1000000`}, {`1{,}000`, `1,000`},
			{`1,234,567,890`, `1234567890`}, {`6{,}290{,}000`, `6290000`}, {`-1,250`, `-1250`}, {`12,345.60`, `12345.6`}},
		"decimals": {{`.35625`, `0.35625`}, {`0.15`, `.150`}, {`5.`, `5`}, {`007`, `7`}, {`1.0`, `1`}, {`-0`, `0`}, {`+5`, `5`}, {`0.333333333`, `1/3`}, {`1.41421356`, `\sqrt2`}, {`3.14159265`, `\pi`}, {`3.14159265358979`, `\pi`},
			{`2.718281828`, `e`}, {`0.666666667`, `2/3`}},
		"scientific": {{`4.5\times10^{3}`, `4500`}, {`6.02 \cdot 10^{23}`, `602000000000000000000000`}, {`1.5e3`, `1500`}, {`2E-3`, `0.002`}, {`3 \times 10^{-4}`, `0.0003`}, {`10^3`, `1000`}, {`10^{10}`, `10000000000`}},
		"powers and radicals": {{`\sqrt{12}`, `2\sqrt3`}, {`\frac{1}{\sqrt2}`, `\frac{\sqrt2}{2}`}, {`\sqrt[3]{54}`, `3\sqrt[3]{2}`}, {`2^{1/2}`, `\sqrt2`}, {`8^{\frac{2}{3}}`, `4`}, {`\sqrt[3]{-27}`, `-3`}, {`(-8)^{1/3}`, `-2`},
			{`\sqrt{\frac{1}{4}}`, `\frac12`}, {`\sqrt{3+2\sqrt2}`, `1+\sqrt2`}, {`\frac{\sqrt6+\sqrt2}{4}`, `\cos 15^\circ`}, {`2^{-3}`, `\frac18`}, {`x^{-1}`, `\frac1x`}, {`\sqrt{50}+\sqrt{2}`, `6\sqrt2`}, {`\sqrt[4]{16}`, `2`},
			{`11 \sqrt{5} + 11`, `11(1+\sqrt5)`}, {`\sqrt{5}^2`, `5`}, {`√3`, `\sqrt{3}`}, {`sqrt(3)/2`, `\frac{\sqrt{3}}{2}`}, {`2^10`, `1024`}, {`\sqrt{-4}`, `2i`}, {`2**3`, `8`}},
		"logs and exponentials": {{`\log_2 8`, `3`}, {`\log_{10} 100`, `2`}, {`\log 100`, `2`}, {`\ln e`, `1`}, {`\ln(e^3)`, `3`}, {`e^{\ln 5}`, `5`}, {`\ln 8`, `3\ln 2`}, {`\log_2 3 \cdot \log_3 4`, `2`}, {`\frac{\ln 9}{\ln 3}`, `2`},
			{`\exp(2)`, `e^2`}, {`\ln\frac{1}{2}`, `-\ln 2`}, {`\log_4 8`, `\frac32`}, {`\ln 2x`, `\ln(2x)`}, {`\log_{\frac12} 4`, `-2`}, {`e^{x+y}`, `e^xe^y`}, {`\ln(2)+\ln(3)`, `\ln 6`}},
		"trigonometry": {{`\sin 30^\circ`, `\frac12`}, {`\sin\frac{\pi}{3}`, `\frac{\sqrt3}{2}`}, {`\cos 60°`, `0.5`}, {`\tan(\pi/4)`, `1`}, {`\sin^2 x+\cos^2 x`, `1`}, {`\sin 2x`, `2\sin x\cos x`}, {`\arcsin 1`, `\frac{\pi}{2}`},
			{`\sin^{-1} 1`, `\pi/2`}, {`\cot x`, `\frac{\cos x}{\sin x}`}, {`\sec x`, `1/\cos x`}, {`\tan^{-1}(1)`, `\arctan 1`}, {`\cos(2x)`, `1-2\sin^2 x`}, {`\sin(\pi/10)`, `\frac{\sqrt5-1}{4}`}, {`\sin x`, `\sin(x)`}, {`cos(pi/3)`, `1/2`},
			{`\text{cis}(\pi)`, `-1`}, {`\cosh x`, `\frac{e^x+e^{-x}}{2}`}, {`\sin(30^\circ)`, `1/2`}, {`\tan 45 ^{\circ}`, `1`}, {`\sin{x}`, `\sin x`}},
		"complex": {{`1+2i`, `2i+1`}, {`i^2`, `-1`}, {`(1+i)^2`, `2i`}, {`\frac{1}{i}`, `-i`}, {`e^{i\pi}`, `-1`}, {`6 - 5i`, `6-5\mathrm{i}`}, {`-2 + 7i`, `7i-2`}, {`|3+4i|`, `5`}, {`\frac{1+i}{1-i}`, `i`}, {`e^{2\pi i/3}`, `-\frac12+\frac{\sqrt3}{2}i`}},
		"pi":      {{`2\pi`, `\pi\cdot2`}, {`\frac{\pi}{2}`, `\pi/2`}, {`18+2\pi`, `2(9+\pi)`}, {`\frac{20000}{\pi}`, `20000/\pi`}, {`288 \pi`, `288π`}, {`2pi`, `2\pi`}, {`0.5\pi`, `\frac\pi2`}, {`\frac{7}{6}\pi`, `\frac{7\pi}{6}`}},
		"expressions": {{`(a+5)(b+2)`, `ab+2a+5b+10`}, {`p - q`, `-q+p`}, {`6r^2-4r-24`, `2(3r^2-2r-12)`}, {`5r^5`, `5r^{5}`}, {`8n^2 + 4n + 1`, `1+4n(2n+1)`}, {`\frac{11+9a}{20}`, `0.55+0.45a`}, {`x(x+1)`, `x^2+x`}, {`-(x-1)`, `1-x`},
			{`\frac{x^2-1}{x-1}`, `x+1`}, {`2x\cdot y`, `2xy`}, {`3R^2`, `3 R^2`}, {`|x-1|`, `|1-x|`}, {`\lfloor 3.7 \rfloor`, `3`}, {`\lceil \pi \rceil`, `4`}, {`x!`, `x!`}, {`(n+1)!`, `(n+1)n!`}, {`\binom{n}{2}`, `\frac{n(n-1)}{2}`}, {`\binom{5}{2}`, `10`},
			{`{5 \choose 2}`, `10`}, {`5!`, `120`}, {`\frac{5!}{3!}`, `20`}, {`\alpha+\beta`, `\beta+\alpha`}, {`x_1+x_2`, `x_2+x_1`}, {`x_{1}`, `x_1`}, {`2^{n+1}`, `2\cdot2^n`}, {`(-1)^{n+1}`, `-(-1)^n`}, {`f(x)`, `f( x )`}, {`\frac{a}{b}\cdot\frac{c}{d}`, `\frac{ac}{bd}`},
			{`\max(2,3)`, `3`}, {`a^{2}b`, `ba^2`}, {`x*y`, `xy`}, {`\left(x+1\right)^2`, `x^2+2x+1`}, {`1/2x`, `x/2`}, {`\sqrt{x}^2`, `x`}, {`\frac{1}{x}+\frac1y`, `\frac{x+y}{xy}`}, {`[x+1]^2`, `(x+1)^2`}, {`7\div2`, `3.5`}},
		"equations": {{`x=5`, `5`}, {`5=x`, `x=5`}, {`y=2x+3`, `2x+3`}, {`y = -2x`, `2x+y=0`}, {`5x - 7y + 11z + 4 = 0`, `-5x+7y-11z=4`}, {`2x=10`, `x=5`}, {`x^2+y^2=1`, `1-x^2-y^2=0`}, {`f(x)=x^2`, `x^2`}, {`f^{-1}(x)=\frac{x-1}{2}`, `(x-1)/2`}, {`x\equiv 3\pmod 5`, `x \equiv 3 \pmod{5}`}, {`3\pmod5`, `3 \pmod{5}`}, {`\frac{x}{2}+\frac{y}{3}=1`, `3x+2y=6`},
			{`\text{Area} = 12`, `12`}, {`S = \frac12\cdot4 = 2`, `2`}, {`x = y`, `y=x`}, {`x_1=3`, `3`}, {`P(x)=x+1`, `x+1`}, {`A=\{1,2\}`, `\{2,1\}`}, {`(x,y)=(1,2)`, `(1,2)`}, {`AB=5`, `5`}, {`k=-\frac12`, `-0.5`}, {`a+b=7`, `b=7-a`}},
		"lists and sets": {{`1,-2`, `-2,1`}, {`3, 5, 7`, `7,5,3`}, {`\{1,2\}`, `1,2`}, {`1 \text{ and } 2`, `2,1`}, {`1 and 2`, `1,2`}, {`x=1 \text{ or } x=2`, `1,2`}, {`x=1, x=2`, `\{2,1\}`}, {`x_1=1,x_2=2`, `1,2`}, {`\{1\pm\sqrt5,-2\}`, `-2,1+\sqrt{5},1-\sqrt5`},
			{`1 \pm \sqrt{19}`, `1-\sqrt{19},1+\sqrt{19}`}, {`x=1\pm2`, `3,-1`}, {`\pm 3`, `3,-3`}, {`\emptyset`, `\{\}`}, {`\varnothing`, `\emptyset`}, {`\{5\}`, `5`}, {`x=1,2`, `1,2`}, {`1;2`, `1,2`}, {`\left\{ 1, 2 \right\}`, `\{1,2\}`}, {`\{(1,2),(3,4)\}`, `(3,4),(1,2)`}, {`1, 2, and 3`, `3,2,1`},
			{`x=2,\ y=5`, `(2,5)`}, {`10, 1,000`, `\{1000, 10\}`}, {`11,12,14,101,102`, `101,102,11,12,14`}, {`\begin{cases}x=1\\y=2\end{cases}`, `(1,2)`}, {`x_{1,2}=1\pm\sqrt2`, `1\pm\sqrt2`}, {`=5`, `5`}, {`\therefore x=5`, `5`}},
		"tuples and intervals": {{`(15,-29)`, `\left( 15, -29 \right)`}, {`( 3, \frac{\pi}{2} )`, `(3,\pi/2)`}, {`[0,\infty)`, `x\ge0`}, {`(-\infty,2)\cup(3,\infty)`, `x<2 \text{ or } x>3`}, {`x \in [-2,7]`, `-2\le x\le7`}, {`(2,\infty)`, `x>2`}, {`(1,2)\cup(2,3)`, `(2,3)\cup(1,2)`}, {`(0,2]\cup[2,3)`, `(0,3)`},
			{`\mathbb{R}\setminus\{1\}`, `(-\infty,1)\cup(1,\infty)`}, {`x\ne1`, `(-\infty,1)\cup(1,+\infty)`}, {`\{x : x>2\}`, `(2,\infty)`}, {`\{x \mid 1<x\le 2\}`, `(1,2]`}, {`(-\infty,\infty)`, `\mathbb{R}`}, {`(0, 0.5)`, `(0,\frac12)`}, {`(-\sqrt3,\sqrt3)`, `-\sqrt{3}<x<\sqrt{3}`}, {`\left(\frac35,\frac83\right]`, `(0.6,8/3]`},
			{`x>2 \text{ and } x<5`, `(2,5)`}, {`\{x\mid x\in\mathbb{R}, x\neq 0\}`, `(-\infty,0)\cup(0,\infty)`}, {`5>x`, `x<5`}, {`\langle 1,2 \rangle`, `(1,2)`}, {`(-\infty, 0]`, `x \leq 0`}, {`[1,1]`, `[1,1]`}, {`(0,3)\cap(1,5)`, `(1,3)`}, {`(2,12) U (12,102)`, `(2,12)\cup(12,102)`}, {`(1, 2, 3)`, `(1,2,3)`}},
		"inequalities": {{`x\le5`, `5\ge x`}, {`2x>10`, `x>5`}, {`-x<3`, `x>-3`}, {`x+y<1`, `1>y+x`}, {`a\leq b`, `b\geq a`}, {`0<x<1`, `1>x>0`}, {`x >= 2`, `x\geqslant2`}, {`x<y<z`, `z>y>x`}},
		"matrices": {{`\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}`, `\begin{bmatrix}1&2\\3&4\end{bmatrix}`}, {`\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}`, `\frac13\begin{pmatrix} -1 \\ 2 \end{pmatrix}`}, {`\begin{pmatrix}1\\2\\\end{pmatrix}`, `\begin{pmatrix}1\\2\end{pmatrix}`},
			{`A=\begin{pmatrix}1\end{pmatrix}`, `\begin{pmatrix}1.0\end{pmatrix}`}, {`\left(\begin{array}{cc}1&2\\3&4\end{array}\right)`, `\begin{pmatrix}1&2\\3&4\end{pmatrix}`}},
		"numerals": {{`204_5`, `204_{5}`}, {`204_5`, `204`}, {`1101_2`, `1101`}, {`4210_{5}`, `4210_5`}, {`11_2`, `3_{10}`}, {`52_8`, `(52)_8`}, {`DC1_{16}`, `DC1_{16}`}, {`A7_{16}`, `167_{10}`}, {`1101_{\text{two}}`, `1101_2`}},
		"units": {{`6 \text{ hours and } 15 \text{ minutes}`, `6.25\text{ hours}`}, {`3\text{ hours }20\text{ minutes}`, `200 \text{ minutes}`}, {`5\text{ ft } 4\text{ in}`, `64\text{ inches}`}, {`5\text{ cm and } 6\text{ kg}`, `6,5`}, {`\$12,500 per year`, `12500`}, {`25\text{ \%}`, `25`}, {`5^\text{th}`, `5`}, {`2\text{nd}`, `2`}, {`4\text{ square } \text{cm}`, `4\text{ cm}^2`}, {`15\mbox{ cm}^2`, `15`}, {`5.4 \text{ cents}`, `5.4`}, {`\$18.90`, `18.9`}, {`864 \mbox{ inches}^2`, `864\text{ square inches}`}, {`18\text{ cm}`, `18 cm`}, {`\frac{270}7\text{ degrees}`, `\frac{270}{7}`}, {`90^\circ`, `90`}, {`1\text{ m}`, `100\text{ cm}`}, {`36\text{ students}`, `36`},
			{`5\text{ km/h}`, `5`}, {`60\text{ miles per hour}`, `60`}, {`10\%`, `10`}, {`35%`, `35\%`}, {`x=5\text{ cm}`, `5`}, {`4\text{ hours}`, `4\text{ hr}`}, {`5\,\mathrm{cm}`, `5`}, {`12 \text{ in.}`, `12`}, {`\$5`, `5\text{ dollars}`}, {`2\text{ ft}^3`, `2\text{ cubic feet}`}, {`5 apples`, `5`}},
		"ratios": {{`1:2`, `2:4`}, {`1{:}2`, `1:2`}, {`3:4:5`, `3 : 4 : 5`}, {`7:32`, `7:32`}, {`A:B=1`, `1`}, {`\frac12:1`, `1:2`}},
		"texts": {{`\text{Evelyn}`, `Evelyn`}, {`\text{yes}`, `Yes`}, {`\text{even}`, `\textbf{Even}`}, {`east`, `\text{East}`}, {`\text{(B)}`, `B`}, {`(B)`, `\text{B}`}, {`\textbf{(C)}\ 24`, `C`}, {`\text{I, III}`, `III and I`}, {`\text{A, C}`, `C,A`}, {`\text{Alice and Bob}`, `\text{Bob, Alice}`}, {`\text{no solution}`, `No solution`}, {`March`, `\text{Mar}`}, {`\mathrm{(D)}`, `D`},
			{`\text{ ellipse }`, `ellipse`}, {`(A) 3`, `A`}, {`\text{True}`, `true`}, {`\text{infinitely many}`, `infinitely many`}, {`\text{4:30 p.m.}`, `4:30 pm`}, {`4:30 p.m.`, `4:30`}, {`\text{undefined}`, `undefined`}},
		"delimiters": {{`$\frac12$`, `\frac12`}, {`\(\frac12\)`, `0.5`}, {`\[5\]`, `5`}, {`5.`, `5`}, {`{5}`, `5`}, {`\displaystyle\frac12`, `1/2`}, {`\boxed{5}`, `5`}, {`\mathbf{42}`, `42`}, {`\text{42}`, `42`}, {`x \approx 3.2`, `3.2`}, {`\left.5\right.`, `5`}, {` 5 `, `5`}, {`\,5\;`, `5`}, {`{{5}}`, `5`}, {"5\n", "5"}},
	}
	for name, pairs := range groups {
		for _, p := range pairs {
			t.Run(name+"/"+p[0], func(t *testing.T) {
				if o, how := compare(t, p[0], p[1]); !o.Equal {
					t.Errorf("%q is not %q: %s", p[0], p[1], how)
				}
				if o, how := compare(t, p[1], p[0]); !o.Equal {
					t.Errorf("%q is not %q: %s", p[1], p[0], how)
				}
			})
		}
	}
}

func TestDifferent(t *testing.T) {
	groups := map[string][][2]string{
		"numbers": {{`1`, `2`}, {`0.333`, `1/3`}, {`3.14`, `\pi`}, {`10001`, `10000`}, {`123456789012345679`, `123456789012345678`}, {`0,3`, `3`}, {`17,43`, `1743`}, {`1.41421357`, `\sqrt2`}, {`0.33333333`, `1/3`}, {`100000000.1`, `100000000`}, {`1\frac12`, `\frac12`}, {`-1\frac12`, `-\frac12`},
			{`35\%`, `0.35`}, {`4.5\times10^3`, `4.5\times10^2`}, {`12345678901234567890.1`, `12345678901234567890.2`}, {`1,250`, `1,251`}, {`2^{90}`, `2^{91}`}, {`5`, `-5`}, {`123456789`, `123456789.0001`}},
		"radicals":     {{`\sqrt[3]{27}`, `\sqrt{27}`}, {`\sqrt{x^2}`, `x`}, {`\sqrt2+\sqrt3`, `\sqrt5`}, {`\sqrt{2}`, `-\sqrt2`}, {`6\sqrt(5)`, `6`}, {`\frac{1}{23}`, `\frac{12}{3}`}},
		"expressions":  {{`(x+1)^2`, `x^2+1`}, {`f(x)`, `f(y)`}, {`a_1`, `a_2`}, {`x`, `y`}, {`3r^2`, `3R^2`}, {`2^x`, `x^2`}, {`\ln x^2`, `2\ln x`}, {`\sin x`, `\cos x`}, {`x+1`, `x`}, {`f(x+1)`, `f(x)+f(1)`}, {`\log_2 3`, `\log_3 2`}, {`\sin 30`, `\frac12`}, {`e^x`, `e^{-x}`}, {`x'`, `x`}},
		"equations":    {{`x=5`, `y=5`}, {`x=5`, `6`}, {`7=11a+c`, `11a+c`}, {`3x-y+13=0`, `3x+4y+14=0`}, {`f(x)=0`, `f(x)=1`}, {`x=x`, `5`}, {`y=2x`, `y=2x+1`}, {`x^2=4`, `x=2`}, {`x=2`, `x\ne2`}, {`x+y=1`, `1`}, {`2x=10`, `10`}},
		"lists":        {{`1,2,5`, `1,2`}, {`1,2`, `1,2,5`}, {`5,5`, `5`}, {`1,1,2`, `1,2,2`}, {`n=1,2,3`, `n=2,3,4`}, {`(1,2)`, `\{1,2\}`}, {`(1,2)`, `1,2`}, {`1 \text{ or } 2`, `2`}, {`\pm3`, `3`}, {`\emptyset`, `0`}, {`\{0\}`, `\emptyset`}, {`y=5, x=3`, `(5,3)`}},
		"tuples":       {{`(2,4)`, `(4,2)`}, {`(1,2)`, `(1,2,3)`}, {`[0,1]`, `(0,1)`}, {`[2,5)`, `[2,5]`}, {`D=(0,1)`, `D=(0,1.5)`}, {`[0,100]`, `50`}, {`(-\infty,1)\cup(1,\infty)`, `(-\infty,\infty)`}, {`(2,\infty)`, `x\ge2`}, {`(1,2)\cup(3,4)`, `(1,4)`}, {`(1,2)`, `12`}, {`(1,2)`, `1.2`}},
		"inequalities": {{`x>5`, `x<5`}, {`x>5`, `x\ge5`}, {`x>5`, `y>5`}, {`x>5`, `5`}, {`-2x>10`, `x>-5`}, {`x>5`, `x=5`}},
		"matrices":     {{`\begin{pmatrix}1\\2\end{pmatrix}`, `\begin{pmatrix}1&2\end{pmatrix}`}, {`\begin{pmatrix}1\\2\end{pmatrix}`, `\begin{pmatrix}1\\3\end{pmatrix}`}, {`\begin{pmatrix}1\end{pmatrix}`, `2`}},
		"numerals":     {{`204_5`, `54`}, {`204_5`, `204_6`}, {`11_2`, `12_2`}, {`101_2`, `5`}},
		"units":        {{`5\text{ km}`, `5\text{ m}`}, {`18\mbox{ cm}^2`, `324`}, {`5\text{ cm}`, `5\text{ cm}^2`}, {`\$5`, `5\text{ cents}`}, {`18\text{ cm}`, `18\text{ kg}`}},
		"ratios":       {{`1:2:3`, `1:4:9`}, {`1:2`, `2:1`}, {`4:30`, `4.5`}, {`4:30 am`, `4:30 pm`}, {`4 am`, `4 pm`}},
		"texts":        {{`\text{not even}`, `even`}, {`A \text{ or } B`, `B`}, {`C`, `D`}, {`yes`, `no`}, {`\text{Alice}`, `\text{Bob}`}, {`east`, `seat`}, {`\text{5 is wrong}`, `5`}, {`\textbf{(C)}\ 24`, `D`}, {`\text{odd}`, `\text{even}`}},
		"odd":          {{`\frac00`, `1`}, {`nan`, `5`}, {`1\%0`, `0`}, {`5 12/7`, `12`}, {`\infty`, `-\infty`}, {`\infty`, `1`}, {`\frac10`, `\frac20`}, {`1 2`, `12`}, {`1 2`, `2`}, {`x=1,y=2`, `x=2,y=1`}},
	}
	for name, pairs := range groups {
		for _, p := range pairs {
			t.Run(name+"/"+p[0], func(t *testing.T) {
				if o, how := compare(t, p[0], p[1]); o.Equal {
					t.Errorf("%q counts as %q: %s", p[0], p[1], how)
				}
				if o, how := compare(t, p[1], p[0]); o.Equal {
					t.Errorf("%q counts as %q: %s", p[1], p[0], how)
				}
			})
		}
	}
}

func TestUnreadable(t *testing.T) {
	for _, s := range []string{"", " ", `\frac{1`, `(1,2`, `1+`, `\text{}`, `{}`, `\sqrt`, `x=`, `1 2`, `^2`, `)`, `\unknown{3}`, `1,(2`, `\frac{1}{}`, `2\cdot`} {
		if v, err := answer.Parse(s); err == nil {
			t.Errorf("%q reads as %v", s, v)
		}
	}
}
