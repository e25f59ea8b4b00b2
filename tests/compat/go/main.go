// SPDX-License-Identifier: Apache-2.0

// A busy program under pyroscope-go and otel-profiling-go: burns CPU time in functions whose names the test then asks for, some of it in
// spans, whose ids it prints, uploads, and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	otelpyroscope "github.com/grafana/otel-profiling-go"
	"github.com/grafana/pyroscope-go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

type logger struct{}

func (logger) Infof(string, ...interface{})  {}
func (logger) Debugf(string, ...interface{}) {}
func (logger) Errorf(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(3)
}

// used is the CPU time of the process.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano())
}

//go:noinline
func burnHotLoop(burn time.Duration) (sum int) {
	for until := used() + burn; used() < until; {
		for i := 0; i < 1_000_000; i++ {
			sum += i ^ sum
		}
	}
	return sum
}

//go:noinline
func burnTagged(burn time.Duration) int { return burnHotLoop(burn) }

//go:noinline
func burnInSpan(tracer trace.Tracer, burn time.Duration) (id string, sum int) {
	_, span := tracer.Start(context.Background(), "checkout")
	defer span.End()
	return span.SpanContext().SpanID().String(), burnHotLoop(burn)
}

func main() {
	profiler, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: os.Args[2],
		ServerAddress:   os.Args[1],
		Logger:          logger{},
		UploadRate:      time.Second,
		Tags:            map[string]string{"kit": "go"},
		ProfileTypes: []pyroscope.ProfileType{
			pyroscope.ProfileCPU, pyroscope.ProfileAllocObjects, pyroscope.ProfileAllocSpace,
			pyroscope.ProfileInuseObjects, pyroscope.ProfileInuseSpace, pyroscope.ProfileGoroutines,
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	sum := burnHotLoop(900 * time.Millisecond)
	pyroscope.TagWrapper(context.Background(), pyroscope.Labels("job", "tagged"), func(context.Context) {
		sum += burnTagged(700 * time.Millisecond)
	})
	tracer := otelpyroscope.NewTracerProvider(sdktrace.NewTracerProvider()).Tracer("busy")
	first, a := burnInSpan(tracer, 500*time.Millisecond)
	second, b := burnInSpan(tracer, 500*time.Millisecond)
	profiler.Flush(true)
	if err := profiler.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	fmt.Fprintln(os.Stderr, sum+a+b)
	fmt.Println("done", first, second)
}
