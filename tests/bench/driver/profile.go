// SPDX-License-Identifier: Apache-2.0

package main

// One synthetic CPU profile: a random subset of a service's stacks, encoded as pprof the way Go's runtime does
// (dense ids, only the symbols in use, gzip at best speed).

import (
	"bytes"
	"compress/gzip"
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"os"
)

const (
	profileType = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
	period      = 10_000_000 // one CPU tick, ns
)

// kind is what a profile measures: two numbers a sample, of which the second one is asked for.
type kind struct {
	index         int
	profileType   string
	name          string // __name__
	first, second [2]string
	period        uint64
	periodType    [2]string
	value         func(stack int, ticks uint64) uint64 // the second number
}

var cpuKind = &kind{0, profileType, "process_cpu", [2]string{"samples", "count"}, [2]string{"cpu", "nanoseconds"}, period,
	[2]string{"cpu", "nanoseconds"}, func(_ int, ticks uint64) uint64 { return ticks * period }}

// Objects of a stack have one size.
var memoryKind = &kind{1, "memory:alloc_space:bytes:space:bytes", "memory", [2]string{"alloc_objects", "count"},
	[2]string{"alloc_space", "bytes"}, 524288, [2]string{"space", "bytes"},
	func(stack int, ticks uint64) uint64 { return ticks * (16 << (uint64(stack) * 2654435761 >> 7 % 12)) }}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// builder makes profiles; it holds scratch space, so each worker has its own.
type builder struct {
	pop     *population
	locID   []uint32 // id given in the current profile, 0: none yet
	fnID    []uint32
	locs    []int
	fns     []int
	strings map[string]uint64
	table   []string
	raw     []byte
	zipped  bytes.Buffer
	zw      *gzip.Writer
}

func newBuilder(pop *population) *builder {
	zw, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return &builder{pop: pop, locID: make([]uint32, len(pop.locations)), fnID: make([]uint32, len(pop.functions)),
		strings: map[string]uint64{}, zw: zw}
}

func (b *builder) str(s string) uint64 {
	if id, ok := b.strings[s]; ok {
		return id
	}
	id := uint64(len(b.table))
	b.table = append(b.table, s)
	b.strings[s] = id
	return id
}

func (b *builder) function(i int) uint64 {
	if b.fnID[i] == 0 {
		b.fns = append(b.fns, i)
		b.fnID[i] = uint32(len(b.fns))
	}
	return uint64(b.fnID[i])
}

func (b *builder) location(i int) uint64 {
	if b.locID[i] == 0 {
		b.locs = append(b.locs, i)
		b.locID[i] = uint32(len(b.locs))
	}
	return uint64(b.locID[i])
}

// picked is one chosen stack and its CPU ticks.
type picked struct {
	stack int
	ticks uint64
}

// pick draws count distinct stacks of a service, hot ones more often and with more ticks.
func pick(s *service, r *rand.Rand, count int) []picked {
	n := len(s.stacks)
	count = min(count, n)
	out := make([]picked, 0, count)
	taken := make(map[int]bool, count)
	for len(out) < count {
		u := r.Float64()
		i := int(u * u * u * float64(n))
		for taken[i] {
			i = (i + 1) % n
		}
		taken[i] = true
		heat := 1 - float64(i)/float64(n)
		out = append(out, picked{s.stacks[i], 1 + uint64(r.ExpFloat64()*6*heat*heat)})
	}
	return out
}

// encode returns raw pprof bytes, valid until the next call.
func (b *builder) encode(k *kind, picks []picked, timeNanos, durationNanos int64) []byte {
	clear(b.strings)
	b.table, b.locs, b.fns = b.table[:0], b.locs[:0], b.fns[:0]
	b.str("")
	out := b.raw[:0]
	valueType := func(v [2]string) []byte { return putNum(putNum(nil, 1, b.str(v[0])), 2, b.str(v[1])) }
	out = putBytes(out, 1, valueType(k.first))
	out = putBytes(out, 1, valueType(k.second))

	var msg []byte
	var ids []uint64
	for _, p := range picks {
		ids = ids[:0]
		for _, l := range b.pop.stacks[p.stack] {
			ids = append(ids, b.location(l))
		}
		msg = putPacked(msg[:0], 1, ids)
		msg = putPacked(msg, 2, []uint64{p.ticks, k.value(p.stack, p.ticks)})
		out = putBytes(out, 2, msg)
	}
	mapping := putNum(nil, 1, 1)
	mapping = putNum(mapping, 2, 0x400000)
	mapping = putNum(mapping, 3, 0x4000000)
	mapping = putNum(mapping, 5, b.str("/usr/bin/service"))
	mapping = putNum(mapping, 6, b.str("f2c0d1b4a6e8907315cafe5511aa9088"))
	mapping = putNum(mapping, 7, 1)
	out = putBytes(out, 3, mapping)
	for i, l := range b.locs {
		loc := b.pop.locations[l]
		msg = putNum(msg[:0], 1, uint64(i+1))
		msg = putNum(msg, 2, 1)
		msg = putNum(msg, 3, loc.address)
		for _, ln := range loc.lines {
			msg = putBytes(msg, 4, putNum(putNum(nil, 1, b.function(ln.fn)), 2, ln.no))
		}
		out = putBytes(out, 4, msg)
		b.locID[l] = 0
	}
	for i, f := range b.fns {
		fn := b.pop.functions[f]
		msg = putNum(msg[:0], 1, uint64(i+1))
		msg = putNum(msg, 2, b.str(fn.name))
		msg = putNum(msg, 3, b.str(fn.name))
		msg = putNum(msg, 4, b.str(fn.file))
		out = putBytes(out, 5, msg)
		b.fnID[f] = 0
	}
	periodType := valueType(k.periodType)
	for _, s := range b.table {
		out = putString(out, 6, s)
	}
	out = putNum(out, 9, uint64(timeNanos))
	out = putNum(out, 10, uint64(durationNanos))
	out = putBytes(out, 11, periodType)
	out = putNum(out, 12, k.period)
	b.raw = out
	return out
}

func (b *builder) gzip(raw []byte) []byte {
	b.zipped.Reset()
	b.zw.Reset(&b.zipped)
	b.zw.Write(raw)
	b.zw.Close()
	return b.zipped.Bytes()
}

// runProfile writes one profile of -stacks made-up stacks to standard output.
func runProfile(args []string) error {
	fl := flag.NewFlagSet("profile", flag.ExitOnError)
	stacks := fl.Int("stacks", 50, "stacks in the profile")
	fl.Parse(args)
	pop := syntheticPopulation()
	picks := pick(newService(pop, "bench", 1, 2000), rand.New(rand.NewPCG(1, 1)), *stacks)
	_, err := os.Stdout.Write(newBuilder(pop).encode(cpuKind, picks, 0, 0))
	return err
}
