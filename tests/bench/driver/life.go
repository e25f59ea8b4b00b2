// SPDX-License-Identifier: Apache-2.0

package main

// A fleet that lives (load -preset): load follows the day and the week, pods come and go with it, are restarted and rolled
// over to new versions that change some of the stacks; which stacks are hot follows Zipf's law. Everything follows from the
// seed, so that the exact sums of any part are known without asking anybody.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"
)

type preset struct {
	services, series int // series: pods of a service at its busiest
	interval         time.Duration
	serviceStacks    int
	ticks            int           // of a CPU profile at full load
	restart, rollout time.Duration // a pod's, a service's mean time between two
}

var presets = map[string]preset{
	"small": {2, 4, 15 * time.Minute, 2000, 120, 60 * time.Hour, 96 * time.Hour}, // about 28,000 profiles in 30 days
	"large": {5, 20, 5 * time.Minute, 5000, 300, 60 * time.Hour, 72 * time.Hour}, // about 1,200,000
}

func presetNames() string {
	var names []string
	for name := range presets {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, " or ")
}

// apply takes over what no flag of its own says.
func (f *fleet) apply(isSet func(flag string) bool) error {
	p, ok := presets[f.preset]
	if !ok {
		return fmt.Errorf("-preset: there is %s, not %q", presetNames(), f.preset)
	}
	for flag, take := range map[string]func(){
		"services":       func() { f.services = p.services },
		"series":         func() { f.series = p.series },
		"interval":       func() { f.interval = p.interval },
		"service-stacks": func() { f.serviceStacks = p.serviceStacks },
		"stacks":         func() { f.stacks = p.ticks },
	} {
		if !isSet(flag) {
			take()
		}
	}
	f.life = &p
	return nil
}

// busy is the share of its full load that a service has: highest at two in the afternoon, low at night and on weekends.
func busy(at time.Time, shift float64) float64 {
	at = at.UTC()
	hour := float64(at.Hour()) + float64(at.Minute())/60
	day := 0.5 + 0.5*math.Cos(2*math.Pi*(hour-14-shift)/24)
	if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
		day *= 0.5
	}
	return 0.3 + 0.7*day
}

// slot is where a pod runs; one after another.
type slot struct {
	alive     bool
	pod       string
	restartAt time.Time
	offset    time.Duration
}

type living struct {
	*service
	tenant    int
	r         *rand.Rand
	shift     float64
	version   int
	stacks    []int // of this version, hottest first
	rolloutAt time.Time
	born      int
	slots     []slot
}

func (l *living) after(at time.Time, mean time.Duration) time.Time {
	return at.Add(time.Duration(l.r.ExpFloat64() * float64(mean)))
}

func (l *living) start(s *slot, at time.Time, p *preset) {
	l.born++
	s.alive = true
	s.pod = fmt.Sprintf("%s-%08x-%05x", l.name, uint32(hash(fmt.Sprint(l.name, l.version))), uint32(hash(fmt.Sprint(l.name, l.born)))&0xfffff)
	s.restartAt = l.after(at, p.restart)
}

// turn brings a service to an instant: rollouts, restarts, pods started and stopped as the load wants.
func (l *living) turn(at time.Time, p *preset) {
	rolled := !at.Before(l.rolloutAt)
	if rolled {
		l.version++
		l.stacks = l.stacksOf(l.version)
		l.rolloutAt = l.after(at, p.rollout)
	}
	wanted := max(1, int(math.Round(busy(at, l.shift)*float64(len(l.slots)))))
	for i := range l.slots {
		s := &l.slots[i]
		switch {
		case i >= wanted:
			s.alive = false
		case !s.alive || rolled || !at.Before(s.restartAt):
			l.start(s, at, p)
		}
	}
}

// eachLife is each of a fleet that lives.
func (f *fleet) eachLife(pop *population, fn func(item) bool) {
	var all []*living
	for t := range f.tenants {
		for s := range f.services {
			svc := newService(pop, fmt.Sprintf("%s-%d-%d", f.prefix, t, s), f.seed, f.serviceStacks)
			l := &living{service: svc, tenant: t, r: rand.New(rand.NewPCG(f.seed, hash(svc.name))), slots: make([]slot, f.series)}
			l.stacks = svc.stacks
			l.shift = 4*l.r.Float64() - 2
			l.rolloutAt = l.after(f.start, f.life.rollout)
			for i := range l.slots {
				ms := 1 + hash(fmt.Sprint(f.seed, svc.name, i))%uint64(f.interval.Milliseconds()-2)
				l.slots[i].offset = time.Duration(ms) * time.Millisecond
			}
			all = append(all, l)
		}
	}
	for at := f.start; at.Before(f.end); at = at.Add(f.interval) {
		var now []item
		for _, l := range all {
			l.turn(at, f.life)
			for i, s := range l.slots {
				if !s.alive || !at.Add(s.offset).Before(f.end) {
					continue
				}
				for _, k := range []*kind{cpuKind, memoryKind} {
					now = append(now, item{tenant: l.tenant, pod: i, svc: l.service, at: at.Add(s.offset), name: s.pod,
						version: l.version, stacks: l.stacks, kind: k, load: busy(at, l.shift)})
				}
			}
		}
		slices.SortStableFunc(now, func(a, b item) int { return a.at.Compare(b.at) })
		for _, it := range now {
			if !fn(it) {
				return
			}
		}
	}
}

// stacksOf are the stacks of a version, hottest first: each version moves a fiftieth of them.
func (l *living) stacksOf(version int) []int {
	n := len(l.service.stacks)
	out := slices.Clone(l.service.stacks)
	for rank := range out {
		for v := version; v > 0; v-- {
			if hash(fmt.Sprint(l.name, v, rank))%50 == 0 {
				out[rank] = l.service.stacks[(uint64(rank)*31+uint64(v)*7919)%uint64(n)]
				break
			}
		}
	}
	return out
}

// livingPicks draws the ticks of a profile one by one, by Zipf's law.
func (f *fleet) livingPicks(it item) []picked {
	r := rand.New(rand.NewPCG(f.seed^hash(it.name), uint64(it.at.UnixMilli())<<1|uint64(it.kind.index)))
	ranks := rand.NewZipf(r, 1.2, 4, uint64(len(it.stacks)-1))
	ticks := 1 + int(float64(f.stacks)*it.load*(0.8+0.4*r.Float64()))
	counts := map[int]uint64{}
	for range ticks {
		counts[int(ranks.Uint64())]++
	}
	sums := map[int]uint64{}
	for rank, n := range counts {
		sums[it.stacks[rank]] += n
	}
	out := make([]picked, 0, len(sums))
	for stack, n := range sums {
		out = append(out, picked{stack, n})
	}
	slices.SortFunc(out, func(a, b picked) int { return a.stack - b.stack })
	return out
}
