package runner

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

// TestHarness compares the parsed logs with the results of SWE-bench's own harness on the same logs, which
// testdata/harness/golden.py collected.
func TestHarness(t *testing.T) {
	data, err := os.ReadFile("testdata/harness/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]struct {
		Format                   string
		Status                   map[string]string
		Asked                    []string
		FailToPass               []string `json:"fail_to_pass"`
		PassToPass               []string `json:"pass_to_pass"`
		ResolvedAlthoughItFailed []string `json:"resolved_although_it_failed"`
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	formats := map[string]bool{"unittest": true} // which the harness does not have
	for name, want := range golden {
		formats[want.Format] = true
		t.Run(name, func(t *testing.T) {
			log, err := os.ReadFile(filepath.Join("testdata/harness", name))
			if err != nil {
				t.Fatal(err)
			}
			r := &logFile{format: want.Format}
			report := r.Read(nil, &jail.Result{Stdout: log})
			if got, want := len(report.Tests), len(want.Status); got != want {
				t.Errorf("%d tests, the harness read %d: %v", got, want, report.Tests)
			}
			for _, test := range report.Tests {
				status, known := want.Status[test.Name]
				if !known || logWords[status] != test.Status {
					t.Errorf("%q has %v, the harness says %q", test.Name, test.Status, status)
				}
			}
			failing := r.Read(nil, &jail.Result{Stdout: log, ExitCode: 1})
			for _, name := range want.Asked {
				// Where a line begins with a word that is none (PASSEDx), the harness has the
				// test neither passed nor failed, and forgets it. Here it has not passed.
				_, read := want.Status[name]
				if _, word := logWords[want.Status[name]]; read && !word {
					if status, _ := report.Status(name); status != Missing {
						t.Errorf("%q is %v", name, status)
					}
					continue
				}
				status, _ := report.Status(name)
				if got, want := status == Pass, slices.Contains(want.FailToPass, name); got != want {
					t.Errorf("fail to pass: %q is %v, of the harness %v", name, got, want)
				}
				if got, want := status == Pass || status == Skip, slices.Contains(want.PassToPass, name); got != want {
					t.Errorf("pass to pass: %q is %v, of the harness %v", name, got, want)
				}
				status, _ = failing.Status(name)
				got := len(failing.Tampering) == 0 && status == Pass
				if want := slices.Contains(want.ResolvedAlthoughItFailed, name); got != want {
					t.Errorf("%q in a log of a command that failed: %v, of the harness %v", name, got, want)
				}
			}
		})
	}
	for _, format := range slices.Sorted(maps.Keys(logReaders)) {
		if !formats[format] {
			t.Errorf("no log of the format %s", format)
		}
	}
	if bare := ReadLog("no such format", strings.Repeat("PASSED a\n", 3)); bare != nil {
		t.Errorf("an unknown format has tests: %v", bare)
	}
}
