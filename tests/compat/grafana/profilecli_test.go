// SPDX-License-Identifier: Apache-2.0

// The requests of profilecli's commands and of its canary, in each protocol that --protocol takes.
package grafana

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	reader "github.com/google/pprof/profile"
	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	queryv1 "github.com/grafana/pyroscope/api/gen/proto/go/query/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/query/v1/queryv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"google.golang.org/protobuf/proto"
)

// exported reads an answer as `go tool pprof` does: {"a;b": value}, root first.
func exported(t *testing.T, message *googlev1.Profile) (*reader.Profile, map[string]int64) {
	t.Helper()
	data, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	p, err := reader.Parse(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, s := range p.Sample {
		var frames []string
		for i := len(s.Location) - 1; i >= 0; i-- {
			for j := len(s.Location[i].Line) - 1; j >= 0; j-- {
				frames = append(frames, s.Location[i].Line[j].Function.Name)
			}
		}
		out[strings.Join(frames, ";")] += s.Value[0]
	}
	return p, out
}

// sums is what an export of samples says.
func sums(samples ...sample) map[string]int64 {
	out := map[string]int64{}
	for _, s := range samples {
		out[s.stack] += s.values[0]
	}
	return out
}

func export(service string) *querierv1.SelectMergeProfileRequest {
	return &querierv1.SelectMergeProfileRequest{ProfileTypeID: cpuType, LabelSelector: selector(service), Start: from(), End: until()}
}

func merged(t *testing.T, protocol string, request *querierv1.SelectMergeProfileRequest) (*reader.Profile, map[string]int64) {
	t.Helper()
	//lint:ignore SA1019 profilecli calls it
	return exported(t, must[googlev1.Profile](t)(querier(protocol).SelectMergeProfile(context.Background(), connect.NewRequest(request))))
}

// `upload` and then `query profile`, with and without --stacktrace-selector and --max-nodes.
func TestUploadAndQueryProfile(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		service := unique("upload")
		must[pushv1.PushResponse](t)(pusher(protocol).Push(context.Background(), pushRequest(pairs("__name__", "process_cpu", "service_name", service), zipped(cpu(at(10), podA...)))))
		p, got := merged(t, protocol, export(service))
		same(t, "samples", got, sums(podA...))
		same(t, "type", fmt.Sprint(p.SampleType[0].Type, p.SampleType[0].Unit, p.PeriodType.Type, p.PeriodType.Unit, p.TimeNanos), fmt.Sprint("cpunanosecondscpunanoseconds", until()*1_000_000))
		request := export(service)
		request.StackTraceSelector = &typesv1.StackTraceSelector{CallSite: []*typesv1.Location{{Name: "main"}, {Name: "serve"}}}
		_, got = merged(t, protocol, request)
		same(t, "samples of a call site", got, sums(podA[:3]...))
		request = export(service)
		request.MaxNodes = ptr(int64(3))
		_, got = merged(t, protocol, request)
		same(t, "samples of the three largest nodes", got, map[string]int64{"main;serve;query": 500, "main;serve;other": 300, "main;serve": 7, "main;other": 60})
		//lint:ignore SA1019 profilecli calls it
		nothing := must[googlev1.Profile](t)(querier(protocol).SelectMergeProfile(context.Background(), connect.NewRequest(export(unique("nobody")))))
		same(t, "size of a profile of nobody", proto.Size(nothing), 0)
	})
}

// bytesOf reads a tree: pre-order, each node its name, self value and number of children, by varints.
func bytesOf(t *testing.T, data []byte) map[string]int64 {
	t.Helper()
	out, todo := map[string]int64{}, []string{""}
	next := func() uint64 {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			t.Fatal("cut tree")
		}
		data = data[n:]
		return v
	}
	for len(data) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := next()
		if name := string(data[:n]); path == "" {
			path = name
		} else {
			path += ";" + name
		}
		data = data[n:]
		if self := next(); self > 0 {
			out[path] = int64(self)
		}
		for range next() {
			todo = append(todo, path)
		}
	}
	return out
}

// `query profile --function-names-only`.
func TestFunctionNamesOnly(t *testing.T) {
	service := shop(t)
	each(t, func(t *testing.T, protocol string) {
		request := stacktraces(service)
		request.Format = querierv1.ProfileFormat_PROFILE_FORMAT_TREE
		answer := must[querierv1.SelectMergeStacktracesResponse](t)(querier(protocol).SelectMergeStacktraces(context.Background(), connect.NewRequest(request)))
		same(t, "tree", bytesOf(t, answer.Tree), sums(all...))
	})
}

// `query go-pgo`: the last --keep-locations frames, the line of the leaf left out.
func TestGoPGO(t *testing.T) {
	service := shop(t)
	each(t, func(t *testing.T, protocol string) {
		request := export(service)
		request.StackTraceSelector = &typesv1.StackTraceSelector{GoPgo: &typesv1.GoPGO{KeepLocations: 2, AggregateCallees: true}}
		p, got := merged(t, protocol, request)
		same(t, "samples", got, map[string]int64{"serve;query": 540, "serve;render": 300, "main;serve": 12, "main;gc": 60, "init": 1, "größe;日本": 2})
		for _, s := range p.Sample {
			if s.Location[0].Line[0].Line != 0 {
				t.Fatal("a leaf has a line: ", s)
			}
		}
	})
}

// `query series`, `query label-values-cardinality`, `query top` and `ready`.
func TestLabelCommands(t *testing.T) {
	service := shop(t)
	each(t, func(t *testing.T, protocol string) {
		ctx, q := context.Background(), querier(protocol)
		sets := must[querierv1.SeriesResponse](t)(q.Series(ctx, connect.NewRequest(&querierv1.SeriesRequest{Matchers: []string{selector(service)}, LabelNames: []string{"pod"}, Start: from(), End: until()}))).LabelsSet
		found := map[string]bool{}
		for _, set := range sets {
			found[labelText(set.Labels)] = true
		}
		same(t, "series", found, map[string]bool{"pod=a": true, "pod=b": true})

		counts := map[string]int{}
		names := connect.NewRequest(&typesv1.LabelNamesRequest{Matchers: []string{selector(service)}, Start: from(), End: until()})
		names.Header().Set("Accept", "*/*;allow-utf8-labelnames=true")
		for _, name := range must[typesv1.LabelNamesResponse](t)(q.LabelNames(ctx, names)).Names {
			values := connect.NewRequest(&typesv1.LabelValuesRequest{Name: name, Matchers: []string{selector(service)}, Start: from(), End: until()})
			counts[name] = len(must[typesv1.LabelValuesResponse](t)(q.LabelValues(ctx, values)).Names)
		}
		same(t, "cardinality", counts, map[string]int{
			"__name__": 1, "__period_type__": 1, "__period_unit__": 1, "__profile_type__": 1, "__service_name__": 1, "__type__": 1, "__unit__": 1, "k8s.node": 2, "pod": 2, "service_name": 1,
		})

		series := must[querierv1.SelectSeriesResponse](t)(q.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{
			ProfileTypeID: cpuType, LabelSelector: selector(service), Start: from(), End: until(), Step: float64(until()-from()) / 1000, GroupBy: []string{"pod"},
		}))).Series
		top := ""
		for _, s := range series {
			sum := 0.
			for _, point := range s.Points {
				sum += point.Value
			}
			top += fmt.Sprintf("%s %g; ", labelText(s.Labels), sum)
		}
		same(t, "top", top, "pod=a 867; pod=b 48; ")
	})
	ready, err := http.Get(queryURL() + "/ready")
	if err != nil || ready.StatusCode != http.StatusOK {
		t.Fatal("ready: ", ready, err)
	}
	if _, err := body(ready); err != nil {
		t.Fatal(err)
	}
}

// Newer profilecli asks the query frontend first and takes unimplemented as "use the querier".
func TestQueryFrontendIsUnimplemented(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		client := queryv1connect.NewQueryFrontendServiceClient(transport(protocol), queryURL(), protocols[protocol]...)
		_, err := client.Query(context.Background(), connect.NewRequest(&queryv1.QueryRequest{StartTime: from(), EndTime: until(), LabelSelector: "{}"}))
		if connect.CodeOf(err) != connect.CodeUnimplemented {
			t.Fatal(err)
		}
	})
}

// ---- the canary

const canaryType = "deadmans_switch:made_up:profilos:made_up:profilos"

func canarySelector(service string) string {
	return fmt.Sprintf(`{service_name=%q, job="canary-exporter", instance="here"}`, service)
}

func canaryPush(t *testing.T, protocol, service string, now time.Time) {
	t.Helper()
	data := pprof(now, []string{"made_up:profilos"}, "made_up:profilos", one("func2;func1", 10), one("func1", 20, "profile_id", spanOne))
	labels := pairs("service_name", service, "job", "canary-exporter", "instance", "here", "__name__", "deadmans_switch")
	must[pushv1.PushResponse](t)(pusher(protocol).Push(context.Background(), pushRequest(labels, data)))
}

// A few rounds of the canary's pushes and queries over the five seconds that begin with the profile.
func TestCanary(t *testing.T) {
	const kind = canaryType
	each(t, func(t *testing.T, protocol string) {
		ctx, q, service := context.Background(), querier(protocol), unique("canary")
		for round := range 3 {
			now := at(float64(round) * 15)
			start, end := now.UnixMilli(), now.UnixMilli()+5000
			canaryPush(t, protocol, service, now)
			where := canarySelector(service)
			_, got := merged(t, protocol, &querierv1.SelectMergeProfileRequest{ProfileTypeID: kind, LabelSelector: where, Start: start, End: end})
			same(t, "SelectMergeProfile", got, map[string]int64{"func2;func1": 10, "func1": 20})
			known := false
			for _, one := range must[querierv1.ProfileTypesResponse](t)(q.ProfileTypes(ctx, connect.NewRequest(&querierv1.ProfileTypesRequest{Start: start, End: end}))).ProfileTypes {
				known = known || one.ID == kind
			}
			same(t, "ProfileTypes", known, true)
			known = false
			for _, set := range must[querierv1.SeriesResponse](t)(q.Series(ctx, connect.NewRequest(&querierv1.SeriesRequest{Start: start, End: end, LabelNames: []string{"service_name", "__profile_type__"}}))).LabelsSet {
				text := labelText(set.Labels)
				if !strings.Contains(text, "service_name=") {
					t.Fatal("a series without service_name: ", text)
				}
				known = known || strings.Contains(text, "service_name="+service) && strings.Contains(text, "__profile_type__="+kind)
			}
			same(t, "Series", known, true)
			series := must[querierv1.SelectSeriesResponse](t)(q.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{
				ProfileTypeID: kind, LabelSelector: where, Start: start, End: end, Step: 1000, GroupBy: []string{"service_name"},
			}))).Series
			if len(series) != 1 || len(series[0].Points) != 1 || len(series[0].Labels) != 1 {
				t.Fatal("SelectSeries: ", series)
			}
			graph := must[querierv1.SelectMergeStacktracesResponse](t)(q.SelectMergeStacktraces(ctx, connect.NewRequest(&querierv1.SelectMergeStacktracesRequest{
				ProfileTypeID: kind, LabelSelector: where, Start: start, End: end,
			}))).Flamegraph
			same(t, "SelectMergeStacktraces", []int{len(graph.Names), len(graph.Levels)}, []int{3, 3})
			//lint:ignore SA1019 the canary calls it
			graph = must[querierv1.SelectMergeSpanProfileResponse](t)(q.SelectMergeSpanProfile(ctx, connect.NewRequest(&querierv1.SelectMergeSpanProfileRequest{
				ProfileTypeID: kind, LabelSelector: where, Start: start, End: end, SpanSelector: []string{spanOne},
			}))).Flamegraph
			same(t, "SelectMergeSpanProfile", []int{len(graph.Names), len(graph.Levels)}, []int{2, 2})
			stats := must[typesv1.GetProfileStatsResponse](t)(q.GetProfileStats(ctx, connect.NewRequest(&typesv1.GetProfileStatsRequest{})))
			if !stats.DataIngested || stats.OldestProfileTime <= 0 || stats.NewestProfileTime < start {
				t.Fatal("GetProfileStats: ", stats)
			}
		}
	})
}
