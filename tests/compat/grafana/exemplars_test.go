// SPDX-License-Identifier: Apache-2.0

// Exemplars and heat maps: as the data source, Profiles Drilldown and profilecli ask for them.
package grafana

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"
	querierv1 "github.com/grafana/pyroscope/api/gen/proto/go/querier/v1"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

// An exemplar is the largest profile of its point; its id, sent back, selects just that profile.
func TestExemplarLeadsToItsProfile(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		p, service := newPlugin(), shop(t)
		request := metrics(service, "pod")
		request.ExemplarType = typesv1.ExemplarType_EXEMPLAR_TYPE_INDIVIDUAL
		answer := must[querierv1.SelectSeriesResponse](t)(querier(protocol).SelectSeries(context.Background(), connect.NewRequest(request)))
		if len(answer.Series) != 2 {
			t.Fatal(answer.Series)
		}
		for i, c := range []struct {
			value   int64
			samples []sample
		}{{867, podA}, {48, podB}} {
			exemplars := answer.Series[i].Points[0].Exemplars
			if len(exemplars) != 1 {
				t.Fatal(answer.Series[i])
			}
			e := exemplars[0]
			same(t, "exemplar", []int64{e.Value, e.Timestamp}, []int64{c.value, at(10).UnixMilli()})
			if text := labelText(e.Labels); !strings.Contains(text, "k8s.node=n-") || strings.Contains(text, "pod=") {
				t.Fatal("labels of the exemplar: ", text)
			}
			one := stacktraces(service)
			one.ProfileIdSelector = []string{e.ProfileId}
			wantTree(t, p, one, c.samples...)
			byID := export(service)
			byID.ProfileIdSelector = []string{e.ProfileId}
			_, got := merged(t, protocol, byID)
			same(t, "export by id", got, sums(c.samples...))
		}
	})
}

// The canary's probe of exemplars, and `query exemplars profile`: the id of the exemplar selects the whole profile.
func TestCanaryExemplar(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		ctx, q, service, now := context.Background(), querier(protocol), unique("canary"), at(0)
		canaryPush(t, protocol, service, now)
		start, end := now.UnixMilli(), now.UnixMilli()+5000
		series := must[querierv1.SelectSeriesResponse](t)(q.SelectSeries(ctx, connect.NewRequest(&querierv1.SelectSeriesRequest{
			ProfileTypeID: canaryType, LabelSelector: canarySelector(service), Start: start, End: end, Step: 5, ExemplarType: typesv1.ExemplarType_EXEMPLAR_TYPE_INDIVIDUAL,
		}))).Series
		if len(series) != 1 || len(series[0].Points) != 1 || len(series[0].Points[0].Exemplars) != 1 {
			t.Fatal(series)
		}
		exemplar := series[0].Points[0].Exemplars[0]
		same(t, "value", exemplar.Value, 30)
		graph := must[querierv1.SelectMergeStacktracesResponse](t)(q.SelectMergeStacktraces(ctx, connect.NewRequest(&querierv1.SelectMergeStacktracesRequest{
			ProfileTypeID: canaryType, LabelSelector: canarySelector(service), Start: start, End: end, ProfileIdSelector: []string{exemplar.ProfileId},
		}))).Flamegraph
		same(t, "names and levels", []int{len(graph.Names), len(graph.Levels)}, []int{3, 3})
	})
}

// cells reads a heat map as the plug-in does: {seconds after base: {smallest value of a cell: count}}.
func cells(t *testing.T, series *querierv1.SelectHeatmapResponse) (map[float64]map[float64]int32, []*typesv1.Exemplar) {
	t.Helper()
	out, exemplars := map[float64]map[float64]int32{}, []*typesv1.Exemplar(nil)
	for _, s := range series.Series {
		for _, slot := range s.Slots {
			if len(slot.YMin) < len(slot.Counts) {
				t.Fatalf("panic: %d counts, %d lower bounds", len(slot.Counts), len(slot.YMin))
			}
			row := map[float64]int32{}
			for i, n := range slot.Counts {
				if n > 0 {
					row[slot.YMin[i]] += n
				}
			}
			out[float64(slot.Timestamp-base.UnixMilli())/1000] = row
			exemplars = append(exemplars, slot.Exemplars...)
		}
	}
	return out, exemplars
}

func heatmap(service string, kind querierv1.HeatmapQueryType, exemplars typesv1.ExemplarType) *connect.Request[querierv1.SelectHeatmapRequest] {
	return connect.NewRequest(&querierv1.SelectHeatmapRequest{
		ProfileTypeID: cpuType, LabelSelector: selector(service), Start: at(0).UnixMilli(), End: at(60).UnixMilli(), Step: 15, QueryType: kind, ExemplarType: exemplars,
	})
}

func TestHeatmapOfProfiles(t *testing.T) {
	p, service := newPlugin(), shop(t)
	answer := must[querierv1.SelectHeatmapResponse](t)(p.client.SelectHeatmap(context.Background(),
		heatmap(service, querierv1.HeatmapQueryType_HEATMAP_QUERY_TYPE_INDIVIDUAL, typesv1.ExemplarType_EXEMPLAR_TYPE_INDIVIDUAL)))
	got, exemplars := cells(t, answer)
	same(t, "cells", got, map[float64]map[float64]int32{15: {48: 1, 826: 1}})
	for _, e := range exemplars {
		request := stacktraces(service)
		request.ProfileIdSelector = []string{e.ProfileId}
		bars, err := p.profile(request)
		if err != nil || bars["total"].total != e.Value {
			t.Fatal("profile of an exemplar: ", e, bars["total"], err)
		}
	}
	same(t, "exemplars", len(exemplars), 2)
}

func TestHeatmapOfSpans(t *testing.T) {
	p, service := newPlugin(), shop(t)
	answer := must[querierv1.SelectHeatmapResponse](t)(p.client.SelectHeatmap(context.Background(),
		heatmap(service, querierv1.HeatmapQueryType_HEATMAP_QUERY_TYPE_SPAN, typesv1.ExemplarType_EXEMPLAR_TYPE_SPAN)))
	_, exemplars := cells(t, answer)
	found := map[string]int64{}
	for _, e := range exemplars {
		found[e.SpanId] = e.Value
	}
	same(t, "spans", found, map[string]int64{spanOne: 42, spanTwo: 5})
}
