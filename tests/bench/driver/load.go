// SPDX-License-Identifier: Apache-2.0

package main

// load: push a deterministic fleet's profiles and say what that cost the server.

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fleet says which profiles exist: every tenant has services, every service has series (pods), every series one profile
// an interval, at its own offset inside it, as scrapers do.
type fleet struct {
	tenants, services, series int
	start, end                time.Time
	interval                  time.Duration
	stacks, serviceStacks     int
	seed                      uint64
	prefix                    string
	corpus                    string
	preset                    string
	life                      *preset // of a fleet that lives, or nil
}

func (f *fleet) register(fs *flag.FlagSet) {
	fs.IntVar(&f.tenants, "tenants", 1, "tenants")
	fs.IntVar(&f.services, "services", 1, "services per tenant")
	fs.IntVar(&f.series, "series", 10, "series (pods) per service")
	fs.Func("start", "first instant: RFC 3339, or like -30d relative to -end", func(s string) error {
		if d, err := days(s); err == nil {
			f.start = f.end.Add(d)
			return nil
		}
		t, err := time.Parse(time.RFC3339, s)
		f.start = t
		return err
	})
	fs.Func("end", "last instant (left out): RFC 3339; give it before -start", func(s string) error {
		t, err := time.Parse(time.RFC3339, s)
		f.end = t
		return err
	})
	fs.DurationVar(&f.interval, "interval", 15*time.Second, "time between profiles of one series")
	fs.IntVar(&f.stacks, "stacks", 50, "stacks in one profile")
	fs.IntVar(&f.serviceStacks, "service-stacks", 2000, "distinct stacks of one service")
	fs.Uint64Var(&f.seed, "seed", 1, "seed")
	fs.StringVar(&f.prefix, "prefix", "svc", "service names are PREFIX-tenant-number")
	fs.StringVar(&f.preset, "preset", "", "a fleet with pods that come and go: "+presetNames()+"; sets what no other flag does")
	fs.StringVar(&f.corpus, "corpus", os.Getenv("FLAMETREE_CORPUS_PPROF"), "directory of recorded pprof files to take stacks from; empty: made-up stacks")
}

// days reads a duration that may use d for days.
func days(s string) (time.Duration, error) {
	var n float64
	if _, err := fmt.Sscanf(s, "%fd", &n); err == nil && strings.HasSuffix(s, "d") {
		return time.Duration(n * 24 * float64(time.Hour)), nil
	}
	return time.ParseDuration(s)
}

var populationFiles = []string{"go-heap-large.pb.gz", "go-cpu-api-label.pb.gz", "go-fgprof.pb.gz", "go-default.pgo.pb.gz", "go-cpu.pb.gz"}

func (f *fleet) population() (*population, error) {
	if f.corpus == "" {
		return syntheticPopulation(), nil
	}
	var paths []string
	for _, n := range populationFiles {
		paths = append(paths, filepath.Join(f.corpus, n))
	}
	return loadPopulation(paths)
}

// item is one profile to be pushed.
type item struct {
	tenant, pod int
	svc         *service
	at          time.Time
	name        string // of the pod
	version     int
	stacks      []int // of a fleet that lives: those of the version, hottest first
	kind        *kind
	load        float64
}

// each calls fn for every profile in time order and stops when it returns false.
func (f *fleet) each(pop *population, fn func(item) bool) {
	if f.life != nil {
		f.eachLife(pop, fn)
		return
	}
	type source struct {
		item
		offset time.Duration
	}
	var all []source
	for t := range f.tenants {
		for s := range f.services {
			svc := newService(pop, fmt.Sprintf("%s-%d-%d", f.prefix, t, s), f.seed, f.serviceStacks)
			for p := range f.series {
				// 1 ms..interval-1 ms: never on a boundary, so every query range has an unambiguous total
				ms := 1 + hash(fmt.Sprint(f.seed, svc.name, p))%uint64(f.interval.Milliseconds()-2)
				all = append(all, source{item{tenant: t, pod: p, svc: svc, name: podName(svc.name, p), kind: cpuKind}, time.Duration(ms) * time.Millisecond})
			}
		}
	}
	slices.SortFunc(all, func(a, b source) int { return int(a.offset - b.offset) })
	for at := f.start; at.Before(f.end); at = at.Add(f.interval) {
		for _, s := range all {
			s.item.at = at.Add(s.offset)
			if !s.item.at.Before(f.end) {
				continue
			}
			if !fn(s.item) {
				return
			}
		}
	}
}

func (f *fleet) picks(it item) []picked {
	if f.life != nil {
		return f.livingPicks(it)
	}
	r := rand.New(rand.NewPCG(f.seed^hash(it.svc.name), uint64(it.pod)<<48^uint64(it.at.UnixMilli())))
	return pick(it.svc, r, f.stacks)
}

func podName(svc string, pod int) string {
	return fmt.Sprintf("%s-%08x-%d", svc, uint32(hash(fmt.Sprint(svc, pod))), pod)
}

func seriesMessage(it item, profile []byte) []byte {
	label := func(k, v string) []byte { return putString(putString(nil, 1, k), 2, v) }
	var b []byte
	for _, kv := range [][2]string{
		{"__name__", it.kind.name}, {"service_name", it.svc.name}, {"namespace", fmt.Sprintf("ns-%d", it.tenant)},
		{"pod", it.name}, {"node", fmt.Sprintf("node-%d", it.pod%7)},
		{"zone", fmt.Sprintf("zone-%c", 'a'+it.pod%3)}, {"version", fmt.Sprintf("v1.%d.0", 42+it.version)},
	} {
		b = putBytes(b, 1, label(kv[0], kv[1]))
	}
	return putBytes(b, 2, putBytes(nil, 1, profile))
}

// expectation is what a correct server must answer, built from acknowledged profiles only.
type expectation struct {
	mu     sync.Mutex
	hours  map[hourKey]*hourSum // of the CPU kind, as stacks
	stacks map[stackKey]uint64
	days   map[partKey]*hourSum // of all kinds
	pods   map[partKey]*hourSum
}

type partKey struct{ service, kind, part string }

func newExpectation() *expectation {
	return &expectation{hours: map[hourKey]*hourSum{}, stacks: map[stackKey]uint64{}, days: map[partKey]*hourSum{}, pods: map[partKey]*hourSum{}}
}

func part[K comparable](all map[K]*hourSum, k K) *hourSum {
	h := all[k]
	if h == nil {
		h = &hourSum{}
		all[k] = h
	}
	return h
}

type hourKey struct {
	tenant       int
	service, pod string
	hour         int64
}
type hourSum struct{ profiles, sum, entries uint64 }
type stackKey struct {
	service string
	stack   int
}

func (e *expectation) add(it item, picks []picked) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := []*hourSum{part(e.days, partKey{it.svc.name, it.kind.profileType, it.at.UTC().Format("2006-01-02")}),
		part(e.pods, partKey{it.svc.name, it.kind.profileType, it.name})}
	if it.kind == cpuKind {
		of = append(of, part(e.hours, hourKey{it.tenant, it.svc.name, it.name, it.at.Unix() / 3600 * 3600}))
	}
	for _, h := range of {
		h.profiles++
		h.entries += uint64(len(picks))
		for _, p := range picks {
			h.sum += it.kind.value(p.stack, p.ticks)
		}
	}
	if it.kind == cpuKind {
		for _, p := range picks {
			e.stacks[stackKey{it.svc.name, p.stack}] += p.ticks * period
		}
	}
}

func writeParts(path string, all map[partKey]*hourSum) error {
	var rows []string
	for k, h := range all {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d\t%d\n", k.service, k.kind, k.part, h.profiles, h.sum))
	}
	sort.Strings(rows)
	return os.WriteFile(path, []byte(strings.Join(rows, "")), 0o644)
}

func (e *expectation) write(dir string, pop *population) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var rows []string
	for k, h := range e.hours {
		rows = append(rows, fmt.Sprintf("%d\t%s\t%s\t%d\t%d\t%d\n", k.tenant, k.service, k.pod, k.hour, h.profiles, h.sum))
	}
	sort.Strings(rows)
	if err := os.WriteFile(filepath.Join(dir, "hours.tsv"), []byte(strings.Join(rows, "")), 0o644); err != nil {
		return err
	}
	rows = rows[:0]
	for k, sum := range e.stacks {
		rows = append(rows, fmt.Sprintf("%s\t%d\t%s\n", k.service, sum, strings.Join(pop.treePath(k.stack), ";")))
	}
	sort.Strings(rows)
	if err := os.WriteFile(filepath.Join(dir, "stacks.tsv"), []byte(strings.Join(rows, "")), 0o644); err != nil {
		return err
	}
	if err := writeParts(filepath.Join(dir, "days.tsv"), e.days); err != nil {
		return err
	}
	return writeParts(filepath.Join(dir, "pods.tsv"), e.pods)
}

type loadTotals struct {
	profiles, raw, zipped, entries, requests, retries, refused, failed atomic.Int64
}

func runLoad(args []string) error {
	fs := flag.NewFlagSet("load", flag.ExitOnError)
	var f fleet
	f.register(fs)
	url := fs.String("url", "http://127.0.0.1:4040", "server, or several with commas, each for its share of the requests in flight")
	pidList := fs.String("pids", "", "server processes to charge")
	concurrency := fs.Int("concurrency", 16, "requests in flight")
	rate := fs.Float64("rate", 0, "profiles a second (0: as fast as acknowledgements allow)")
	batch := fs.Int("batch", 1, "profiles in one push request")
	limit := fs.Int64("limit", 0, "stop after this many profiles (0: all)")
	expect := fs.String("expect", "", "directory for the expectation files")
	settle := fs.Duration("settle", 0, "afterwards wait this long and report the CPU used meanwhile")
	stopOnError := fs.Bool("stop-on-error", false, "end at the first failed request (for kill tests); no retries")
	progress := fs.Duration("progress", 0, "print progress this often")
	dry := fs.Bool("dry", false, "push nothing; write the expectation of the whole fleet")
	fs.Parse(args)
	if f.preset != "" {
		set := map[string]bool{}
		fs.Visit(func(fl *flag.Flag) { set[fl.Name] = true })
		if err := f.apply(func(name string) bool { return set[name] }); err != nil {
			return err
		}
	}
	server, err := parsePIDs(*pidList)
	if err != nil {
		return err
	}
	pop, err := f.population()
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 60 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: *concurrency, MaxConnsPerHost: *concurrency, DisableCompression: true}}
	want := newExpectation()
	var tot loadTotals
	var latencies []float64
	var mu sync.Mutex
	errs := map[string]int{}
	var stop atomic.Bool

	work := make(chan []item, *concurrency)
	go func() {
		defer close(work)
		var group []item
		began, n := time.Now(), int64(0)
		send := func() {
			if len(group) > 0 {
				work <- group
				group = nil
			}
		}
		f.each(pop, func(it item) bool {
			if len(group) > 0 && group[0].tenant != it.tenant {
				send()
			}
			group = append(group, it)
			n++
			if len(group) == *batch {
				if *rate > 0 {
					time.Sleep(time.Until(began.Add(time.Duration(float64(n) / *rate * float64(time.Second)))))
				}
				send()
			}
			return !stop.Load() && (*limit == 0 || n < *limit)
		})
		send()
	}()

	server.resetPeak()
	cpu0, own0, began := server.cpu(), ownCPU(), time.Now()
	_, wrote0 := server.io()
	var workers sync.WaitGroup
	urls := strings.Split(*url, ",")
	for w := range *concurrency {
		workers.Add(1)
		url := urls[w%len(urls)]
		go func() {
			defer workers.Done()
			b := newBuilder(pop)
			var body []byte
			for group := range work {
				if stop.Load() {
					continue
				}
				body = body[:0]
				picks := make([][]picked, len(group))
				var raw, zipped, entries int64
				for i, it := range group {
					picks[i] = f.picks(it)
					if *dry {
						want.add(it, picks[i])
						tot.profiles.Add(1)
						tot.entries.Add(int64(len(picks[i])))
						continue
					}
					p := b.encode(it.kind, picks[i], it.at.UnixNano(), f.interval.Nanoseconds())
					z := b.gzip(p)
					raw, zipped, entries = raw+int64(len(p)), zipped+int64(len(z)), entries+int64(len(picks[i]))
					body = putBytes(body, 1, seriesMessage(it, z))
				}
				if *dry {
					continue
				}
				tries := 8
				if *stopOnError {
					tries = 1
				}
				ok := false
				for try := 0; try < tries && !ok; try++ {
					if try > 0 {
						tot.retries.Add(1)
						time.Sleep(time.Duration(try) * 200 * time.Millisecond)
					}
					sent := time.Now()
					status, msg := push(client, url, fmt.Sprintf("tenant-%d", group[0].tenant), body)
					if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
						tot.refused.Add(1)
					}
					took := time.Since(sent).Seconds() * 1000
					mu.Lock()
					if msg == "" {
						ok = true
						latencies = append(latencies, took)
					} else {
						errs[msg]++
					}
					mu.Unlock()
				}
				tot.requests.Add(1)
				if !ok {
					tot.failed.Add(int64(len(group)))
					if *stopOnError {
						stop.Store(true)
					}
					continue
				}
				for i, it := range group {
					want.add(it, picks[i])
				}
				tot.profiles.Add(int64(len(group)))
				tot.raw.Add(raw)
				tot.zipped.Add(zipped)
				tot.entries.Add(entries)
			}
		}()
	}
	done := make(chan struct{})
	if *progress > 0 {
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(*progress):
					rss, _ := server.memory()
					fmt.Fprintf(os.Stderr, "%4.0fs %d profiles, %.0f MB raw, server %.1f core-s, RSS %.0f MB\n", time.Since(began).Seconds(),
						tot.profiles.Load(), float64(tot.raw.Load())/1e6, server.cpu()-cpu0, rss)
				}
			}
		}()
	}
	workers.Wait()
	close(done)
	wall, cpu, own := time.Since(began).Seconds(), server.cpu()-cpu0, ownCPU()-own0
	_, wrote := server.io()
	rss, peak := server.memory()
	n, rawMB := float64(tot.profiles.Load()), float64(tot.raw.Load())/1e6
	sort.Float64s(latencies)
	fmt.Printf("population_stacks\t%d\n", len(pop.stacks))
	fmt.Printf("profiles\t%.0f\nfailed\t%d\nretries\t%d\nrefused\t%d\nrequests\t%d\n", n, tot.failed.Load(), tot.retries.Load(), tot.refused.Load(), tot.requests.Load())
	fmt.Printf("entries\t%d\nraw_MB\t%.1f\nraw_bytes_per_profile\t%.0f\nzipped_MB\t%.1f\n", tot.entries.Load(), rawMB, rawMB*1e6/n, float64(tot.zipped.Load())/1e6)
	fmt.Printf("wall_s\t%.1f\nprofiles_per_s\t%.1f\ndriver_cpu_s\t%.1f\n", wall, n/wall, own)
	fmt.Printf("server_cpu_s\t%.2f\nserver_cores\t%.2f\nraw_MB_per_core_s\t%.2f\ncpu_ms_per_profile\t%.3f\n", cpu, cpu/wall, rawMB/cpu, cpu*1000/n)
	fmt.Printf("server_written_MB\t%.1f\nserver_RSS_MB\t%.0f\nserver_peak_RSS_MB\t%.0f\n", wrote-wrote0, rss, peak)
	fmt.Printf("ack_ms_p50\t%.1f\nack_ms_p90\t%.1f\nack_ms_p99\t%.1f\nack_ms_max\t%.1f\n",
		quantile(latencies, .5), quantile(latencies, .9), quantile(latencies, .99), quantile(latencies, 1))
	for m, c := range errs {
		fmt.Printf("error\t%d\t%s\n", c, m)
	}
	if *settle > 0 {
		time.Sleep(*settle)
		after := server.cpu() - cpu0
		fmt.Printf("settle_s\t%.0f\nserver_cpu_s_settled\t%.2f\nraw_MB_per_core_s_settled\t%.2f\n", settle.Seconds(), after, rawMB/after)
	}
	if *expect != "" {
		return want.write(*expect, pop)
	}
	return nil
}

// push sends one push.v1 request over Connect and returns the answer's status (0: there is no answer), and "" or the fault.
func push(c *http.Client, url, tenant string, body []byte) (int, string) {
	status, answer, err := call(c, url+"/push.v1.PusherService/Push", tenant, body)
	if err != nil {
		return 0, "transport: " + err.Error()
	}
	if status != http.StatusOK {
		return status, fmt.Sprintf("%d %.200s", status, answer)
	}
	return status, ""
}

// call makes one Connect unary call with protobuf bodies.
func call(c *http.Client, url, tenant string, body []byte) (int, []byte, error) {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/proto")
	r.Header.Set("Connect-Protocol-Version", "1")
	r.Header.Set("X-Scope-OrgID", tenant)
	resp, err := c.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// quantile of a sorted list (nearest rank).
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return v[min(len(v)-1, int(q*float64(len(v))))]
}
