package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/programs"
)

const (
	// chaosRows is who the workers' calls are for, in the upstream's bill.
	chaosRows = "rows"
	// chaosJobCap is the cap of the collection, above what its rows cost without havoc.
	chaosJobCap = 4
)

// chaosJobs is a collection on two workers while everything is killed, including its own command.
type chaosJobs struct {
	workers []*service
	args    []string
	out     string
	rows    int
	kills   int
	// stopDetail says that the command came to its own end, with what it printed.
	ended bool
	said  string
}

// newChaosJobs starts the workers.
func newChaosJobs(t *testing.T, dir, database, policy string) *chaosJobs {
	t.Helper()
	t.Setenv("STEPFALL_PLUGIN_PATH", programs.Build(t, "verifier-schema"))
	judged := filepath.Join(dir, "judged.hcl")
	text := fmt.Sprintf("include = [%q]\nverifier \"json\" {\n  plugin = \"verifier-schema\"\n  config {\n    schema   = { type = \"object\" }\n    may_pass = true\n  }\n}\n", filepath.Base(policy))
	if err := os.WriteFile(judged, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// Four a second are more than there is time for; what is left is done at the end.
	j := &chaosJobs{out: filepath.Join(dir, "outcomes.jsonl"), rows: 4 * int(max(30, chaosTime.Seconds()))}
	var tasks bytes.Buffer
	for i := range j.rows {
		fmt.Fprintf(&tasks, `{"query_id": "q%d", "prompt": "Is tenant %s right? row=%d."}`+"\n", i, chaosRows, i)
	}
	list := filepath.Join(dir, "tasks.jsonl")
	if err := os.WriteFile(list, tasks.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	j.args = []string{
		"collect", "--policy", judged, "--tasks", list, "--out", j.out, "--cap", strconv.Itoa(chaosJobCap), "--queue", database, "--parallel", "50",
	}
	for i := range 2 {
		w := &service{args: []string{
			"worker", "--queue", database, "--cache", filepath.Join(dir, "cache"), "--name", fmt.Sprintf("w%d", i), "--work", "collect=4,verify=2", "--log", "error", "--grace", "2s",
		}}
		if !w.start(t) {
			t.Fatalf("a worker does not start: %s", w.log)
		}
		j.workers = append(j.workers, w)
	}
	return j
}

func (j *chaosJobs) command(ctx context.Context, out *bytes.Buffer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], j.args...)
	cmd.Args[0] = "stepfall"
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// collect runs the command, kills it every ten seconds and restarts it, until ctx ends.
func (j *chaosJobs) collect(ctx context.Context, _ *testing.T) <-chan bool {
	over := make(chan bool)
	go func() {
		defer close(over)
		for ctx.Err() == nil && !j.ended {
			short, cancel := context.WithTimeout(ctx, 10*time.Second)
			var out bytes.Buffer
			err := j.command(short, &out).Run()
			if short.Err() == nil {
				j.ended, j.said = err == nil, out.String()
			} else {
				j.kills++
			}
			cancel()
		}
	}()
	return over
}

// finish lets the command finish without further kills.
func (j *chaosJobs) finish(t *testing.T) {
	t.Helper()
	for _, w := range j.workers {
		for w.address() == "" && !w.start(t) {
			w.kill(syscall.SIGKILL)
		}
	}
	for try := 0; try < 2 && !j.ended; try++ {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		var out bytes.Buffer
		err := j.command(ctx, &out).Run()
		cancel()
		j.ended, j.said = err == nil, out.String()
	}
	if !j.ended {
		t.Errorf("the collection does not come to its end: %s", j.said)
	}
}

// judge: every row exists once, the upstream's bill is within the cap, and what was paid for but is not in the file
// are calls in flight during a kill.
func (j *chaosJobs) judge(t *testing.T, u *upstream) {
	t.Helper()
	text, err := os.ReadFile(j.out)
	if err != nil {
		t.Fatal(err)
	}
	seen, workers := map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		var row struct {
			Query  string `json:"query_id"`
			Worker string `json:"worker"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		seen[row.Query]++
		workers[regexp.MustCompile(`^w\d`).FindString(row.Worker)]++
	}
	twice := 0
	for _, n := range seen {
		if n > 1 {
			twice++
		}
	}
	if len(seen) != j.rows || twice > 0 {
		t.Errorf("%d of %d rows came, %d more than once", len(seen), j.rows, twice)
	}
	if bill := u.bill[chaosRows]; bill > chaosJobCap {
		t.Errorf("the workers were billed %.4f under a cap of %d", bill, chaosJobCap)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	calls, again := 0, 0
	for _, n := range u.rows {
		calls += n
		again += n - 1
	}
	t.Logf("%d rows by workers %v: %d calls, %d of them for rows that were asked before; command killed %d times; billed %.4f of %d", len(seen), workers, calls, again, j.kills, u.bill[chaosRows], chaosJobCap)
	if len(workers) < 2 {
		t.Errorf("not both workers did something: %v", workers)
	}
}
