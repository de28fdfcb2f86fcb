package algebra

import "math/big"

// Op is the kind of an expression node.
type Op uint8

const (
	Num  Op = iota // Value, a rational
	Sym            // Name, a variable that stands for any real number
	Pi             // π
	E              // Euler's number
	I              // the imaginary unit
	Inf            // +∞
	Add            // sum of Args
	Mul            // product of Args
	Pow            // Args[0] to the power Args[1]
	Root           // the real Args[1]-th root of Args[0]; principal where there is no real one
	Call           // the function Name applied to Args
)

// An Expr is a node of an expression tree. Nodes are never changed once built. On a
// number, Name is a mark of the parser's (how it was written) that comparison ignores.
type Expr struct {
	Op    Op
	Value *big.Rat
	Name  string
	Args  []*Expr
}

// Int, Rat, Var, Const and Apply build leaves and function calls.
func Int(n int64) *Expr                { return &Expr{Op: Num, Value: big.NewRat(n, 1)} }
func Rat(r *big.Rat) *Expr             { return &Expr{Op: Num, Value: r} }
func Var(name string) *Expr            { return &Expr{Op: Sym, Name: name} }
func Const(op Op) *Expr                { return &Expr{Op: op} }
func Apply(f string, a ...*Expr) *Expr { return &Expr{Op: Call, Name: f, Args: a} }

// Sum, Product, Power, Quotient, NthRoot and Difference build the arithmetic nodes.
func Sum(a ...*Expr) *Expr        { return &Expr{Op: Add, Args: a} }
func Product(a ...*Expr) *Expr    { return &Expr{Op: Mul, Args: a} }
func Power(a, b *Expr) *Expr      { return &Expr{Op: Pow, Args: []*Expr{a, b}} }
func Quotient(a, b *Expr) *Expr   { return Product(a, Power(b, Int(-1))) }
func NthRoot(a, n *Expr) *Expr    { return &Expr{Op: Root, Args: []*Expr{a, n}} }
func Difference(a, b *Expr) *Expr { return Sum(a, Negate(b)) }

// Negate returns -a, folding the sign into a number.
func Negate(a *Expr) *Expr {
	if a.Op == Num {
		return &Expr{Op: Num, Value: new(big.Rat).Neg(a.Value), Name: a.Name}
	}
	return Product(Int(-1), a)
}

// Same reports whether two trees are identical, node for node.
func Same(a, b *Expr) bool {
	if a == b {
		return true
	}
	if a.Op != b.Op || len(a.Args) != len(b.Args) {
		return false
	}
	if a.Op == Num {
		return a.Value.Cmp(b.Value) == 0
	}
	if a.Name != b.Name {
		return false
	}
	for i := range a.Args {
		if !Same(a.Args[i], b.Args[i]) {
			return false
		}
	}
	return true
}

// Each calls f on every node of the tree, parents first, until f returns false for a
// node, whose arguments are then left out.
func (e *Expr) Each(f func(*Expr) bool) {
	if !f(e) {
		return
	}
	for _, a := range e.Args {
		a.Each(f)
	}
}

// Uses reports whether the variable name occurs in e.
func (e *Expr) Uses(name string) bool {
	found := false
	e.Each(func(n *Expr) bool {
		found = found || n.Op == Sym && n.Name == name
		return !found
	})
	return found
}

// Constant reports whether e holds no variable.
func (e *Expr) Constant() bool {
	found := false
	e.Each(func(n *Expr) bool {
		found = found || n.Op == Sym
		return !found
	})
	return !found
}

// Has reports whether a node of the given kind occurs in e.
func (e *Expr) Has(op Op) bool {
	found := false
	e.Each(func(n *Expr) bool {
		found = found || n.Op == op
		return !found
	})
	return found
}

// Map returns e with every variable replaced by what f gives for its name.
func (e *Expr) Map(f func(name string) *Expr) *Expr {
	if e.Op == Sym {
		return f(e.Name)
	}
	if len(e.Args) == 0 {
		return e
	}
	out := &Expr{Op: e.Op, Value: e.Value, Name: e.Name, Args: make([]*Expr, len(e.Args))}
	for i, a := range e.Args {
		out.Args[i] = a.Map(f)
	}
	return out
}
