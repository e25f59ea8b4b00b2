// SPDX-License-Identifier: Apache-2.0

package main

// What the server costs: CPU time and memory of its processes, read from /proc.

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const hertz = 100 // USER_HZ, fixed at 100 on Linux

type pids []int

func parsePIDs(s string) (pids, error) {
	var out pids
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("-pids: %w", err)
		}
		out = append(out, n)
	}
	return out, nil
}

// cpu is utime+stime in seconds, summed over the processes; a process that is gone counts nothing.
func (p pids) cpu() float64 {
	var sum uint64
	for _, pid := range p {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		s := string(b)
		f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:]) // f[0] is field 3 of proc(5)
		if len(f) < 13 {
			continue
		}
		u, _ := strconv.ParseUint(f[11], 10, 64)
		k, _ := strconv.ParseUint(f[12], 10, 64)
		sum += u + k
	}
	return float64(sum) / hertz
}

// memory sums VmRSS and VmHWM (the peak), in MB of 1e6 bytes.
func (p pids) memory() (rss, peak float64) {
	for _, pid := range p {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for _, l := range strings.Split(string(b), "\n") {
			var kb float64
			if _, err := fmt.Sscanf(l, "VmRSS: %f kB", &kb); err == nil {
				rss += kb * 1024 / 1e6
			}
			if _, err := fmt.Sscanf(l, "VmHWM: %f kB", &kb); err == nil {
				peak += kb * 1024 / 1e6
			}
		}
	}
	return
}

// resetPeak makes VmHWM start again from the present RSS.
func (p pids) resetPeak() {
	for _, pid := range p {
		os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	}
}

// io sums the bytes the processes caused to be written to and read from storage.
func (p pids) io() (read, written float64) {
	for _, pid := range p {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		for _, l := range strings.Split(string(b), "\n") {
			var n float64
			if _, err := fmt.Sscanf(l, "rchar: %f", &n); err == nil {
				read += n / 1e6
			}
			if _, err := fmt.Sscanf(l, "wchar: %f", &n); err == nil {
				written += n / 1e6
			}
		}
	}
	return
}

func ownCPU() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
