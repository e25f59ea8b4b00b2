// SPDX-License-Identifier: Apache-2.0

package main

// query: ask the public read API over several ranges, time it, charge it, and check the answers against the expectation files.

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// wanted is the expectation of one service, read back.
type wanted struct {
	hours []wantedHour
	tree  *node // call tree over the whole load
}
type wantedHour struct {
	pod           string
	hour          int64
	profiles, sum uint64
}

// sum adds up the whole hours in [from, to) of the pods that match, or of all when pod is "".
func (w *wanted) sum(from, to time.Time, pod string) (profiles, sum uint64) {
	matches := regexp.MustCompile("^(?:" + pod + ")$").MatchString
	for _, h := range w.hours {
		if h.hour >= from.Unix() && h.hour+3600 <= to.Unix() && (pod == "" || matches(h.pod)) {
			profiles += h.profiles
			sum += h.sum
		}
	}
	return
}

func (w *wanted) pods() []string {
	seen := map[string]bool{}
	for _, h := range w.hours {
		seen[h.pod] = true
	}
	var out []string
	for p := range seen {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}

func eachLine(path string, fn func(cols []string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		fn(strings.Split(s.Text(), "\t"))
	}
	return s.Err()
}

func readExpectation(dir, service string) (*wanted, error) {
	w := &wanted{tree: &node{}}
	num := func(s string) uint64 { n, _ := strconv.ParseUint(s, 10, 64); return n }
	err := eachLine(filepath.Join(dir, "hours.tsv"), func(c []string) {
		if c[1] == service {
			w.hours = append(w.hours, wantedHour{c[2], int64(num(c[3])), num(c[4]), num(c[5])})
		}
	})
	if err != nil {
		return nil, err
	}
	return w, eachLine(filepath.Join(dir, "stacks.tsv"), func(c []string) {
		if c[0] == service {
			w.tree.add(strings.Split(c[2], ";"), num(c[1]))
		}
	})
}

// node of a call tree keyed by function name.
type node struct {
	self, total uint64
	children    map[string]*node
}

func (n *node) child(name string) *node {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	c := n.children[name]
	if c == nil {
		c = &node{}
		n.children[name] = c
	}
	return c
}

func (n *node) add(path []string, v uint64) {
	n.total += v
	for _, name := range path {
		n = n.child(name)
		n.total += v
	}
	n.self += v
}

func (n *node) count() int {
	c := 0
	for _, k := range n.children {
		c += 1 + k.count()
	}
	return c
}

// flame is a decoded querier.v1.FlameGraph.
type flame struct {
	total uint64
	nodes int
	root  *node
}

func decodeFlame(answer []byte) (*flame, error) {
	out := &flame{}
	var names []string
	var levels [][]uint64
	err := eachField(answer, func(f field) error {
		if f.id != 1 {
			return nil
		}
		return eachField(f.data, func(g field) error {
			switch g.id {
			case 1:
				names = append(names, string(g.data))
			case 2:
				var v []uint64
				err := eachField(g.data, func(h field) (err error) {
					v, err = numbers(h, v)
					return err
				})
				levels = append(levels, v)
				return err
			case 3:
				out.total = g.num
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	type bar struct {
		x, end uint64
		n      *node
	}
	out.root = &node{}
	var above []bar
	for depth, v := range levels {
		var now []bar
		x, parent := uint64(0), 0
		for i := 0; i+3 < len(v); i += 4 {
			x += v[i]
			total, self, name := v[i+1], v[i+2], v[i+3]
			if int(name) >= len(names) {
				return nil, errors.New("flame graph: name index out of range")
			}
			n := out.root
			if depth > 0 {
				for parent < len(above) && above[parent].end <= x {
					parent++
				}
				if parent == len(above) {
					return nil, errors.New("flame graph: bar without parent")
				}
				n = above[parent].n.child(names[name])
				out.nodes++
			}
			n.total += total
			n.self += self
			now = append(now, bar{x, x + total, n})
			x += total
		}
		above = now
	}
	return out, nil
}

// compare walks the expected tree: nodes absent from got (folded into "other" or lost), nodes whose total differs,
// and by how many units; and the weight that got holds in "other" nodes.
func compare(want, got *node) (missing, differing int, off uint64) {
	for name, w := range want.children {
		g := got.children[name]
		if g == nil {
			missing += 1 + w.count()
			continue
		}
		if g.total != w.total {
			differing++
			if g.total > w.total {
				off += g.total - w.total
			} else {
				off += w.total - g.total
			}
		}
		m, d, o := compare(w, g)
		missing, differing, off = missing+m, differing+d, off+o
	}
	return
}

func otherWeight(n *node) uint64 {
	var sum uint64
	for name, c := range n.children {
		if name == "other" {
			sum += c.self
		}
		sum += otherWeight(c)
	}
	return sum
}

// answer is what one reply says, reduced to what can be checked.
type answer struct {
	total  uint64
	items  int // flame graph nodes, points, names, label sets
	detail string
}

type question struct {
	kind, method string
	body         []byte
	read         func([]byte) (answer, error)
}

func countField(id int) func([]byte) (answer, error) {
	return func(b []byte) (a answer, err error) {
		err = eachField(b, func(f field) error {
			if f.id == id {
				a.items++
			}
			return nil
		})
		return
	}
}

func flameQuestion(selector string, from, to time.Time, maxNodes int, whole *node) question {
	b := putString(nil, 1, profileType)
	b = putString(b, 2, selector)
	b = putNum(b, 3, uint64(from.UnixMilli()))
	b = putNum(b, 4, uint64(to.UnixMilli()-1))
	b = putNum(b, 5, uint64(maxNodes))
	return question{fmt.Sprintf("flame-%d", maxNodes), "SelectMergeStacktraces", b, func(r []byte) (answer, error) {
		f, err := decodeFlame(r)
		if err != nil {
			return answer{}, err
		}
		a := answer{total: f.total, items: f.nodes, detail: fmt.Sprintf("other=%.4f%%", 100*float64(otherWeight(f.root))/float64(max(f.total, 1)))}
		if whole != nil {
			missing, differing, off := compare(whole, f.root)
			a.detail += fmt.Sprintf(" want_nodes=%d missing=%d differing=%d off=%.4f%%", whole.count(), missing, differing, 100*float64(off)/float64(max(whole.total, 1)))
		}
		return a, nil
	}}
}

func seriesQuestion(selector string, from, to time.Time, step time.Duration) question {
	b := putString(nil, 1, profileType)
	b = putString(b, 2, selector)
	b = putNum(b, 3, uint64(from.Add(step).UnixMilli())) // the first point also takes the step before it
	b = putNum(b, 4, uint64(to.UnixMilli()))
	b = putString(b, 5, "pod")
	b = putDouble(b, 6, step.Seconds())
	return question{"series-by-pod", "SelectSeries", b, func(r []byte) (answer, error) {
		var a answer
		series := 0
		err := eachField(r, func(f field) error {
			series++
			return eachField(f.data, func(g field) error {
				if g.id != 2 {
					return nil
				}
				a.items++
				return eachField(g.data, func(h field) error {
					if h.id == 1 {
						a.total += uint64(h.float())
					}
					return nil
				})
			})
		})
		a.detail = fmt.Sprintf("series=%d step=%s", series, step)
		return a, err
	}}
}

func metaQuestions(service string, from, to time.Time) []question {
	span := func(b []byte, start, end int) []byte {
		return putNum(putNum(b, start, uint64(from.UnixMilli())), end, uint64(to.UnixMilli()-1))
	}
	matcher := fmt.Sprintf(`{service_name=%q}`, service)
	values := span(putString(putString(nil, 1, "pod"), 2, matcher), 3, 4)
	series := putString(nil, 1, matcher)
	series = span(putString(putString(series, 2, "pod"), 2, "__profile_type__"), 3, 4)
	return []question{
		{"label-values", "LabelValues", values, countField(1)},
		{"profile-types", "ProfileTypes", span(nil, 1, 2), countField(1)},
		{"series", "Series", series, countField(2)},
	}
}

// forget drops a directory's files from the page cache.
func forget(dir string) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if f, err := os.Open(p); err == nil {
			syscall.Fsync(int(f.Fd()))
			const dontNeed = 4
			syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0)
			f.Close()
		}
		return nil
	})
}

func runQuery(args []string) error {
	fl := flag.NewFlagSet("query", flag.ExitOnError)
	url := fl.String("url", "http://127.0.0.1:4040", "server")
	pidList := fl.String("pids", "", "server processes to charge")
	tenant := fl.String("tenant", "tenant-0", "X-Scope-OrgID")
	service := fl.String("service", "svc-0-0", "service_name to ask for")
	endText := fl.String("end", "", "end of every range, RFC 3339, on a whole hour")
	ranges := fl.String("ranges", "1h,6h,1d,7d,30d", "ranges, each ending at -end")
	kinds := fl.String("kinds", "flame-8192,flame-16384,series-by-pod,label-values,profile-types,series", "which questions")
	reps := fl.Int("reps", 10, "repetitions of each question (the first is also shown alone)")
	budget := fl.Duration("budget", 60*time.Second, "stop repeating one question after this long")
	pods := fl.String("pods", "", "also ask flame and series questions for the pods that match this")
	one := fl.Bool("one-pod", true, "ask flame and series questions for one pod too")
	cold := fl.String("cold", "", "drop this directory from the page cache before every request")
	expect := fl.String("expect", "", "directory with the expectation files")
	label := fl.String("label", "warm", "text for the first column")
	timeout := fl.Duration("timeout", 5*time.Minute, "request timeout")
	fl.Parse(args)
	server, err := parsePIDs(*pidList)
	if err != nil {
		return err
	}
	end, err := time.Parse(time.RFC3339, *endText)
	if err != nil {
		return fmt.Errorf("-end: %w", err)
	}
	w := &wanted{tree: &node{}}
	if *expect != "" {
		if w, err = readExpectation(*expect, *service); err != nil {
			return err
		}
	}
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{DisableCompression: true}}

	// CPU the idle server burns by itself; taken off below.
	idle0 := server.cpu()
	time.Sleep(5 * time.Second)
	idle := (server.cpu() - idle0) / 5
	fmt.Printf("# idle server uses %.3f cores; cpu_ms below is after taking that off\n", idle)
	fmt.Println("run\tkind\trange\tselect\treps\tfirst_ms\tp50_ms\tp99_ms\tcpu_ms\tbytes\titems\ttotal\twant\tlost(+)/extra(-)\tpeak_RSS_MB\tnote")

	all := fmt.Sprintf(`{service_name=%q}`, *service)
	var pod string
	if pods := w.pods(); *one && len(pods) > 0 {
		pod = pods[len(pods)/2]
	}
	for _, r := range strings.Split(*ranges, ",") {
		d, err := days(r)
		if err != nil {
			return err
		}
		from := end.Add(-d)
		var whole *node // the expected tree is known for the whole load only
		if _, sum := w.sum(from, end, ""); sum > 0 && sum == w.tree.total {
			whole = w.tree
		}
		step := max(15*time.Second, d/480)
		type asked struct {
			question
			selector, pod string
		}
		list := []asked{}
		add := func(q question, sel, pod string) {
			if slices.Contains(strings.Split(*kinds, ","), q.kind) {
				list = append(list, asked{q, sel, pod})
			}
		}
		add(flameQuestion(all, from, end, 8192, whole), "service", "")
		add(flameQuestion(all, from, end, 16384, whole), "service", "")
		add(flameQuestion(all, from, end, 1<<20, whole), "service", "")
		add(seriesQuestion(all, from, end, step), "service", "")
		if pod != "" {
			sel := fmt.Sprintf(`{service_name=%q,pod=%q}`, *service, pod)
			add(flameQuestion(sel, from, end, 8192, nil), "one-pod", pod)
			add(seriesQuestion(sel, from, end, step), "one-pod", pod)
		}
		if *pods != "" {
			sel := fmt.Sprintf(`{service_name=%q,pod=~%q}`, *service, *pods)
			add(flameQuestion(sel, from, end, 8192, nil), "pods", *pods)
			add(seriesQuestion(sel, from, end, step), "pods", *pods)
		}
		for _, q := range metaQuestions(*service, from, end) {
			add(q, "service", "-")
		}
		for _, q := range list {
			server.resetPeak()
			var times []float64
			var last []byte
			var failure string
			cpu0, began := server.cpu(), time.Now()
			for i := 0; i < *reps && (i < 1 || time.Since(began) < *budget); i++ {
				if *cold != "" {
					forget(*cold)
				}
				sent := time.Now()
				status, b, err := call(client, *url+"/querier.v1.QuerierService/"+q.method, *tenant, q.body)
				times = append(times, time.Since(sent).Seconds()*1000)
				if err != nil {
					failure = err.Error()
				} else if status != http.StatusOK {
					failure = fmt.Sprintf("%d %.160s", status, b)
				}
				last = b
			}
			cpu := (server.cpu() - cpu0 - idle*time.Since(began).Seconds()) * 1000 / float64(len(times))
			_, peak := server.memory()
			first := times[0]
			sort.Float64s(times)
			row := fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d", *label, q.kind, r, q.selector, len(times), first,
				quantile(times, .5), quantile(times, .99), cpu, len(last))
			if failure != "" {
				fmt.Printf("%s\t-\t-\t-\t-\t%.0f\tFAILED %s\n", row, peak, failure)
				continue
			}
			a, err := q.read(last)
			if err != nil {
				return fmt.Errorf("%s %s: %w", q.kind, r, err)
			}
			want, diff := "-", "-"
			if q.pod != "-" && *expect != "" {
				_, sum := w.sum(from, end, q.pod)
				want, diff = fmt.Sprint(sum), fmt.Sprint(int64(sum)-int64(a.total))
			}
			fmt.Printf("%s\t%d\t%d\t%s\t%s\t%.0f\t%s\n", row, a.items, a.total, want, diff, peak, a.detail)
		}
	}
	return nil
}
