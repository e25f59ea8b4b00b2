// SPDX-License-Identifier: Apache-2.0

package main

// The stack population: distinct call stacks taken from recorded pprof files.
// Services draw from it, so that symbols repeat between profiles, series and services as in real fleets.

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
)

type function struct{ name, file string }

// line is one source line of a location: an index into population.functions and a line number.
type line struct {
	fn int
	no uint64
}

type location struct {
	address uint64
	lines   []line // innermost inlined callee first, as in pprof
}

type population struct {
	functions []function
	locations []location
	stacks    [][]int // leaf first; indices into locations
}

// loadPopulation merges the stacks of several pprof files.
func loadPopulation(paths []string) (*population, error) {
	p := &population{}
	seen := map[string]bool{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
			z, err := gzip.NewReader(bytes.NewReader(raw))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if raw, err = io.ReadAll(z); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		if err := p.add(raw, seen); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(p.stacks) == 0 {
		return nil, fmt.Errorf("no stacks in %v", paths)
	}
	return p, nil
}

// add takes every distinct named stack of one decoded pprof.
// Left out: stacks with unnamed frames, and Go shape names, which Pyroscope rewrites (checks by name would fail).
func (p *population) add(raw []byte, seen map[string]bool) error {
	var table []string
	type rawFunc struct{ name, file uint64 }
	type rawLine struct{ fn, no uint64 }
	type rawLoc struct {
		address uint64
		lines   []rawLine
	}
	funcs := map[uint64]rawFunc{}
	locs := map[uint64]rawLoc{}
	var samples [][]uint64
	err := eachField(raw, func(f field) error {
		switch f.id {
		case 2:
			var ids []uint64
			err := eachField(f.data, func(g field) (err error) {
				if g.id == 1 {
					ids, err = numbers(g, ids)
				}
				return err
			})
			samples = append(samples, ids)
			return err
		case 4:
			var id uint64
			var l rawLoc
			err := eachField(f.data, func(g field) error {
				switch g.id {
				case 1:
					id = g.num
				case 3:
					l.address = g.num
				case 4:
					var ln rawLine
					err := eachField(g.data, func(h field) error {
						switch h.id {
						case 1:
							ln.fn = h.num
						case 2:
							ln.no = h.num
						}
						return nil
					})
					l.lines = append(l.lines, ln)
					return err
				}
				return nil
			})
			locs[id] = l
			return err
		case 5:
			var id uint64
			var fn rawFunc
			err := eachField(f.data, func(g field) error {
				switch g.id {
				case 1:
					id = g.num
				case 2:
					fn.name = g.num
				case 4:
					fn.file = g.num
				}
				return nil
			})
			funcs[id] = fn
			return err
		case 6:
			table = append(table, string(f.data))
		}
		return nil
	})
	if err != nil {
		return err
	}

	text := func(i uint64) string {
		if i < uint64(len(table)) {
			return table[i]
		}
		return ""
	}
	fnIndex := map[uint64]int{}  // function id in this file -> index in p.functions
	locIndex := map[uint64]int{} // the same for locations; -1: unusable
	place := func(id uint64) int {
		if i, ok := locIndex[id]; ok {
			return i
		}
		l := locs[id]
		out := location{address: l.address}
		for _, ln := range l.lines {
			i, ok := fnIndex[ln.fn]
			if !ok {
				fn := function{text(funcs[ln.fn].name), text(funcs[ln.fn].file)}
				if fn.name == "" || strings.Contains(fn.name, "go.shape") {
					locIndex[id] = -1
					return -1
				}
				i = len(p.functions)
				p.functions = append(p.functions, fn)
				fnIndex[ln.fn] = i
			}
			out.lines = append(out.lines, line{i, ln.no})
		}
		if len(out.lines) == 0 {
			locIndex[id] = -1
			return -1
		}
		locIndex[id] = len(p.locations)
		p.locations = append(p.locations, out)
		return locIndex[id]
	}

nextSample:
	for _, ids := range samples {
		var stack []int
		key := make([]byte, 0, 1024)
		for _, id := range ids {
			l := place(id)
			if l < 0 {
				continue nextSample
			}
			stack = append(stack, l)
			for _, ln := range p.locations[l].lines {
				key = fmt.Appendf(key, "%s:%d;", p.functions[ln.fn].name, ln.no)
			}
		}
		if len(stack) == 0 || len(stack) > 59 || seen[string(key)] { // Pyroscope "repairs" Go CPU stacks of 60 frames and more
			continue
		}
		seen[string(key)] = true
		p.stacks = append(p.stacks, stack)
	}
	return nil
}

// leafName is the function in which a stack's self value lies.
func (p *population) leafName(stack int) string {
	l := p.locations[p.stacks[stack][0]]
	return p.functions[l.lines[0].fn].name
}

// treePath gives the names of a stack from the root, one a line (inlined calls expanded).
func (p *population) treePath(stack int) []string {
	var names []string
	s := p.stacks[stack]
	for i := len(s) - 1; i >= 0; i-- {
		ls := p.locations[s[i]].lines
		for j := len(ls) - 1; j >= 0; j-- {
			names = append(names, p.functions[ls[j].fn].name)
		}
	}
	return names
}

// service is the share of the population one service uses, hottest stack first.
type service struct {
	name   string
	stacks []int
}

func newService(p *population, name string, seed uint64, count int) *service {
	r := rand.New(rand.NewPCG(seed, hash(name)))
	order := r.Perm(len(p.stacks))
	return &service{name: name, stacks: order[:min(count, len(order))]}
}
