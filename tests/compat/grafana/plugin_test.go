// SPDX-License-Identifier: Apache-2.0

// The backend of Grafana's Pyroscope data source: its client and how it reads answers. Where the plug-in would panic, or
// log an error and show less than was sent, reading fails here.
package grafana

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

// wire sees what the plug-in's HTTP client exchanges: every answer has to come by HTTP/1.1. It asks for gzip itself, as
// the Connect client does, and counts the answers that came so. Headers are what Grafana forwards from the browser.
type wire struct {
	headers http.Header
	gzipped atomic.Int64
}

func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	for name, values := range w.headers {
		request.Header[name] = values
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if answer.ProtoMajor != 1 {
		return nil, fmt.Errorf("answer by %s", answer.Proto)
	}
	if answer.Header.Get("Content-Encoding") == "gzip" {
		w.gzipped.Add(1)
	}
	return answer, nil
}

type plugin struct {
	wire   wire
	client querierv1connect.QuerierServiceClient
}

func newPlugin() *plugin {
	p := &plugin{}
	p.client = querierv1connect.NewQuerierServiceClient(&http.Client{Transport: &p.wire}, queryURL())
	return p
}

// ---- flame graphs

// node is a bar of the decoded tree.
type node struct {
	start, value, self int64
	name               string
	nodes              []*node
}

// decode is the plug-in's way from levels to a tree: four values a bar (offset from the end of the bar before it, total,
// self, name), each bar the child of the first parent, from the left, whose range holds it.
func decode(graph *querierv1.FlameGraph) (*node, error) {
	if len(graph.Levels) == 0 {
		return nil, nil
	}
	for depth, level := range graph.Levels {
		if len(level.Values)%4 != 0 || depth == 0 && len(level.Values) < 4 {
			return nil, fmt.Errorf("panic: level %d has %d values", depth, len(level.Values))
		}
		for i := 3; i < len(level.Values); i += 4 {
			if n := level.Values[i]; n < 0 || n >= int64(len(graph.Names)) {
				return nil, fmt.Errorf("panic: level %d names %d of %d", depth, n, len(graph.Names))
			}
		}
	}
	first := graph.Levels[0].Values
	if len(graph.Names) == 0 || first[0] != 0 || len(first) != 4 {
		return nil, fmt.Errorf("the root is %v of names %.3q", first, graph.Names)
	}
	root := &node{value: first[1], self: first[2], name: graph.Names[first[0]]}
	parents := []*node{root}
	for depth, level := range graph.Levels[1:] {
		var bars []*node
		parent, offset := 0, int64(0)
		for i := 0; i < len(level.Values); i += 4 {
			v := level.Values[i:]
			b := &node{start: v[0] + offset, value: v[1], self: v[2], name: graph.Names[v[3]]}
			offset = b.start + b.value
			for parent < len(parents) && (b.start < parents[parent].start || offset > parents[parent].start+parents[parent].value) {
				parent++
			}
			if parent == len(parents) {
				return nil, fmt.Errorf("dropped: bar %d of level %d (%s from %d to %d) lies in no parent", i/4, depth+1, b.name, b.start, offset)
			}
			parents[parent].nodes = append(parents[parent].nodes, b)
			bars = append(bars, b)
		}
		parents = bars
	}
	return root, nil
}

// flatten gives every path of the tree its bar; two bars of one path, and a bar that is not its self and its children, are
// faults that Grafana would show.
func flatten(root *node) (map[string]bar, error) {
	type item struct {
		path string
		node *node
	}
	out := map[string]bar{}
	for todo := []item{{root.name, root}}; len(todo) > 0; {
		it := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, ok := out[it.path]; ok {
			return nil, fmt.Errorf("two bars of %s", it.path)
		}
		out[it.path] = bar{it.node.self, it.node.value}
		sum := it.node.self
		for _, child := range it.node.nodes {
			sum += child.value
			todo = append(todo, item{it.path + ";" + child.name, child})
		}
		if sum != it.node.value {
			return nil, fmt.Errorf("%s is %d, its self and children %d", it.path, it.node.value, sum)
		}
	}
	return out, nil
}

// unit reads the third part of the type's id, as the plug-in does without looking whether it is there.
func unit(typeID string) (string, error) {
	parts := strings.Split(typeID, ":")
	if len(parts) < 3 {
		return "", fmt.Errorf("panic: type %q has %d parts", typeID, len(parts))
	}
	switch parts[2] {
	case "nanoseconds":
		return "ns", nil
	case "count":
		return "short", nil
	}
	return parts[2], nil
}

// shown decodes a flame graph to its bars; total and maxSelf have to be those of the tree.
func shown(graph *querierv1.FlameGraph) (map[string]bar, error) {
	if graph == nil {
		return nil, fmt.Errorf("no data: the flame graph is absent")
	}
	root, err := decode(graph)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fmt.Errorf("empty frame: no levels")
	}
	bars, err := flatten(root)
	if err != nil {
		return nil, err
	}
	var most int64
	for _, b := range bars {
		most = max(most, b.self)
	}
	if graph.Total != root.value || graph.MaxSelf != most {
		return nil, fmt.Errorf("total %d, maxSelf %d; the bars say %d, %d", graph.Total, graph.MaxSelf, root.value, most)
	}
	return bars, nil
}

// profile is a profile query.
func (p *plugin) profile(request *querierv1.SelectMergeStacktracesRequest) (map[string]bar, error) {
	if _, err := unit(request.ProfileTypeID); err != nil {
		return nil, err
	}
	answer, err := p.client.SelectMergeStacktraces(context.Background(), connect.NewRequest(request))
	if err != nil {
		return nil, fmt.Errorf("received error from client while getting profile: %w", err)
	}
	return shown(answer.Msg.Flamegraph)
}

// spanProfile is how versions up to 12 ask for spans.
func (p *plugin) spanProfile(request *querierv1.SelectMergeSpanProfileRequest) (map[string]bar, error) {
	//lint:ignore SA1019 versions in the field call it
	answer, err := p.client.SelectMergeSpanProfile(context.Background(), connect.NewRequest(request))
	if err != nil {
		return nil, fmt.Errorf("received error from client while getting span profile: %w", err)
	}
	return shown(answer.Msg.Flamegraph)
}

// ---- series

// frame is a line of a time series panel: labels as text, values by seconds after base, and exemplars.
type frame struct {
	labels    string
	points    map[float64]float64
	exemplars []*typesv1.Exemplar
	notes     []string // of its annotations
}

func labelText(labels []*typesv1.LabelPair) string {
	var parts []string
	for _, l := range labels {
		parts = append(parts, l.Name+"="+l.Value)
	}
	return strings.Join(parts, ",")
}

// rate is what the plug-in makes of a sum of a cumulative type: CPU time becomes cores.
func rate(typeID string, value, step float64) float64 {
	switch {
	case typeID == cpuType:
		return value / step / 1e9
	case strings.HasPrefix(typeID, "memory:alloc_"):
		return value / step
	}
	return value
}

// annotation is what the plug-in reads of one; a failure fails the whole query there. Other keys mean nothing to it.
func annotation(a *typesv1.ProfileAnnotation) (string, error) {
	var text struct {
		Body struct {
			Source *struct {
				UsageGroup  string  `json:"usageGroup"`
				Probability float64 `json:"probability"`
			} `json:"source"`
			PeriodType        string `json:"periodType"`
			PeriodLimitMb     int    `json:"periodLimitMb"`
			LimitResetTime    int64  `json:"limitResetTime"`
			SamplingPeriodSec int    `json:"samplingPeriodSec"`
			SamplingRequests  int    `json:"samplingRequests"`
			UsageGroup        string `json:"usageGroup"`
		} `json:"body"`
	}
	switch a.Key {
	case "pyroscope.ingest.throttled", "pyroscope.ingest.sampled":
	default:
		return "", nil
	}
	if err := json.Unmarshal([]byte(a.Value), &text); err != nil {
		return "", fmt.Errorf("annotation %s: %w: %s", a.Key, err, a.Value)
	}
	b := text.Body
	if a.Key == "pyroscope.ingest.throttled" {
		return fmt.Sprintf("throttled: %d MB a %s until %d, %d profiles in %d s of %s", b.PeriodLimitMb, b.PeriodType, b.LimitResetTime, b.SamplingRequests, b.SamplingPeriodSec, b.UsageGroup), nil
	}
	if b.Source == nil {
		return "", fmt.Errorf("annotation %s without source: %s", a.Key, a.Value)
	}
	return fmt.Sprintf("sampled: %g of %s", b.Source.Probability, b.Source.UsageGroup), nil
}

// series is a metrics query.
func (p *plugin) series(request *querierv1.SelectSeriesRequest) ([]frame, error) {
	if _, err := unit(request.ProfileTypeID); err != nil {
		return nil, err
	}
	answer, err := p.client.SelectSeries(context.Background(), connect.NewRequest(request))
	if err != nil {
		return nil, fmt.Errorf("received error from client while getting series: %w", err)
	}
	var out []frame
	for _, s := range answer.Msg.Series {
		f := frame{labels: labelText(s.Labels), points: map[float64]float64{}}
		last := int64(-1 << 62)
		for _, point := range s.Points {
			if point.Timestamp <= last {
				return nil, fmt.Errorf("timestamp %d after %d", point.Timestamp, last)
			}
			last = point.Timestamp
			f.points[float64(last-base.UnixMilli())/1000] = rate(request.ProfileTypeID, point.Value, request.Step)
			f.exemplars = append(f.exemplars, point.Exemplars...)
			for _, a := range point.Annotations {
				note, err := annotation(a)
				if err != nil {
					return nil, err
				}
				if note != "" {
					f.notes = append(f.notes, note)
				}
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// ---- names

// labelNames is the resource call: names without private ones and without those that the query already has.
func (p *plugin) labelNames(query string, matched []string, utf8 bool, start, end int64) ([]string, error) {
	request := connect.NewRequest(&typesv1.LabelNamesRequest{Matchers: []string{query}, Start: start, End: end})
	if utf8 {
		request.Header().Set("Accept", "*/*; allow-utf8-labelnames=true")
	}
	answer, err := p.client.LabelNames(context.Background(), request)
	if err != nil {
		return nil, fmt.Errorf("error sending LabelNames request %w", err)
	}
	out := []string{}
	for _, name := range answer.Msg.Names {
		if !strings.HasPrefix(name, "__") && !strings.Contains(";"+strings.Join(matched, ";")+";", ";"+name+";") {
			out = append(out, name)
		}
	}
	return out, nil
}

// body reads an answer of a plain HTTP call, inflating it when it says so.
func body(answer *http.Response) ([]byte, error) {
	defer func() { _ = answer.Body.Close() }()
	if answer.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(answer.Body)
	}
	unzipped, err := gzip.NewReader(answer.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unzipped)
}
