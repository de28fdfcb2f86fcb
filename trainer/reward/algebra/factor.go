package algebra

import "math/big"

// trialLimit is how far integers under a root are divided by small numbers. A
// cofactor that is left and is not prime becomes an atom of its own.
const trialLimit = 1 << 12

type primePower struct {
	p     *big.Int
	k     int64
	known bool // p is prime
}

// factorise splits n > 0 into prime powers and, at the end, at most one cofactor.
func factorise(n *big.Int, b *Budget) []primePower {
	var out []primePower
	rest := new(big.Int).Set(n)
	var q, m, d big.Int
	step := 40 + rest.BitLen()/4
	for p := int64(2); p < trialLimit && rest.BitLen() > 1; p++ {
		if p > 2 && p%2 == 0 {
			continue
		}
		if rest.IsInt64() && p*p > rest.Int64() {
			break
		}
		if !b.Spend(step) {
			return nil
		}
		d.SetInt64(p)
		k := int64(0)
		for q.QuoRem(rest, &d, &m); m.Sign() == 0; q.QuoRem(rest, &d, &m) {
			rest.Set(&q)
			k++
			if !b.Spend(step) {
				return nil
			}
		}
		if k > 0 {
			out = append(out, primePower{big.NewInt(p), k, true})
		}
	}
	if rest.BitLen() > 1 {
		out = append(out, cofactor(rest, b))
	}
	return out
}

// cofactor looks for the largest exponent k with n = m^k.
func cofactor(n *big.Int, b *Budget) primePower {
	bits := n.BitLen()
	if bits > 2048 || !b.Spend(2000+bits*bits/4) {
		return primePower{n, 1, false}
	}
	for k := int64(bits / 12); k >= 2; k-- { // every prime factor has more than 11 bits
		if m, ok := exactRoot(n, k, b); ok {
			return primePower{m, k, bits < 512 && m.ProbablyPrime(0)}
		}
	}
	return primePower{n, 1, bits < 512 && n.ProbablyPrime(0)}
}

// exactRoot returns the k-th root of n > 0 when it is an integer.
func exactRoot(n *big.Int, k int64, b *Budget) (*big.Int, bool) {
	if k == 1 {
		return n, true
	}
	x := new(big.Int).Lsh(big.NewInt(1), uint((int64(n.BitLen())+k-1)/k)) // at least the root
	e, e1 := big.NewInt(k), big.NewInt(k-1)
	for { // Newton's method from above
		if !b.Spend(300 + n.BitLen()/4) {
			return nil, false
		}
		y := new(big.Int).Exp(x, e1, nil)
		y.Quo(n, y)
		y.Add(y, new(big.Int).Mul(x, e1))
		y.Quo(y, e)
		if y.Cmp(x) >= 0 {
			break
		}
		x = y
	}
	return x, new(big.Int).Exp(x, e, nil).Cmp(n) == 0
}
