// SPDX-License-Identifier: Apache-2.0

// A busy program under pyroscope-go: burns CPU time in functions whose names the test then asks for, uploads, and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/grafana/pyroscope-go"
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
	profiler.Flush(true)
	if err := profiler.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
	fmt.Println("done", sum)
}
