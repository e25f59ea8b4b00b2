// SPDX-License-Identifier: Apache-2.0

// others FORMAT FILE... - how fast other programs' readers decode profiles: google/pprof (pprof and
// what was before it) and the Collector's pdata (otlp). A line per file: path, inflated bytes, bytes
// per second of this process' CPU time, its garbage collector's included. Files are inflated before
// the clock starts; one that the reader refuses has 0.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
)

const span = 500 * time.Millisecond

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func read(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		panic(err)
	}
	if data, err = io.ReadAll(z); err != nil {
		panic(err)
	}
	return data
}

func decode(format, path string, data []byte) error {
	if format != "otlp" {
		_, err := profile.ParseData(data)
		return err
	}
	request := pprofileotlp.NewExportRequest()
	if strings.HasSuffix(path, ".json") {
		return request.UnmarshalJSON(data)
	}
	return request.UnmarshalProto(data)
}

func main() {
	for _, path := range os.Args[2:] {
		data := read(path)
		speed := 0.0
		if decode(os.Args[1], path, data) == nil {
			began, runs := cpu(), 0
			for ; cpu()-began < span; runs++ {
				if err := decode(os.Args[1], path, data); err != nil {
					panic(err)
				}
			}
			speed = float64(runs) * float64(len(data)) / (cpu() - began).Seconds()
		}
		fmt.Printf("%s\t%d\t%.0f\n", path, len(data), speed)
	}
}
