package agents

import (
	"bytes"
	"flag"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

var (
	measured = flag.Bool("measure", false, "measure the roads")
	out      = flag.String("out", "", "write the page to this file; it is logged when empty")
	only     = flag.String("road", "", "measure only roads whose name contains this, beside the first")
	tasksOf  = flag.Int("tasks", 120, "tasks of each agent")
	isReal   = flag.Bool("real", false, "ask the models that the policies name, with the keys of the environment")
)

// TestMeasureRoads runs the agents on every documented road, and writes the page of results. "make agents" calls it.
func TestMeasureRoads(t *testing.T) {
	if !*measured {
		t.Skip("make agents measures")
	}
	start := time.Now()
	bench := open(t, *tasksOf)
	bench.Real = *isReal
	var roads []Road
	for i, road := range Roads(*isReal) {
		if i == 0 || strings.Contains(road.Name, *only) {
			roads = append(roads, road)
		}
	}
	rows := make([]*Row, len(roads))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, road := range roads {
		group.Go(func() (err error) {
			rows[i], err = bench.Measure(ctx, road)
			t.Logf("%s: %v", road.Name, time.Since(start).Round(time.Second))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := bench.Page(t.Context(), &page, rows); err != nil {
		t.Fatal(err)
	}
	if *out == "" {
		t.Logf("\n%s", page.String())
		return
	}
	if err := os.WriteFile(*out, page.Bytes(), 0o644); err != nil { //nolint:gosec // a page of the documentation
		t.Fatal(err)
	}
}
