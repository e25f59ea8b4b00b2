// SPDX-License-Identifier: Apache-2.0

// What the data source says below a graph: that only a part of the profiles was kept, or that a quota is used up. The
// server's overrides, overrides.yaml, mean series by their labels "kept" and "quota".
package grafana

import (
	"context"
	"fmt"
	"testing"

	"connectrpc.com/connect"
)

func annotated(t *testing.T, service string) frame {
	t.Helper()
	frames, err := newPlugin().series(metrics(service))
	if err != nil {
		t.Fatal(err)
	}
	if len(frames) != 1 || len(frames[0].points) != 1 {
		t.Fatal("one point: ", frames)
	}
	return frames[0]
}

// Of a push of many profiles about half are kept; each counts whole, and the point says so once.
func TestSampledSeriesSaySo(t *testing.T) {
	const many = 64
	service, bodies := unique("sampled"), [][]byte(nil)
	for range many {
		bodies = append(bodies, zipped(cpu(at(10), one("main;work", 15_000_000_000))))
	}
	push(t, pairs("__name__", "process_cpu", "service_name", service, "kept", "half"), bodies...)
	f := annotated(t, service)
	if kept := f.points[15]; kept < 1 || kept > many || kept != float64(int(kept)) {
		t.Fatal("cores: ", f.points)
	}
	same(t, "annotations", f.notes, []string{fmt.Sprintf(`sampled: 0.5 of half/%s`, service)})
}

// A few profiles pass a quota that is used up, and say which; the next one is refused.
func TestThrottledSeriesSaySo(t *testing.T) {
	service := unique("throttled")
	labels := pairs("__name__", "process_cpu", "service_name", service, "quota", "spent")
	for range 3 {
		push(t, labels, zipped(cpu(at(10), one("main;work", 15_000_000_000))))
	}
	_, err := pusher("connect").Push(context.Background(), pushRequest(labels, zipped(cpu(at(10), one("main;work", 15_000_000_000)))))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Fatal("the fourth: ", err)
	}
	f := annotated(t, service)
	same(t, "cores", f.points, map[float64]float64{15: 3})
	same(t, "annotations", f.notes, []string{fmt.Sprintf(`throttled: 128 MB a day until 1900000000, 3 profiles in 3600 s of spent/%s`, service)})
}
