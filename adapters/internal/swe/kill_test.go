package swe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/internal/filelock"
	"github.com/stepfall/stepfall/adapters/internal/suite"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// batchEnv makes the test binary run a batch in the folder that it names, with the models at batchServer.
const (
	batchEnv    = "STEPFALL_TEST_BATCH"
	batchServer = "STEPFALL_TEST_SERVER"
)

// batchTasks selects the batch's tasks: they need one, two or three models, and one remains unsolved.
func batchTasks(t *suite.Task) bool {
	return t.Repo == "ledger" || t.Repo == "mdlite"
}

// runBatch is the process that the test kills.
func runBatch(dir, url string) error {
	ctx := context.Background()
	loaded, err := suite.Load()
	if err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(dir, "tasks.jsonl"))
	if err != nil {
		return err
	}
	defer file.Close()
	list, err := swe.ReadTasks(file)
	if err != nil {
		return err
	}
	journal, err := swe.OpenJournal(filepath.Join(dir, "state", "journal.jsonl"))
	if err != nil {
		return err
	}
	defer journal.Close()
	right := map[string]*suite.Task{}
	for i := range loaded.Tasks {
		right[loaded.Tasks[i].ID] = &loaded.Tasks[i]
	}
	verify := func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if right[req.Query.ID].Right(req.Answer.Model) {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "wrong"}, nil
	}
	setup := swe.Setup{
		Step:   step.Config{Strategy: inOrder{}, Verifiers: []step.Verifier{{Name: "known", Verifier: sdk.VerifierFunc(verify)}}},
		Models: map[string]llms.Model{}, Cost: costOf,
	}
	for _, name := range tasks.Models() {
		model, err := openai.New(openai.WithBaseURL(url), openai.WithToken("none"), openai.WithModel(name))
		if err != nil {
			return err
		}
		setup.Models[name] = model
		setup.Step.Candidates = append(setup.Step.Candidates, step.Candidate{Model: sdk.Model{Name: name, Price: prices[name], MaxOutputTokens: 4096}})
	}
	spend := &swe.Spend{}
	spend.Add(journal.SpentUSD())
	b := swe.Batch{
		Solver: &swe.Solver{Setup: setup, Mode: swe.WholeTrajectory, Spend: spend, Journal: journal, Jail: &swe.Jail{}, TestCommand: []string{"true"}},
		Repos:  filepath.Join(dir, "repos"), Trees: filepath.Join(dir, "state", "trees"),
	}
	for i := range list {
		list[i].TestCommand = nil
	}
	_, err = b.Run(ctx, list)
	return err
}

// journalLine is the part of a record that the test reads.
type journalLine struct {
	Paid    *swe.PaidRecord    `json:"paid"`
	Attempt *swe.AttemptRecord `json:"attempt"`
	Result  *swe.Result        `json:"result"`
}

func TestKilledInALoopLosesNothingAndPaysOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a batch run many times")
	}
	loaded, err := suite.Load()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	list, err := loaded.Materialise(t.Context(), filepath.Join(dir, "repos"))
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	wanted := 0
	for i := range list {
		if batchTasks(&loaded.Tasks[i]) {
			line, err := json.Marshal(list[i])
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
			wanted++
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tasks.jsonl"), []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	script := loaded.Script()
	// The first kill is aimed at an attempt that has paid for a call; the others come by the clock.
	aimed, aim := context.WithCancel(t.Context())
	defer aim()
	server, err := scripted.Start(scripted.Options{Respond: func(ctx context.Context, req *scripted.Request) scripted.Reply {
		if req.Turns() > 0 && aimed.Err() == nil {
			aim()
			<-ctx.Done()
		}
		reply := script(ctx, req)
		reply.Delay = 2 * time.Millisecond
		return reply
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	random := rand.New(rand.NewPCG(7, 7))
	kills := 0
	seen := 0 // finished attempts in the journal: they never get fewer
	longer := 150 * time.Millisecond
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		longer = 60 * time.Millisecond // twice as many kills
	}
	for limit := 40 * time.Millisecond; ; limit += longer {
		ctx, cancel := aimed, aim
		if kills > 0 {
			ctx, cancel = context.WithTimeout(t.Context(), limit/2+rand.N(limit))
		}
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), batchEnv+"="+dir, batchServer+"="+server.URL())
		out, err := cmd.CombinedOutput() // CommandContext kills with SIGKILL
		killed := ctx.Err() != nil
		cancel()
		attempts := len(readJournal(t, dir).attempts)
		if attempts < seen {
			t.Fatalf("the journal had %d attempts and has %d", seen, attempts)
		}
		seen = attempts
		if err == nil {
			break
		}
		if !killed {
			t.Fatalf("the batch failed: %v\n%s", err, out)
		}
		if kills++; kills > 400 {
			t.Fatal("the batch never ends")
		}
		if random.IntN(4) == 0 {
			// What a kill in the middle of a write leaves behind.
			tear(t, dir)
		}
	}
	j := readJournal(t, dir)
	if len(j.results) != wanted {
		t.Errorf("%d results, want %d", len(j.results), wanted)
	}
	sum := 0.0
	for _, r := range j.results {
		sum += r.CostUSD
	}
	paid := 0.0
	for _, a := range j.attempts {
		paid += a.Answer.CostUSD
	}
	if math.Abs(sum-paid) > 1e-9 {
		t.Errorf("results cost %g, attempts %g", sum, paid)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "repos", "ledger", ".git", "worktrees")); len(entries) > 0 {
		t.Errorf("%d work trees are left", len(entries))
	}
	// What attempts cost that were cut off is there besides.
	if j.paid <= paid+1e-9 {
		t.Errorf("calls cost %g, finished attempts %g", j.paid, paid)
	}
	t.Logf("%d kills, %d attempts, %g USD, %g with those cut off", kills, len(j.attempts), paid, j.paid)
}

type journalState struct {
	attempts map[string]swe.AttemptRecord
	results  map[string]swe.Result
	paid     float64
}

// readJournal reads the complete lines, and fails the test on duplicates.
func readJournal(t *testing.T, dir string) journalState {
	t.Helper()
	s := journalState{attempts: map[string]swe.AttemptRecord{}, results: map[string]swe.Result{}}
	data, err := os.ReadFile(filepath.Join(dir, "state", "journal.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return s
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var l journalLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("a damaged line: %v", err)
		}
		if l.Paid != nil {
			s.paid += l.Paid.USD
		}
		if l.Attempt != nil {
			key := fmt.Sprint(l.Attempt.InstanceID, " ", l.Attempt.Key)
			if _, twice := s.attempts[key]; twice {
				t.Errorf("attempt %s was paid for twice", key)
			}
			s.attempts[key] = *l.Attempt
		}
		if l.Result != nil {
			if _, twice := s.results[l.Result.InstanceID]; twice {
				t.Errorf("task %s was finished twice", l.Result.InstanceID)
			}
			s.results[l.Result.InstanceID] = *l.Result
		}
	}
	return s
}

// tear appends a partial record.
func tear(t *testing.T, dir string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, "state", "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(`{"attempt":{"instance_id":"led`); err != nil {
		t.Fatal(err)
	}
}

func TestJournalRefusesASecondRunAndDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := swe.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := swe.OpenJournal(path); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("a second run: %v, want ErrLocked", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{}\nnonsense\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := swe.OpenJournal(path); err == nil || !strings.Contains(err.Error(), "line 2 is damaged") {
		t.Errorf("damage in the middle: %v", err)
	}
}

func TestReadTasks(t *testing.T) {
	for _, text := range []string{
		`{"instance_id":"a__b-1","repo":"a/b","base_commit":"x","problem_statement":"p","FAIL_TO_PASS":"[\"t1\", \"t2\"]","PASS_TO_PASS":["t3"],"hints_text":"ignored"}` + "\n",
		`[{"instance_id":"a__b-1","problem_statement":"p","FAIL_TO_PASS":["t1","t2"],"PASS_TO_PASS":"[\"t3\"]"}]`,
	} {
		list, err := swe.ReadTasks(strings.NewReader(text))
		if err != nil || len(list) != 1 || !slices.Equal(list[0].FailToPass, swe.Names{"t1", "t2"}) || !slices.Equal(list[0].PassToPass, swe.Names{"t3"}) {
			t.Errorf("ReadTasks = %+v, %v", list, err)
		}
	}
	for text, want := range map[string]string{
		"":                              "no tasks",
		"[]":                            "no tasks",
		"{\"instance_id\":\"a\"}\n{x":   "task 2",
		"{\"problem_statement\":\"p\"}": "no instance_id",
		"{\"instance_id\":\"a\"}":       "no problem_statement",
		`{"instance_id":"a","problem_statement":"p"}{"instance_id":"a","problem_statement":"p"}`: "both called a",
		`{"instance_id":"a","problem_statement":"p","FAIL_TO_PASS":7}`:                           "test names",
	} {
		if _, err := swe.ReadTasks(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadTasks(%q) = %v, want %q", text, err, want)
		}
	}
}
