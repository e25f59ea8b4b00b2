// SPDX-License-Identifier: Apache-2.0

// Every kind of call of the data source: health check, resource calls, metrics and profile queries, errors.
package grafana

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// shop is a service with two pods and spans; all holds its samples.
const spanOne, spanTwo = "00000bac2a5ab0c7", "0123456789abcdef"

var (
	podA = []sample{one("main;serve;query", 500), one("main;serve;render", 300), one("main;serve", 7), one("main;gc", 60)}
	podB = []sample{
		one("main;serve;query", 40, "span_id", spanOne), one("main;serve;query;main;serve", 5, "span_id", spanTwo),
		one("init", 1), one("größe;日本", 2, "span_id", spanOne),
	}
	all = slices.Concat(podA, podB)
)

func shop(t *testing.T) string {
	service := unique("shop")
	for pod, samples := range map[string][]sample{"a": podA, "b": podB} {
		push(t, pairs("__name__", "process_cpu", "service_name", service, "pod", pod, "k8s.node", "n-"+pod), zipped(cpu(at(10), samples...)))
	}
	return service
}

func stacktraces(service string) *querierv1.SelectMergeStacktracesRequest {
	return &querierv1.SelectMergeStacktracesRequest{ProfileTypeID: cpuType, LabelSelector: selector(service), Start: from(), End: until()}
}

func wantTree(t *testing.T, p *plugin, request *querierv1.SelectMergeStacktracesRequest, samples ...sample) {
	t.Helper()
	got, err := p.profile(request)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "flame graph", got, tree(samples...))
}

func ptr[T any](v T) *T { return &v }

func TestHealthCheck(t *testing.T) {
	p := newPlugin()
	for name, headers := range map[string]http.Header{
		"bare":      {},
		"forwarded": {"X-Scope-Orgid": {"anonymous"}, "Cookie": {"grafana_session=1; a=\"b\""}, "Accept": {"text/html;q=0.9, */*;q=0.1"}, "X-Grafana-Org-Id": {"1"}, "X-Forwarded-For": {"10.0.0.1, ::1"}},
	} {
		p.wire.headers = headers
		if _, err := p.client.ProfileTypes(context.Background(), connect.NewRequest(&querierv1.ProfileTypesRequest{Start: 1000, End: 4000})); err != nil {
			t.Fatalf("%s: the data source is unhealthy: %v", name, err)
		}
	}
}

func TestProfileTypesHaveFiveParts(t *testing.T) {
	name := strings.ReplaceAll(unique("kind"), "-", "_")
	push(t, pairs("__name__", name, "service_name", unique("types")),
		zipped(pprof(at(0), []string{"alloc_objects:count", "alloc_space:bytes"}, "space:bytes", sample{stack: "a", values: []int64{1, 2}})),
		zipped(pprof(at(0), []string{"bare:"}, ":", one("a", 1))))
	answer := must[querierv1.ProfileTypesResponse](t)(newPlugin().client.ProfileTypes(context.Background(), connect.NewRequest(&querierv1.ProfileTypesRequest{Start: from(), End: until()})))
	menu := map[string]string{}
	for _, kind := range answer.ProfileTypes {
		parts := strings.Split(kind.ID, ":")
		if len(parts) != 5 {
			t.Fatalf("%q has %d parts", kind.ID, len(parts))
		}
		same(t, kind.ID, parts, []string{kind.Name, kind.SampleType, kind.SampleUnit, kind.PeriodType, kind.PeriodUnit})
		if kind.Name == name {
			menu[kind.ID] = kind.Name + " - " + kind.SampleType
		}
	}
	same(t, "menu", menu, map[string]string{
		name + ":alloc_objects:count:space:bytes": name + " - alloc_objects", name + ":alloc_space:bytes:space:bytes": name + " - alloc_space",
		name + ":bare:::": name + " - bare",
	})
}

func TestLabelNamesAndValues(t *testing.T) {
	p, service := newPlugin(), shop(t)
	for _, c := range []struct {
		query   string
		matched []string
		utf8    bool
		wanted  []string
	}{
		{selector(service), []string{"service_name"}, false, []string{"pod"}},
		{selector(service), []string{"service_name"}, true, []string{"k8s.node", "pod"}},
		{fmt.Sprintf(`{service_name=~"%s|nothing", pod!~"[c-z]"}`, service), []string{"service_name", "pod"}, true, []string{"k8s.node"}},
		{fmt.Sprintf(`{"service_name"=%q, "k8s.node"="n-a"}`, service), []string{"service_name", "k8s.node"}, true, []string{"pod"}},
		{fmt.Sprintf(`%s{service_name=%q}`, "process_cpu", service), []string{"service_name"}, false, []string{"pod"}},
		{`{service_name="nobody at all"}`, nil, false, []string{}},
	} {
		got, err := p.labelNames(c.query, c.matched, c.utf8, from(), until())
		if err != nil {
			t.Fatalf("%s: %v", c.query, err)
		}
		same(t, c.query, got, c.wanted)
	}
	if got, err := p.labelNames("{}", nil, true, from(), until()); err != nil || !slices.Contains(got, "k8s.node") || !slices.Contains(got, "service_name") {
		t.Fatal("names of everything: ", got, err)
	}
	for _, c := range []struct {
		name, query string
		wanted      []string
	}{
		{"pod", selector(service), []string{"a", "b"}}, {"k8s.node", selector(service), []string{"n-a", "n-b"}}, {"service_name", selector(service), []string{service}},
		{"pod", fmt.Sprintf(`{service_name=%q, "k8s.node"=~".*b"}`, service), []string{"b"}}, {"nothing", selector(service), nil}, {"pod", `{service_name="nobody at all"}`, nil},
	} {
		answer := must[typesv1.LabelValuesResponse](t)(p.client.LabelValues(context.Background(),
			connect.NewRequest(&typesv1.LabelValuesRequest{Name: c.name, Matchers: []string{c.query}, Start: from(), End: until()})))
		same(t, c.name+" of "+c.query, answer.Names, c.wanted)
	}
}

// ---- profiles

func TestProfile(t *testing.T) {
	p, service := newPlugin(), shop(t)
	wantTree(t, p, stacktraces(service), all...)
	request := stacktraces(service)
	request.LabelSelector = fmt.Sprintf(`{service_name=%q, pod="a"}`, service)
	wantTree(t, p, request, podA...)
	request.MaxNodes = ptr(int64(16384))
	wantTree(t, p, request, podA...)
	request.Start, request.End = at(10).UnixMilli(), at(10).UnixMilli()
	wantTree(t, p, request, podA...)
	request.Start = at(10).UnixMilli() + 1
	request.End = request.Start + 1000
	wantTree(t, p, request)
}

// wide makes a tree of about 5^6 paths and one that is 400 deep.
func wide() []sample {
	var out []sample
	for i := range 15625 {
		stack, n := "root", i
		for range 6 {
			stack += fmt.Sprintf(";f%d", n%5)
			n /= 5
		}
		out = append(out, one(stack, int64(1+i*i%977)))
	}
	return append(out, one(strings.Repeat("again;", 400)+"leaf", 3), one("", 1000))
}

func TestLargeProfile(t *testing.T) {
	p, service, samples := newPlugin(), unique("large"), wide()
	pushCPU(t, service, at(0), samples...)
	request := stacktraces(service)
	request.MaxNodes = ptr(int64(1 << 20))
	wantTree(t, p, request, samples...)
	if p.wire.gzipped.Load() == 0 {
		t.Fatal("a large answer was not compressed")
	}
	whole := tree(samples...)
	for _, limit := range []int64{0, 1, 2, 7, 100, 8192, 16384} {
		request.MaxNodes = &limit
		got, err := p.profile(request)
		if err != nil {
			t.Fatalf("max nodes %d: %v", limit, err)
		}
		same(t, fmt.Sprintf("total with %d nodes", limit), got["total"].total, whole["total"].total)
		for path, b := range got {
			if !strings.HasSuffix(path, ";other") && b.total != whole[path].total {
				t.Fatalf("max nodes %d: %s is %d, wanted %d", limit, path, b.total, whole[path].total)
			}
		}
		if len(got) >= len(whole) {
			t.Fatalf("max nodes %d: %d nodes of %d, nothing was cut", limit, len(got), len(whole))
		}
	}
}

func TestCallSite(t *testing.T) {
	p, service := newPlugin(), shop(t)
	for _, c := range []struct {
		site   []string
		wanted []sample
	}{
		{[]string{"main"}, append(slices.Clone(podA), podB[:2]...)}, {[]string{"main", "serve", "query"}, []sample{podA[0], podB[0], podB[1]}},
		{[]string{"serve"}, nil}, {[]string{"größe", "日本"}, podB[3:]},
	} {
		request := stacktraces(service)
		request.StackTraceSelector = &typesv1.StackTraceSelector{}
		for _, name := range c.site {
			request.StackTraceSelector.CallSite = append(request.StackTraceSelector.CallSite, &typesv1.Location{Name: name})
		}
		wantTree(t, p, request, c.wanted...)
	}
}

// A server that does not know field 3 of the selector answers as if it were not there.
func TestFrameFilterIsIgnored(t *testing.T) {
	p, service := newPlugin(), shop(t)
	var filter, field []byte
	for number, name := range []string{"main", "gc", "ser.*", "^in"} {
		filter = protowire.AppendString(protowire.AppendTag(filter, protowire.Number(number+1), protowire.BytesType), name)
	}
	field = protowire.AppendBytes(protowire.AppendTag(field, 3, protowire.BytesType), filter)
	chosen := &typesv1.StackTraceSelector{}
	chosen.ProtoReflect().SetUnknown(field)
	request := stacktraces(service)
	request.StackTraceSelector = chosen
	wantTree(t, p, request, all...)
	if _, err := p.series(&querierv1.SelectSeriesRequest{ProfileTypeID: cpuType, LabelSelector: selector(service), Start: at(0).UnixMilli(), End: at(30).UnixMilli(), Step: 15, StackTraceSelector: chosen}); err != nil {
		t.Fatal(err)
	}
}

func TestSpans(t *testing.T) {
	p, service := newPlugin(), shop(t)
	for _, c := range []struct {
		spans  []string
		wanted []sample
	}{
		{[]string{spanOne}, []sample{podB[0], podB[3]}}, {[]string{spanTwo}, podB[1:2]}, {[]string{spanOne, spanTwo}, []sample{podB[0], podB[1], podB[3]}},
		{[]string{"ffffffffffffffff"}, nil},
	} {
		request := stacktraces(service)
		request.SpanSelector = c.spans
		wantTree(t, p, request, c.wanted...)
		got, err := p.spanProfile(&querierv1.SelectMergeSpanProfileRequest{ProfileTypeID: cpuType, LabelSelector: selector(service), SpanSelector: c.spans, Start: from(), End: until()})
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprint("as versions up to 12 ask for ", c.spans), got, tree(c.wanted...))
	}
}

// ---- metrics

func metrics(service string, groupBy ...string) *querierv1.SelectSeriesRequest {
	return &querierv1.SelectSeriesRequest{
		ProfileTypeID: cpuType, LabelSelector: selector(service), Start: at(0).UnixMilli(), End: at(60).UnixMilli(), GroupBy: groupBy, Step: 15,
		ExemplarType: typesv1.ExemplarType_EXEMPLAR_TYPE_NONE,
	}
}

// ticks stores 1 to 4 CPU seconds in two pods, some of them on an edge of a step.
func ticks(t *testing.T) string {
	service := unique("ticks")
	for _, c := range []struct {
		pod     string
		at      float64
		seconds int64
	}{{"a", 0, 1}, {"a", 15, 2}, {"a", 15.001, 3}, {"b", 44, 4}, {"b", 61, 100}} {
		push(t, pairs("__name__", "process_cpu", "service_name", service, "pod", c.pod), zipped(cpu(at(c.at), one("f", c.seconds*1e9))))
	}
	return service
}

func TestSeriesBecomeRates(t *testing.T) {
	p, service := newPlugin(), ticks(t)
	for _, c := range []struct {
		by     []string
		limit  *int64
		wanted []frame
	}{
		{nil, nil, []frame{{points: map[float64]float64{0: 1. / 15, 15: 2. / 15, 30: 3. / 15, 45: 4. / 15}}}},
		{[]string{"pod"}, nil, []frame{{labels: "pod=a", points: map[float64]float64{0: 1. / 15, 15: 2. / 15, 30: 3. / 15}}, {labels: "pod=b", points: map[float64]float64{45: 4. / 15}}}},
		{[]string{"pod"}, ptr(int64(1)), []frame{{labels: "pod=a", points: map[float64]float64{0: 1. / 15, 15: 2. / 15, 30: 3. / 15}}}},
		{[]string{"service_name", "nothing"}, nil, []frame{{labels: "service_name=" + service, points: map[float64]float64{0: 1. / 15, 15: 2. / 15, 30: 3. / 15, 45: 4. / 15}}}},
	} {
		request := metrics(service, c.by...)
		request.Limit = c.limit
		got, err := p.series(request)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprint("series by ", c.by), got, c.wanted)
	}
}

func TestInstantTypesStaySums(t *testing.T) {
	p, service := newPlugin(), unique("heap")
	heap := pprof(at(7), []string{"alloc_space:bytes", "inuse_space:bytes"}, "space:bytes", sample{stack: "a;b", values: []int64{3000, 20}}, sample{stack: "a", values: []int64{1500, 1}})
	push(t, pairs("__name__", "memory", "service_name", service), zipped(heap))
	for id, value := range map[string]float64{"memory:alloc_space:bytes:space:bytes": 300, "memory:inuse_space:bytes:space:bytes": 21} {
		request := metrics(service)
		request.ProfileTypeID = id
		got, err := p.series(request)
		if err != nil {
			t.Fatal(err)
		}
		same(t, id, got, []frame{{points: map[float64]float64{15: value}}})
	}
}

// `both` asks for series and flame graph in parallel; a dashboard does so for many panels at once.
func TestBothInParallel(t *testing.T) {
	p, service := newPlugin(), shop(t)
	wanted := tree(all...)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if got, err := p.profile(stacktraces(service)); err != nil || fmt.Sprint(got) != fmt.Sprint(wanted) {
				t.Error("profile: ", got, err)
			}
		})
		group.Go(func() {
			if got, err := p.series(metrics(service, "pod")); err != nil || len(got) != 2 {
				t.Error("series: ", got, err)
			}
		})
	}
	group.Wait()
}

// ---- nothing and faults

func TestNothingIsNoError(t *testing.T) {
	p, service := newPlugin(), unique("nobody")
	wantTree(t, p, stacktraces(service))
	got, err := p.series(metrics(service, "pod"))
	if err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
	request := stacktraces(service)
	request.Start, request.End = 1000, 4000
	wantTree(t, p, request)
}

// The plug-in shows "<code>: <message>", the code read from Connect's JSON body.
func TestErrorsCarryCodeAndMessage(t *testing.T) {
	p, service := newPlugin(), unique("faults")
	bad := func(change func(*querierv1.SelectMergeStacktracesRequest)) error {
		request := stacktraces(service)
		change(request)
		_, err := p.profile(request)
		return err
	}
	badSeries := func(change func(*querierv1.SelectSeriesRequest)) error {
		request := metrics(service)
		change(request)
		_, err := p.series(request)
		return err
	}
	_, names := p.labelNames(`{a=`, nil, false, from(), until())
	for what, err := range map[string]error{
		"selector":           bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.LabelSelector = `{service_name=` }),
		"empty selector":     bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.LabelSelector = "" }),
		"type":               bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.ProfileTypeID = "a:b:c" }),
		"backward":           bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.Start, r.End = r.End, r.Start }),
		"no range":           bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.Start, r.End = 0, 0 }),
		"too many nodes":     bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.MaxNodes = ptr(int64(1<<20 + 1)) }),
		"negative nodes":     bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.MaxNodes = ptr(int64(-1)) }),
		"span":               bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.SpanSelector = []string{"abc"} }),
		"profile id":         bad(func(r *querierv1.SelectMergeStacktracesRequest) { r.ProfileIdSelector = []string{"no-uuid"} }),
		"step 0":             badSeries(func(r *querierv1.SelectSeriesRequest) { r.Step = 0 }),
		"regular expression": badSeries(func(r *querierv1.SelectSeriesRequest) { r.LabelSelector = `{a=~"("}` }),
		"selector of names":  names,
	} {
		var wrapped *connect.Error
		if !errors.As(err, &wrapped) || wrapped.Code() != connect.CodeInvalidArgument || wrapped.Message() == "" {
			t.Errorf("%s: expected invalid_argument with a message, got %v", what, err)
		}
	}
	// An address below which nothing answers is what a wrong URL in the settings gives.
	lost := newPlugin()
	_, err := connect.NewClient[querierv1.ProfileTypesRequest, querierv1.ProfileTypesResponse](&http.Client{Transport: &lost.wire},
		queryURL()+"/querier.v1.QuerierService/Nothing").CallUnary(context.Background(), connect.NewRequest(&querierv1.ProfileTypesRequest{}))
	if connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Error("an unknown method: ", err)
	}
}
