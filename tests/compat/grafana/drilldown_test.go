// SPDX-License-Identifier: Apache-2.0

// Profiles Drilldown through Grafana's data source proxy: plain requests with JSON bodies, as the app's fetch sends them.
package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	"google.golang.org/protobuf/proto"
)

// fetch posts a body to a method of the querier and returns the answer's bytes, which have to come with status 200.
func fetch(t *testing.T, method, contentType string, data []byte) []byte {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, queryURL()+"/querier.v1.QuerierService/"+method, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": contentType, "Accept": "application/json; allow-utf8-labelnames=true", "User-Agent": "Grafana/12.3.0",
		"X-Grafana-Org-Id": "1", "X-Forwarded-For": "10.0.0.1", "Accept-Encoding": "gzip, deflate, br",
	} {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	got, err := body(answer)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %s %v", method, answer.StatusCode, got, err)
	}
	return got
}

// app is fetch with JSON both ways.
func app[T any](t *testing.T, method string, question map[string]any) T {
	t.Helper()
	data, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if got := fetch(t, method, "application/json", data); json.Unmarshal(got, &out) != nil {
		t.Fatalf("%s answers %.500s", method, got)
	}
	return out
}

// The decimal text of 64-bit numbers is what the app reads; numbers would fail here.
func TestDrilldownOnboarding(t *testing.T) {
	shop(t)
	stats := app[struct {
		DataIngested                         bool
		OldestProfileTime, NewestProfileTime string
	}](t, "GetProfileStats", map[string]any{})
	if !stats.DataIngested || len(stats.OldestProfileTime) != 13 || len(stats.NewestProfileTime) != 13 || stats.OldestProfileTime > stats.NewestProfileTime {
		t.Fatalf("%+v", stats)
	}
	app[struct{ QueryImpact, QueryScopes any }](t, "AnalyzeQuery", map[string]any{"query": cpuType + "{}", "start": from(), "end": until()})
}

func TestDrilldownFrontPage(t *testing.T) {
	service := shop(t)
	type sets struct {
		LabelsSet []struct {
			Labels []struct{ Name, Value string }
		}
	}
	found := 0
	for _, set := range app[sets](t, "Series", map[string]any{"start": from(), "end": until(), "labelNames": []string{"service_name", "__profile_type__"}, "matchers": []string{}}).LabelsSet {
		labels := map[string]string{}
		for _, l := range set.Labels {
			labels[l.Name] = l.Value
		}
		if labels["service_name"] == service && labels["__profile_type__"] == cpuType {
			found++
		}
	}
	same(t, "rows of the service", found, 1)
	type names struct{ Names []string }
	question := map[string]any{"matchers": []string{fmt.Sprintf(`{__profile_type__=%q, service_name=%q}`, cpuType, service)}, "name": "k8s.node", "start": from(), "end": until()}
	same(t, "values", app[names](t, "LabelValues", question).Names, []string{"n-a", "n-b"})
	delete(question, "name")
	shownNames := map[string]bool{}
	for _, name := range app[names](t, "LabelNames", question).Names {
		shownNames[name] = true
	}
	same(t, "names", []bool{shownNames["pod"], shownNames["k8s.node"], shownNames["service_name"]}, []bool{true, true, true})
}

// The app mixes snake and camel case, sends an enum name that no server of today knows, and reads 64-bit values as text.
func TestDrilldownFunctionDetails(t *testing.T) {
	service := shop(t)
	answer := app[struct {
		StringTable []string
		Function    []struct{ Name, Filename string }
		Location    []struct{ Line []struct{ Line string } }
		Sample      []struct{ Value []string }
	}](t, "SelectMergeProfile", map[string]any{
		"profile_typeID": cpuType, "label_selector": selector(service), "start": from(), "end": until(), "maxNodes": 500,
		"stackTraceSelector": map[string]any{"call_site": []map[string]string{{"name": "main"}, {"name": "serve"}, {"name": "render"}}}, "profileIdSelector": []string{},
	})
	if len(answer.Sample) != 1 || len(answer.Sample[0].Value) != 1 || answer.Sample[0].Value[0] != "300" || len(answer.Function) < 3 || len(answer.Location) < 3 {
		t.Fatalf("%+v", answer)
	}
	for _, location := range answer.Location {
		if len(location.Line) != 1 || location.Line[0].Line == "" {
			t.Fatalf("a location without a line: %+v", answer.Location)
		}
	}
	graph := app[struct {
		Flamegraph struct {
			Names []string
			Total string
		}
	}](t, "SelectMergeStacktraces", map[string]any{"profileTypeID": cpuType, "labelSelector": selector(service), "start": from(), "end": until(), "format": "PROFILE_FORMAT_SANDWICH"})
	same(t, "total", graph.Flamegraph.Total, "915")
}

// The newest app asks for a table of functions beside the flame graph, and takes an answer without one for an old server's.
func TestDrilldownFunctionTable(t *testing.T) {
	service := shop(t)
	type row struct{ Name, Self, Total string }
	table := app[struct {
		Functions struct {
			Functions             []row
			Total, TotalFunctions string
		}
	}](t, "SelectMergeStacktraces", map[string]any{
		"profileTypeID": cpuType, "labelSelector": selector(service), "start": from(), "end": until(), "maxNodes": 2, "format": "PROFILE_FORMAT_FUNCTIONS",
	}).Functions
	same(t, "total", table.Total, "915")
	if len(table.Functions) != 2 || table.TotalFunctions == "" || table.Functions[0].Name == "" || table.Functions[0].Total == "" {
		t.Fatalf("%+v", table)
	}
}

// The export is protobuf that the app saves as it came.
func TestDrilldownExport(t *testing.T) {
	service := shop(t)
	data, err := proto.Marshal(export(service))
	if err != nil {
		t.Fatal(err)
	}
	message := &googlev1.Profile{}
	if err := proto.Unmarshal(fetch(t, "SelectMergeProfile", "application/proto", data), message); err != nil {
		t.Fatal(err)
	}
	_, got := exported(t, message)
	same(t, "samples", got, sums(all...))
}

// The difference view adds up for each side: the first bar of sevens is the root.
func TestDrilldownDiff(t *testing.T) {
	service := shop(t)
	side := func(pod string) map[string]any {
		return map[string]any{"profileTypeID": cpuType, "labelSelector": fmt.Sprintf(`{service_name=%q, pod=%q}`, service, pod), "start": from(), "end": until(), "maxNodes": 16384}
	}
	graph := app[struct {
		Flamegraph struct {
			Names                        []string
			Levels                       []struct{ Values []string }
			Total, LeftTicks, RightTicks string
		}
	}](t, "Diff", map[string]any{"left": side("a"), "right": side("b")}).Flamegraph
	same(t, "sums", []string{graph.LeftTicks, graph.RightTicks, graph.Total}, []string{"867", "48", "915"})
	same(t, "root", graph.Levels[0].Values, []string{"0", "867", "0", "0", "48", "0", "0"})
	for depth, level := range graph.Levels {
		if len(level.Values)%7 != 0 {
			t.Fatalf("level %d has %d values", depth, len(level.Values))
		}
	}
}
