// SPDX-License-Identifier: Apache-2.0

// Pushes as Grafana Alloy and the agents make them, by the generated client, in each protocol.
package grafana

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

// stored asks, in any order of labels, for every label of the service's series but those that storage adds.
func stored(t *testing.T, service string) map[string]string {
	t.Helper()
	request := connect.NewRequest(&querierv1.SeriesRequest{Matchers: []string{selector(service)}, Start: from(), End: until()})
	request.Header().Set("Accept", "*/*; allow-utf8-labelnames=true")
	sets := must[querierv1.SeriesResponse](t)(querier("connect").Series(context.Background(), request)).LabelsSet
	out := map[string]string{}
	for _, set := range sets {
		for _, l := range set.Labels {
			out[l.Name] = l.Value
		}
	}
	return out
}

// As pyroscope.write of Alloy: gzip'd pprof inside an uncompressed request, several samples, headers of its own.
func TestAlloyPush(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		service := unique("alloy")
		request := pushRequest(pairs("__name__", "process_cpu", "service_name", service, "instance", "10.0.0.1:80", "k8s.node", "n 1+2", "__session_id__", "0123456789abcdef"),
			zipped(cpu(at(0), one("main;a", 3))), zipped(cpu(at(5), one("main;a", 4), one("main;b", 5, "region", "eu"))))
		request.Header().Set("User-Agent", "Alloy/v1.17.0 (linux; docker)")
		request.Header().Set("X-Alloy-Id", "7c9e6679-7425-40de-944b-e07fc1f90ae7")
		must[pushv1.PushResponse](t)(pusher(protocol).Push(context.Background(), request))
		wantTree(t, newPlugin(), stacktraces(service), one("main;a", 7), one("main;b", 5))
		labels := stored(t, service)
		same(t, "labels", []string{labels["instance"], labels["k8s.node"], labels["region"], labels["__profile_type__"]}, []string{"10.0.0.1:80", "n 1+2", "eu", cpuType})
	})
}

// As the Python and Rust agents: the request compressed as a whole, the pprof inside plain.
func TestCompressedPush(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		service := unique("zipped")
		request := pushRequest(pairs("__name__", "process_cpu", "pod", "x", "service_name", service, "otel.scope.name", "com.grafana.pyroscope/python"), cpu(at(0), one("main;a", 3)))
		must[pushv1.PushResponse](t)(pusher(protocol, connect.WithSendGzip()).Push(context.Background(), request))
		wantTree(t, newPlugin(), stacktraces(service), one("main;a", 3))
		same(t, "scope", stored(t, service)["otel.scope.name"], "com.grafana.pyroscope/python")
	})
}

// What is scraped from the delta endpoints of godeltaprof is stored under the name without its prefix.
func TestDeltaProfile(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		service := unique("delta")
		heap := pprof(at(0), []string{"alloc_space:bytes", "inuse_space:bytes"}, "space:bytes", sample{stack: "a;b", values: []int64{3000, 20}})
		must[pushv1.PushResponse](t)(pusher(protocol).Push(context.Background(), pushRequest(pairs("__name__", "godeltaprof_memory", "service_name", service, "job", "go"), zipped(heap))))
		request := stacktraces(service)
		request.ProfileTypeID = "memory:alloc_space:bytes:space:bytes"
		wantTree(t, newPlugin(), request, one("a;b", 3000))
		labels := stored(t, service)
		if _, there := labels["__delta__"]; there {
			t.Fatal("__delta__ is stored: ", labels)
		}
		same(t, "names", []string{labels["__name__"], labels["__name_replaced__"]}, []string{"memory", "godeltaprof_memory"})
	})
}

// Alloy tries again on unknown and internal: what is bad has to be invalid_argument, in every protocol.
func TestBadPushIsNotTriedAgain(t *testing.T) {
	good := pairs("__name__", "process_cpu", "service_name", "bad")
	each(t, func(t *testing.T, protocol string) {
		for name, c := range map[string]struct {
			labels []*typesv1.LabelPair
			bodies [][]byte
		}{
			"nothing":       {good, nil},
			"no pprof":      {good, [][]byte{[]byte("\x0a\xff\xff")}},
			"no name":       {pairs("service_name", "bad"), [][]byte{cpu(at(0), one("a", 1))}},
			"name twice":    {append(pairs("pod", "1", "pod", "2"), good...), [][]byte{cpu(at(0), one("a", 1))}},
			"cut gzip":      {good, [][]byte{zipped(cpu(at(0), one("a", 1)))[:30]}},
			"years ago":     {good, [][]byte{cpu(base.AddDate(-9, 0, 0), one("a", 1))}},
			"no such index": {good, [][]byte{append(cpu(at(0), one("a", 1)), 0x70, 0x7f, 0x0a, 0x02, 0x08, 0x7f)}},
		} {
			_, err := pusher(protocol).Push(context.Background(), pushRequest(c.labels, c.bodies...))
			if connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%s: expected invalid_argument, got %v", name, err)
			}
		}
	})
}
