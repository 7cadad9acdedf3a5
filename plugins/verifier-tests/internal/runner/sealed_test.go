package runner

import (
	"slices"
	"strings"
	"testing"
)

// Runs of which only the outcomes matter have no tracebacks, whatever the command says of them.
func TestBriefRuns(t *testing.T) {
	for command, want := range map[string]string{
		"pytest -q --tb=long":        "pytest -q --tb=long --tb=no",
		"python3 -m pytest tests":    "python3 -m pytest tests --tb=no",
		"pytest -- -odd":             "pytest -- -odd",
		"python3 -m unittest -v":     "python3 -m unittest -v",
		"node --test --tb=something": "node --test --tb=something",
	} {
		argv := strings.Fields(command)
		briefer, ok := For(argv, Config{}).Driver.(Briefer)
		if !ok {
			t.Errorf("%s: no briefer", command)
			continue
		}
		if got := briefer.Brief(argv); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v", command, got)
		}
	}
}
