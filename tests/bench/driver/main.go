// SPDX-License-Identifier: Apache-2.0

// driver loads and queries any server that speaks Pyroscope's public API, and says what that cost the server.
// docs/benchmarks.md has the usage.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

func main() {
	commands := map[string]func([]string) error{"load": runLoad, "query": runQuery, "stat": runStat, "profile": runProfile}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: driver load|query|stat|profile [flags]   (-h after the command lists them)")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

// runStat counts the files and bytes under a data directory, by the first -depth folders, and shows CPU and memory of -pids.
func runStat(args []string) error {
	fl := flag.NewFlagSet("stat", flag.ExitOnError)
	depth := fl.Int("depth", 2, "folders to tell apart")
	pidList := fl.String("pids", "", "processes to show")
	fl.Parse(args)
	server, err := parsePIDs(*pidList)
	if err != nil {
		return err
	}
	type tally struct{ files, bytes int64 }
	for _, dir := range fl.Args() {
		groups := map[string]*tally{}
		add := func(k string, n int64) {
			if groups[k] == nil {
				groups[k] = &tally{}
			}
			groups[k].files++
			groups[k].bytes += n
		}
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // files come and go while the server compacts
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			rel, _ := filepath.Rel(dir, filepath.Dir(p))
			parts := strings.Split(rel, string(filepath.Separator))
			add(strings.Join(parts[:min(len(parts), *depth)], "/"), info.Size())
			add("~all", info.Size())
			return nil
		})
		if err != nil {
			return err
		}
		var keys []string
		for k := range groups {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			fmt.Printf("%s\t%d files\t%d bytes\n", k, groups[k].files, groups[k].bytes)
		}
	}
	if len(server) > 0 {
		rss, peak := server.memory()
		r, w := server.io()
		fmt.Printf("cpu_s\t%.2f\nRSS_MB\t%.0f\npeak_RSS_MB\t%.0f\nread_MB\t%.0f\nwritten_MB\t%.0f\n", server.cpu(), rss, peak, r, w)
	}
	return nil
}
