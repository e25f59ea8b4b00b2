// SPDX-License-Identifier: Apache-2.0

// Package grafana replays what Grafana's programs send to a Pyroscope server, with the generated client of Pyroscope's
// public API, against the server of FLAMETREE_URL, and compares what they would show with what was pushed.
//
// This file: profiles whose sums are known, how they are pushed, and clients of each protocol.
package grafana

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/grafana/pyroscope/api/gen/proto/go/querier/v1/querierv1connect"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
	"google.golang.org/protobuf/proto"
)

const cpuType = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

// base is a whole minute, twenty minutes ago: what steps of 15 s are counted from.
var base = time.Now().Add(-20 * time.Minute).Truncate(time.Minute)

func at(seconds float64) time.Time { return base.Add(time.Duration(seconds * float64(time.Second))) }

// from and until span all that these tests push.
func from() int64  { return at(-600).UnixMilli() }
func until() int64 { return at(900).UnixMilli() }

func unique(prefix string) string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return prefix + "-" + hex.EncodeToString(b[:])
}

func url(variable string) string {
	if u := os.Getenv(variable); u != "" {
		return strings.TrimRight(u, "/")
	}
	return strings.TrimRight(os.Getenv("FLAMETREE_URL"), "/")
}

func queryURL() string { return url("FLAMETREE_QUERY_URL") }
func pushURL() string  { return url("FLAMETREE_PUSH_URL") }

func TestMain(m *testing.M) {
	if os.Getenv("FLAMETREE_URL") == "" && os.Getenv("FLAMETREE_QUERY_URL") == "" {
		fmt.Fprintln(os.Stderr, "set FLAMETREE_URL")
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// ---- profiles

// sample is a stack, written root first as "a;b", with a value per sample type and its own labels.
type sample struct {
	stack  string
	values []int64
	labels map[string]string
}

// one is a sample of a profile with one sample type; pairs are its labels.
func one(stack string, value int64, pairs ...string) sample {
	s := sample{stack: stack, values: []int64{value}, labels: map[string]string{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		s.labels[pairs[i]] = pairs[i+1]
	}
	return s
}

// profile is one pprof message under construction.
type profile struct {
	googlev1.Profile
	strings   map[string]int64
	functions map[string]uint64
}

func (p *profile) text(s string) int64 {
	if _, ok := p.strings[s]; !ok {
		p.strings[s] = int64(len(p.StringTable))
		p.StringTable = append(p.StringTable, s)
	}
	return p.strings[s]
}

// location returns the id of the only location of a function, its line 10 times its number.
func (p *profile) location(name string) uint64 {
	if id, ok := p.functions[name]; ok {
		return id
	}
	id := uint64(len(p.Function) + 1)
	n := p.text(name)
	p.Function = append(p.Function, &googlev1.Function{Id: id, Name: n, SystemName: n, Filename: p.text("app.c")})
	p.Location = append(p.Location, &googlev1.Location{Id: id, MappingId: 1, Line: []*googlev1.Line{{FunctionId: id, Line: int64(id) * 10}}})
	p.functions[name] = id
	return id
}

// pprof encodes samples with sample types and the period type, each "type:unit".
func pprof(t time.Time, types []string, period string, samples ...sample) []byte {
	p := &profile{strings: map[string]int64{}, functions: map[string]uint64{}}
	p.text("")
	value := func(s string) *googlev1.ValueType {
		kind, unit, _ := strings.Cut(s, ":")
		return &googlev1.ValueType{Type: p.text(kind), Unit: p.text(unit)}
	}
	for _, s := range types {
		p.SampleType = append(p.SampleType, value(s))
	}
	p.PeriodType, p.Period = value(period), 10_000_000
	p.TimeNanos, p.DurationNanos = t.UnixNano(), int64(10*time.Second)
	p.Mapping = []*googlev1.Mapping{{Id: 1, Filename: p.text("/bin/app"), HasFunctions: true}}
	for _, s := range samples {
		row := &googlev1.Sample{Value: s.values}
		if s.stack != "" {
			for _, frame := range slices.Backward(strings.Split(s.stack, ";")) {
				row.LocationId = append(row.LocationId, p.location(frame))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.labels)) {
			row.Label = append(row.Label, &googlev1.Label{Key: p.text(name), Str: p.text(s.labels[name])})
		}
		p.Sample = append(p.Sample, row)
	}
	data, err := proto.Marshal(&p.Profile)
	if err != nil {
		panic(err)
	}
	return data
}

func cpu(t time.Time, samples ...sample) []byte {
	return pprof(t, []string{"cpu:nanoseconds"}, "cpu:nanoseconds", samples...)
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

// ---- clients

// protocols are what profilecli and connect clients can be told to speak.
var protocols = map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}}

// plain speaks HTTP/1.1 without TLS; gRPC needs prior knowledge of HTTP/2.
var plain, h2c = http.DefaultClient, func() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}()

func transport(protocol string) *http.Client {
	if protocol == "grpc" {
		return h2c
	}
	return plain
}

func pusher(protocol string, more ...connect.ClientOption) pushv1connect.PusherServiceClient {
	return pushv1connect.NewPusherServiceClient(transport(protocol), pushURL(), append(slices.Clone(protocols[protocol]), more...)...)
}

func querier(protocol string, more ...connect.ClientOption) querierv1connect.QuerierServiceClient {
	return querierv1connect.NewQuerierServiceClient(transport(protocol), queryURL(), append(slices.Clone(protocols[protocol]), more...)...)
}

// each runs a test with every protocol.
func each(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, protocol := range slices.Sorted(maps.Keys(protocols)) {
		t.Run(protocol, func(t *testing.T) { test(t, protocol) })
	}
}

func pairs(labels ...string) []*typesv1.LabelPair {
	var out []*typesv1.LabelPair
	for i := 0; i+1 < len(labels); i += 2 {
		out = append(out, &typesv1.LabelPair{Name: labels[i], Value: labels[i+1]})
	}
	return out
}

// pushRequest has one series with a sample per body.
func pushRequest(labels []*typesv1.LabelPair, bodies ...[]byte) *connect.Request[pushv1.PushRequest] {
	series := &pushv1.RawProfileSeries{Labels: labels}
	for _, body := range bodies {
		series.Samples = append(series.Samples, &pushv1.RawSample{RawProfile: body, ID: unique("id")})
	}
	return connect.NewRequest(&pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{series}})
}

// push stores profiles under labels.
func push(t *testing.T, labels []*typesv1.LabelPair, bodies ...[]byte) {
	t.Helper()
	if _, err := pusher("connect").Push(context.Background(), pushRequest(labels, bodies...)); err != nil {
		t.Fatal("push: ", err)
	}
}

// pushCPU stores a CPU profile of a service.
func pushCPU(t *testing.T, service string, when time.Time, samples ...sample) {
	t.Helper()
	push(t, pairs("__name__", "process_cpu", "service_name", service), zipped(cpu(when, samples...)))
}

func selector(service string) string { return fmt.Sprintf(`{service_name=%q}`, service) }

// bar is what a flame graph shows of a call path.
type bar struct{ self, total int64 }

// tree sums samples by brute force: {"total;a;b": bar}. Empty stacks are the frame [unknown].
func tree(samples ...sample) map[string]bar {
	out := map[string]bar{}
	for _, s := range samples {
		stack := s.stack
		if stack == "" {
			stack = "[unknown]"
		}
		path := "total"
		add := func(self int64) {
			b := out[path]
			out[path] = bar{b.self + self, b.total + s.values[0]}
		}
		add(0)
		frames := strings.Split(stack, ";")
		for i, frame := range frames {
			path += ";" + frame
			if i == len(frames)-1 {
				add(s.values[0])
			} else {
				add(0)
			}
		}
	}
	if len(out) == 0 {
		out["total"] = bar{}
	}
	return out
}

// same fails with both sides when they differ.
func same[T any](t *testing.T, what string, got, wanted T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", wanted); g != w {
		t.Fatalf("%s\nexpected: %.4000s\ngot:      %.4000s", what, w, g)
	}
}

// must returns the answer of a call that has to succeed.
func must[T any](t *testing.T) func(*connect.Response[T], error) *T {
	return func(answer *connect.Response[T], err error) *T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer.Msg
	}
}
