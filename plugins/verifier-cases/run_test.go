package main

import (
	"context"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-cases/internal/cases"
	"github.com/stepfall/stepfall/sdk/jail"
)

type slowSandbox struct{}

func (slowSandbox) Layers() ([]string, map[string]string) { return nil, nil }

func (slowSandbox) Run(context.Context, *jail.Spec) (*jail.Result, error) {
	return &jail.Result{End: jail.EndTimeout}, nil
}

func TestFailuresLeaveAllSlotsFree(t *testing.T) {
	v := &verifier{config: Config{Command: []string{"program"}}, slots: make(chan struct{}, 4)}
	for range 200 {
		r := &run{v: v, walls: slowSandbox{}, dir: t.TempDir()}
		if _, err := r.cases(t.Context(), make([]cases.Case, 20)); err != nil {
			t.Fatal(err)
		}
		if n := len(v.slots); n > 0 {
			t.Fatalf("%d slots are still taken", n)
		}
	}
}
