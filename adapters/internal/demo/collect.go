package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// half is every other task: what the one teaches is tried on the other.
type half struct {
	tasks []int // into Options.Tasks
	// outcomes are those of the half's tasks with an outcome of every model.
	outcomes *outcome.Table
}

// collect asks every model about every task, one half after the other.
func (d *demo) collect(ctx context.Context) ([2]half, error) {
	var halves [2]half
	for i := range d.o.Tasks {
		halves[i%2].tasks = append(halves[i%2].tasks, i)
	}
	judged, fault := 0, "no verifier was asked"
	for h := range halves {
		sum, err := d.ask(ctx, &halves[h], filepath.Join(d.work, fmt.Sprintf("outcomes-%d.jsonl", h+1)))
		judged += sum.New
		if len(sum.Faults) > 0 {
			fault = sum.Faults[0]
		}
		if ctx.Err() != nil {
			return halves, ctx.Err()
		}
		if err != nil && !errors.Is(err, collect.ErrWasted) {
			return halves, err
		}
		if judged == 0 {
			break
		}
	}
	if judged == 0 {
		_, why, _ := strings.Cut(fault, "inconclusive: ")
		if why == "" {
			why = fault
		}
		return halves, fmt.Errorf("no verdict could be had on any task, so there is nothing to compare: %s", why)
	}
	return halves, nil
}

// ask collects the outcomes of one half.
func (d *demo) ask(ctx context.Context, h *half, file string) (collect.Summary, error) {
	list := make([]collect.Task, len(h.tasks))
	for k, i := range h.tasks {
		t := &d.o.Tasks[i]
		list[k] = collect.Task{QueryID: t.Name, Group: t.Group(), Prompt: t.Prompt(), WorkDir: d.folder(i)}
	}
	parallel := d.o.Parallel
	if parallel == 0 {
		parallel = 2
	}
	var mu sync.Mutex
	told := 0
	sum, err := collect.Run(ctx, collect.Options{
		Policy: d.policy, Tasks: list, Out: file, Parallel: parallel, Router: router.Options{Plugins: d.plugins, Logger: d.o.Logger, Transport: d.asked},
		Progress: func(s collect.Summary) {
			mu.Lock()
			defer mu.Unlock()
			for ; told < s.New+s.Failed && d.o.Collected != nil; told++ {
				d.o.Collected(s.SpentUSD)
			}
		},
	})
	if sum.New == 0 {
		return sum, err
	}
	table, readErr := outcome.Open(file, outcome.Options{Verified: true})
	if readErr == nil {
		table, readErr = table.Select(d.report.Models...)
	}
	if readErr != nil {
		return sum, errors.Join(err, readErr)
	}
	// The file has them in the order in which they came; the same tasks give the same fit.
	var rows []int
	for _, t := range list {
		if row := slices.Index(table.Queries, t.QueryID); row >= 0 {
			rows = append(rows, row)
		}
	}
	h.outcomes = table.Rows(rows).Complete()
	return sum, err
}
