package engine

import (
	"fmt"
	"slices"

	"tandem/model"
)

// pages counts who holds each page of the cache: sequences, and the tree of cached prefixes. A full page is never written
// again; the last page of a sequence is written by that sequence alone, though others may read the tokens before that.
//
// The pages of a sequence that are full and remembered are those of the tree, so a node in use has all nodes above it in
// use, and what can be evicted is what nobody but the tree holds.
type pages struct {
	refs []int32
	free []int32 // a stack
	root *node   // of no page
	node []*node // the tree's node of each page, or nil
	idle idle    // the nodes that only the tree holds
}

// A node is one page of a cached prefix; the path from the root spells the tokens before it. Only a full one has children.
type node struct {
	page         int32
	tokens       []int32 // those of the page that count, at most model.PageTokens
	parent       *node
	children     []*node
	newer, older *node // in the ring of idle nodes
}

// idle is a ring from the node whose last holder left first to the one whose left last. Holders leave from their last
// page to their first, so children stand before their parents.
type idle struct {
	end node // end.newer is the first to evict
	n   int
}

func newPages(n int) *pages {
	p := &pages{refs: make([]int32, n), free: make([]int32, n), root: &node{page: -1}, node: make([]*node, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i)
	}
	p.idle.end.newer, p.idle.end.older = &p.idle.end, &p.idle.end
	return p
}

// available is the number of pages that take can give.
func (p *pages) available() int { return len(p.free) + p.idle.n }

// take gives n pages, evicting cached prefixes if it must, or nil and takes nothing.
func (p *pages) take(n int) []int32 {
	if n > p.available() {
		return nil
	}
	got := make([]int32, 0, n)
	for range n {
		if len(p.free) == 0 {
			p.evict()
		}
		last := len(p.free) - 1
		page := p.free[last]
		p.free = p.free[:last]
		p.refs[page] = 1
		got = append(got, page)
	}
	return got
}

func (p *pages) hold(page int32) {
	if p.refs[page] == 1 && p.node[page] != nil {
		p.idle.remove(p.node[page])
	}
	p.refs[page]++
}

// drop is the end of one hold.
func (p *pages) drop(page int32) {
	p.refs[page]--
	switch {
	case p.refs[page] == 0:
		p.free = append(p.free, page)
	case p.refs[page] == 1 && p.node[page] != nil:
		p.idle.add(p.node[page])
	}
}

// dropAll is the end of a sequence's holds.
func (p *pages) dropAll(held []int32) {
	for i := len(held) - 1; i >= 0; i-- {
		p.drop(held[i])
	}
}

// find walks down as far as tokens go. It returns the full pages that match, and a further page whose first n tokens
// match, or n = 0. The caller holds none of them yet.
func (p *pages) find(tokens []int32) (full []int32, partial int32, n int) {
	for at := p.root; ; {
		var next *node
		best := 0
		for _, c := range at.children {
			if k := common(c.tokens, tokens); k > best {
				best, next = k, c
			}
		}
		if best < model.PageTokens {
			if next != nil {
				partial = next.page
			}
			return full, partial, best
		}
		full = append(full, next.page)
		tokens, at = tokens[model.PageTokens:], next
	}
}

// remember puts the prefix that tokens and the pages held for them spell into the tree. Where the tree already has a full
// page of those tokens the sequence changes over to it: the bits are the same.
func (p *pages) remember(tokens, held []int32) {
	at := p.root
	for i := 0; len(tokens) > 0; i++ {
		own := tokens[:min(len(tokens), model.PageTokens)]
		tokens = tokens[len(own):]
		c := at.covering(own)
		switch {
		case c == nil:
			c = &node{page: held[i], tokens: slices.Clone(own), parent: at}
			at.children = append(at.children, c)
			p.hold(c.page)
			p.node[c.page] = c
		case len(c.tokens) < len(own): // the same page, longer
			old := c.page
			p.hold(held[i])
			p.forgetNode(c)
			c.page, c.tokens = held[i], slices.Clone(own)
			p.node[c.page] = c
			p.drop(old)
		case len(own) == model.PageTokens && c.page != held[i]:
			p.hold(c.page)
			p.drop(held[i])
			held[i] = c.page
		}
		at = c
	}
}

// covering is the child that starts with tokens or with which tokens start.
func (n *node) covering(tokens []int32) *node {
	for _, c := range n.children {
		if k := common(c.tokens, tokens); k == len(tokens) || k == len(c.tokens) {
			return c
		}
	}
	return nil
}

// forgetNode takes the node's page out of the books; its hold is still to be dropped.
func (p *pages) forgetNode(n *node) {
	if p.refs[n.page] == 1 {
		p.idle.remove(n)
	}
	p.node[n.page] = nil
}

// evict frees the page that has been idle longest and has nothing below it.
func (p *pages) evict() {
	n := p.idle.end.newer
	for len(n.children) > 0 {
		n = n.newer
	}
	i := slices.Index(n.parent.children, n)
	n.parent.children = slices.Delete(n.parent.children, i, i+1)
	p.forgetNode(n)
	p.drop(n.page)
}

// forget empties the tree: the weights have changed.
func (p *pages) forget() {
	p.each(func(n *node) {
		p.forgetNode(n)
		p.drop(n.page)
	})
	p.root.children = nil
}

// each calls f for every node, children first.
func (p *pages) each(f func(*node)) {
	var walk func(n *node)
	walk = func(n *node) {
		for _, c := range n.children {
			walk(c)
			f(c)
		}
	}
	walk(p.root)
}

// check is the integrity of the books: every page is free or held, exactly as often as somebody says that he holds it.
// It returns the first contradiction.
func (p *pages) check(held [][]int32) error {
	want := make([]int32, len(p.refs))
	for _, h := range held {
		for _, page := range h {
			want[page]++
		}
	}
	idle := 0
	var err error
	p.each(func(n *node) {
		if want[n.page]++; want[n.page] == 1 {
			idle++
		}
		if p.node[n.page] != n {
			err = fmt.Errorf("engine: page %d is not known as the tree's", n.page)
		}
	})
	if idle != p.idle.n {
		err = fmt.Errorf("engine: %d pages are idle, %d are listed", idle, p.idle.n)
	}
	isFree := make([]bool, len(p.refs))
	for _, page := range p.free {
		if isFree[page] {
			return fmt.Errorf("engine: page %d is free twice", page)
		}
		isFree[page] = true
	}
	for page, n := range want {
		if p.refs[page] != n || isFree[page] != (n == 0) {
			return fmt.Errorf("engine: page %d is counted %d times, held %d times, free: %v", page, p.refs[page], n, isFree[page])
		}
	}
	return err
}

func (r *idle) add(n *node) {
	last := r.end.older
	last.newer, n.older = n, last
	n.newer, r.end.older = &r.end, n
	r.n++
}

func (r *idle) remove(n *node) {
	n.older.newer, n.newer.older = n.newer, n.older
	r.n--
}

// common is the number of leading tokens that a and b share.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
