// SPDX-License-Identifier: Apache-2.0

package main

// Stacks for machines without recorded profiles: a made-up program of packages and functions whose calls form a tree with
// hot and cold branches. The same for every run.

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

const (
	syntheticPackages  = 120
	syntheticFunctions = 6000
	syntheticStacks    = 5777 // as many as the recordings give
)

// syntheticPopulation draws call stacks of 6 to 50 frames that share their root-side frames as real ones do.
func syntheticPopulation() *population {
	r := rand.New(rand.NewPCG(7, 7))
	p := &population{}
	verbs := strings.Fields("Read Write Flush Merge Parse Encode Decode Handle Serve Copy Lock Find Append Walk Sort Hash Open Close")
	nouns := strings.Fields("Block Series Index Buffer Request Chunk Table Cursor Header Stream Symbol Node Batch Record Page Cache")
	for i := range syntheticFunctions {
		pkg := i * syntheticPackages / syntheticFunctions
		name := fmt.Sprintf("example.org/shop/pkg%03d.(*%s%d).%s", pkg, nouns[r.IntN(len(nouns))], i%13, verbs[r.IntN(len(verbs))]+nouns[r.IntN(len(nouns))])
		p.functions = append(p.functions, function{name + fmt.Sprint(i), fmt.Sprintf("/src/shop/pkg%03d/%s.go", pkg, strings.ToLower(nouns[i%len(nouns)]))})
	}
	at := map[[2]int]int{} // (function, line) -> location
	place := func(fn, no int) int {
		if l, ok := at[[2]int{fn, no}]; ok {
			return l
		}
		l := len(p.locations)
		at[[2]int{fn, no}] = l
		p.locations = append(p.locations, location{address: 0x400000 + uint64(l)*32, lines: []line{{fn, uint64(no)}}})
		return l
	}
	// A frame's callees are a few functions fixed by its own, so stacks meet again; depth ends by chance.
	seen := map[string]bool{}
	for len(p.stacks) < syntheticStacks {
		var stack []int
		fn := r.IntN(8)
		for depth := 0; depth < 50 && (depth < 6 || r.Float64() > 0.045); depth++ {
			stack = append(stack, place(fn, 10+int(hash(fmt.Sprint(fn, depth%3))%90)))
			u := r.Float64()
			fn = int(hash(fmt.Sprint(fn, depth, int(u*u*6))) % syntheticFunctions)
		}
		key := fmt.Sprint(stack)
		if seen[key] {
			continue
		}
		seen[key] = true
		for i, j := 0, len(stack)-1; i < j; i, j = i+1, j-1 {
			stack[i], stack[j] = stack[j], stack[i] // leaf first, as in pprof
		}
		p.stacks = append(p.stacks, stack)
	}
	return p
}
