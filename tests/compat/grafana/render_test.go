// SPDX-License-Identifier: Apache-2.0

// The older routes, as scripts, CI jobs and the canary ask for them: flame graphs in numbers, DOT, and diffs.
package grafana

import (
	"encoding/json"
	"fmt"
	"net/http"
	neturl "net/url"
	"strings"
	"testing"

	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
)

// flamebearer is the answer of the older routes: numbers, not text.
type flamebearer struct {
	Flamebearer struct {
		Names             []string
		Levels            [][]int64
		NumTicks, MaxSelf int64
	}
	Metadata              struct{ Format, Units, Name string }
	LeftTicks, RightTicks int64
}

func get(t *testing.T, path string, parameters neturl.Values) []byte {
	t.Helper()
	answer, err := http.Get(queryURL() + path + "?" + parameters.Encode())
	if err != nil {
		t.Fatal(err)
	}
	got, err := body(answer)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %s %v", path, answer.StatusCode, got, err)
	}
	return got
}

// decoded is the flame graph of an answer in JSON.
func decoded(t *testing.T, data []byte) (answer flamebearer) {
	t.Helper()
	if err := json.Unmarshal(data, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestRender(t *testing.T) {
	service := shop(t)
	parameters := neturl.Values{
		"query": {cpuType + selector(service)}, "from": {fmt.Sprint(from())}, "until": {fmt.Sprint(until())}, "aggregation": {"sum"}, "format": {"json"}, "max-nodes": {"16384"},
	}
	answer := decoded(t, get(t, "/pyroscope/render", parameters))
	graph := &querierv1.FlameGraph{Names: answer.Flamebearer.Names, Total: answer.Flamebearer.NumTicks, MaxSelf: answer.Flamebearer.MaxSelf}
	for _, level := range answer.Flamebearer.Levels {
		graph.Levels = append(graph.Levels, &querierv1.Level{Values: level})
	}
	bars, err := shown(graph)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "flamebearer", bars, tree(all...))
	same(t, "format", answer.Metadata.Format, "single")
	parameters.Set("format", "dot")
	if dot := string(get(t, "/pyroscope/render", parameters)); !strings.HasPrefix(dot, "digraph") || !strings.Contains(dot, "render") {
		t.Fatal(dot)
	}
}

func TestRenderDiff(t *testing.T) {
	service, parameters := shop(t), neturl.Values{"max-nodes": {"16384"}}
	for side, pod := range map[string]string{"left": "a", "right": "b"} {
		parameters.Set(side+"Query", fmt.Sprintf(`%s{service_name=%q, pod=%q}`, cpuType, service, pod))
		parameters.Set(side+"From", fmt.Sprint(from()))
		parameters.Set(side+"Until", fmt.Sprint(until()))
	}
	answer := decoded(t, get(t, "/pyroscope/render-diff", parameters))
	same(t, "sides", fmt.Sprintf("%d %d %s %v", answer.LeftTicks, answer.RightTicks, answer.Metadata.Format, answer.Flamebearer.Levels[0]), "867 48 double [0 867 0 0 48 0 0]")
}

// The canary's probes of both routes: the five seconds that begin with its profile.
func TestCanaryRenders(t *testing.T) {
	service, now := unique("canary"), at(0)
	canaryPush(t, "connect", service, now)
	parameters := neturl.Values{}
	for _, side := range [][3]string{{"query", "from", "until"}, {"leftQuery", "leftFrom", "leftUntil"}, {"rightQuery", "rightFrom", "rightUntil"}} {
		parameters.Set(side[0], canaryType+canarySelector(service))
		parameters.Set(side[1], fmt.Sprint(now.UnixMilli()))
		parameters.Set(side[2], fmt.Sprint(now.UnixMilli()+5000))
	}
	for _, path := range []string{"/pyroscope/render", "/pyroscope/render-diff"} {
		graph := decoded(t, get(t, path, parameters)).Flamebearer
		same(t, path, []int{len(graph.Names), len(graph.Levels)}, []int{3, 3})
	}
}
