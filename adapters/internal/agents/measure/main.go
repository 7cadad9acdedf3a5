// Command measure runs three agents with tools by every road that the documentation
// shows, and writes the page of results. `make agents` calls it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/agents"
	"github.com/stepfall/stepfall/sdk/jail"
)

func main() {
	jail.Main()
	out := flag.String("out", "", "write the page to this file; standard output when empty")
	only := flag.String("road", "", "measure only roads whose name contains this")
	tasks := flag.Int("tasks", 120, "tasks of each agent")
	isReal := flag.Bool("real", false, "ask the models that the policies name, with the keys of the environment")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, *only, *tasks, *isReal); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, only string, tasks int, isReal bool) (err error) {
	start := time.Now()
	bench, done, err := agents.Open(ctx, tasks)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	bench.Real = isReal
	var roads []agents.Road
	for i, road := range agents.Roads(isReal) {
		if i == 0 || strings.Contains(road.Name, only) {
			roads = append(roads, road)
		}
	}
	rows := make([]*agents.Row, len(roads))
	failed := make([]error, len(roads))
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, road := range roads {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i], failed[i] = bench.Measure(ctx, road)
			fmt.Fprintf(os.Stderr, "%s: %v\n", road.Name, time.Since(start).Round(time.Second))
		})
	}
	wait.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := bench.Page(ctx, &page, rows); err != nil {
		return err
	}
	if out == "" {
		_, err = os.Stdout.Write(page.Bytes())
		return err
	}
	return os.WriteFile(out, page.Bytes(), 0o644) //nolint:gosec // a page of the documentation
}
