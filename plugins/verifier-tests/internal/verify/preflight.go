package verify

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// preflight is the run on an untouched tree.
type preflight struct {
	// mu is held during the run.
	mu sync.Mutex
	// key is its key in the store, or "".
	key string
	// edits means that answers are allowed to add missing tests.
	edits  bool
	report *runner.Report
	result *jail.Result
	// pruned are the test files without what does not compile or panics on the untouched tree, and rest the report of a
	// run with them: which of the tests in one program with it would pass there.
	pruned []jail.Change
	rest   runner.Report
	// lost are tests that are not in the pruned files and therefore must run once there is an answer.
	lost []string
	// isDeaf means that the command fails in the same way whatever is in the code.
	isDeaf bool
	// lacks is a command that a script does not find, and that can be a function which an answer must add to a
	// sourced file; "" if there is none.
	lacks string
}

const maxPreflights = 256

// before returns the pre-flight of the tree. It runs once for each state of the tree. The result is nil if the
// configuration disables it.
func (v *Verifier) before(ctx context.Context, t *tree) (*preflight, error) {
	if !v.config.Preflight {
		return nil, nil
	}
	key := t.Dir + "\x00" + t.hash + "\x00" + t.image
	v.mu.Lock()
	p := v.preflight[key]
	if p == nil {
		if len(v.preflight) >= maxPreflights {
			clear(v.preflight)
		}
		p = &preflight{edits: v.config.AllowTestEdits}
		v.preflight[key] = p
	}
	v.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.report == nil { // it also has none if an earlier caller's context ended, or the run failed
		if err := v.loadOrRun(ctx, t, p); err != nil {
			p.report, p.pruned, p.rest = nil, nil, runner.Report{}
			return nil, fmt.Errorf("pre-flight: %w", err)
		}
	}
	t.IsHooked = !p.report.IsWhole
	return p, nil
}

// runUntouched runs the command, and once more by its exit code alone if what it runs does not report all of its tests.
func (v *Verifier) runUntouched(ctx context.Context, t *tree, p *preflight) (err error) {
	a := &attempt{tree: t, guarded: v.decidersOf(t, nil).existing(), isFirst: true}
	if t.IsHooked = v.runner.IsExitCode && runner.RunsFramework(v.config.Command, &t.Tree); t.IsHooked {
		a.guarded = append(a.guarded, slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool { return !isCode(file) })...)
	}
	if p.report, p.result, err = v.run(ctx, a, true); err != nil || !t.IsHooked || p.result.End != jail.EndExit {
		return err
	}
	isOwn := func(file string) bool { return t.has(file) && !slices.Contains(p.result.Touched, file) }
	if p.report.IsEntire && !slices.ContainsFunc(p.report.Files, func(file string) bool { return !isOwn(file) }) {
		return nil
	}
	t.IsHooked = false
	p.report, p.result, err = v.run(ctx, &attempt{tree: t, guarded: v.decidersOf(t, nil).existing()}, true)
	return err
}

// loadOrRun loads the pre-flight from the store, or runs and stores it.
func (v *Verifier) loadOrRun(ctx context.Context, t *tree, p *preflight) error {
	run := func() (err error) {
		if err := v.runUntouched(ctx, t, p); err != nil {
			return err
		}
		p.lacks = lackedBy(t, p.report)
		if p.isDeaf, err = v.ignoresCode(ctx, t, p); p.isDeaf || err != nil {
			return err
		}
		return v.runRest(ctx, t, p)
	}
	if v.store == nil {
		return run()
	}
	key, err := v.key(t)
	if err != nil {
		return run() // an unreadable file need not matter for the tests
	}
	// With the lock, a second process waits for the first one's result.
	unlock, err := v.store.lock(ctx, key)
	if err != nil {
		return run() // the store is not writable
	}
	defer unlock()
	p.key = key
	var found storedTree
	if v.store.get(key, &found) && found.Report != nil && found.Result != nil {
		p.report, p.result, p.pruned, p.rest = found.Report, found.Result, found.Pruned, found.Rest
		p.lacks, p.lost = lackedBy(t, p.report), v.lostTests(t, p)
		return nil
	}
	if err := run(); err != nil {
		return err
	}
	if p.result.End != jail.EndExit || len(p.report.Tests) == 0 || p.unusable(sdk.Checks{}) != "" {
		return nil // the cause may be the machine
	}
	// If that fails, the next process runs it again.
	_ = v.store.put(key, &storedTree{p.report, &jail.Result{End: jail.EndExit, ExitCode: p.result.ExitCode, Touched: p.result.Touched, Duration: p.result.Duration, CPU: p.result.CPU}, p.pruned, p.rest})
	return nil
}

// ignoresCode reports whether the command, which ran no test, prints the same if no file of code can be parsed.
func (v *Verifier) ignoresCode(ctx context.Context, t *tree, p *preflight) (bool, error) {
	isRun := p.report.IsWhole || slices.ContainsFunc(p.report.Tests, func(t runner.Test) bool {
		return !hidesTests(t) || strings.TrimSpace(t.Output) == "" || t.Output == "test failed" // which is all that node --test says
	})
	if len(p.report.Tests) == 0 && p.report.Broken == "" || lacksFile.MatchString(p.report.Broken) || isRun || p.result.End != jail.EndExit {
		return false, nil
	}
	if misused.MatchString(p.report.Broken) {
		return true, nil
	}
	a := &attempt{tree: t}
	for _, file := range t.Files {
		if isCode(file) && !ofFrameworks.has(file) {
			a.changes = append(a.changes, jail.Change{Path: file, Data: []byte(unparsable)})
		}
	}
	broken, _, err := v.run(ctx, a, false)
	return err == nil && failuresOf(broken) == failuresOf(p.report), err
}

// failuresOf returns all that failed and why, without what differs in each run.
func failuresOf(report *runner.Report) string {
	all := []string{report.Broken}
	for _, test := range report.Tests {
		all = append(all, test.ID()+"\n"+test.Output)
	}
	slices.Sort(all) // files can end in any order
	return plain(strings.Join(all, "\n"))
}

// ofFrameworks matches code by which a framework starts. What is installed in the tree is often among it.
var ofFrameworks = newGuard(strings.Fields("*.config.* **/node_modules/** **/.venv/** **/venv/** **/vendor/** **/site-packages/**"))

// lacksFile matches messages about a file that an answer may have to add.
var lacksFile = regexp.MustCompile(`(?i)no rule to make target|can(?:'|no)t find|(?:could not|failed to) resolve|no such file`)

// misused matches what pytest says of its options and settings, of some only after it has collected tests.
var misused = regexp.MustCompile(`(?m)^ERROR: (?:usage|Unknown config option): `)

// unparsable is a syntax error in every language.
const unparsable = "\n)(\n"

// runRest runs the tests that did not run on the untouched tree because others in their program use what it lacks, or
// panic.
// If they cannot be separated in a few rounds, all of them count as failed.
func (v *Verifier) runRest(ctx context.Context, t *tree, p *preflight) error {
	pruner, ok := v.runner.Driver.(runner.Pruner)
	const rounds = 10
	for last, i := p.report, 0; ok && i < rounds; i++ {
		changes := pruner.Prune(last, t.Files, func(file string) ([]byte, error) {
			if at := slices.IndexFunc(p.pruned, func(c jail.Change) bool { return c.Path == file }); at >= 0 {
				return p.pruned[at].Data, nil
			}
			return t.read(file)
		})
		if len(changes) == 0 {
			break
		}
		p.pruned = overlay(p.pruned, changes)
		a := &attempt{tree: t, changes: p.pruned}
		for _, change := range p.pruned {
			a.only = append(a.only, change.Path)
		}
		var err error
		if last, _, err = v.run(ctx, a, false); err != nil {
			return err
		}
		p.rest = *last
	}
	p.lost = v.lostTests(t, p)
	return nil
}

// testFunctions matches the tests in a file of Go or Python.
var testFunctions = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(\w+ \*testing\.[TF]\)|^(?:async )?def (test\w*)\(`)

// fixtures matches those of pytest, whose names can begin as those of tests.
var fixtures = regexp.MustCompile(`(?m)^@(?:\w+\.)*fixture\b(?:.*\n)*?(?:async )?def \w+\(`)

// selects matches words of commands that select tests by name.
var selects = regexp.MustCompile(`^--?(?:test\.)?(?:run|skip)\b|^--test-(?:name-pattern|skip-pattern|only)|^--deselect|^-k|::`)

// lostTests returns the tests that were pruned from files whose other tests ran, unless the command selects tests.
func (v *Verifier) lostTests(t *tree, p *preflight) (lost []string) {
	names := func(text []byte) (names []string) {
		for _, found := range testFunctions.FindAllSubmatch(fixtures.ReplaceAll(text, nil), -1) {
			names = append(names, string(found[1])+string(found[2]))
		}
		return names
	}
	if slices.ContainsFunc(v.config.Command, selects.MatchString) {
		return nil
	}
	for _, change := range p.pruned {
		before, _ := t.read(change.Path) // it was read to be pruned
		kept := names(change.Data)
		isAway := func(name string) bool { return len(p.rest.Find(name)) == 0 }
		if slices.ContainsFunc(kept, isAway) || len(kept) == 0 && len(p.rest.Tests) == 0 {
			continue
		}
		for _, name := range names(before) {
			if !slices.Contains(kept, name) {
				lost = append(lost, name)
			}
		}
	}
	return lost
}

// Messages of shells about a missing command, and lines with which a script sources another.
var (
	notFound = regexp.MustCompile(`(?m)^\S+: (?:line )?\d+: ([\w.-]+): (?:command )?not found$`)
	takesIn  = regexp.MustCompile(`(?m)^\s*(?:\.|source)\s+\S`)
)

// lackedBy returns the command that a script did not find, if scripts of the tree source others.
func lackedBy(t *tree, report *runner.Report) string {
	found := notFound.FindStringSubmatch(report.FirstFailure())
	if found == nil || !takesIn.Match(t.textOf(slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool { return alter.Language(file) != "sh" }))) {
		return ""
	}
	return found[1]
}

// refused matches messages of a command that cannot write where it runs, because of its user or a read-only mount,
// that would have to download something, or that has no toolchain.
var refused = regexp.MustCompile(`(?im)permission denied|read-only file system|(in|for) offline mode|could not create local repository|^error: (rustup could not|toolchain '.*' is not installed|no override and no default toolchain)`)

// crashed matches messages of Surefire about the JVM in which tests run.
var crashed = regexp.MustCompile(`(?m)Error occurred in starting fork|The forked VM terminated|^(\[ERROR\] )?Crashed tests:`)

// absent matches messages of a command that does not find the tests that it has to run.
var absent = regexp.MustCompile(`(?m)^Could not find '|^ERROR: file or directory not found: `)

// unusable returns the reason why the tests are no evidence about any answer, or "".
func (p *preflight) unusable(checks sdk.Checks) string {
	if p == nil {
		return ""
	}
	solved := slices.DeleteFunc(slices.Clone(checks.FailToPass), func(name string) bool {
		return runner.Worst(p.report.Find(name)) != runner.Pass
	})
	broken, code := p.report.Broken, p.result.ExitCode
	for _, one := range []struct {
		isSo bool
		why  string
	}{
		{p.result.End == jail.EndTimeout, "the run timed out: raise timeout; run the tests once outside, so that their toolchain has compiled what they need; or, if what must be fixed makes a test hang, give each a limit, such as --test-timeout=10000 of node --test"},
		{p.result.End != jail.EndExit, "the run ended by " + string(p.result.End)},
		{p.lacks == "" && slices.Contains([]int{126, 127}, code), "the command cannot be run: " + cmp.Or(broken, p.report.FirstFailure())},
		{p.lacks == "" && p.report.Unfit != "", "the command cannot test it: " + p.report.Unfit},
		{len(p.report.Tests) == 0 && crashed.MatchString(broken), "the process of the tests crashes or does not start there (if for want of memory, raise memory_mib): " + broken},
		{refused.MatchString(broken), "the command is denied what it needs: " + broken},
		{!p.edits && absent.MatchString(broken), "the command does not find its tests (without a shell, it takes files and folders, and no patterns): " + broken},
		{p.isDeaf && !p.edits, "the command fails before it reads any code: " + cmp.Or(broken, p.report.FirstFailure())},
		{len(solved) > 0 && len(solved) == len(checks.FailToPass), "every test that should fail there passes: " + strings.Join(solved, ", ")},
	} {
		if one.isSo {
			return one.why
		}
	}
	return ""
}

// thrown matches the last line of a traceback.
var thrown = regexp.MustCompile(`\b\w+(?:Error|Exception): \S.*`)

// verdict returns the verdict on an answer that changes nothing: it has failed, with the score and evidence of the
// untouched tree.
func (p *preflight) verdict(j *judgement) *sdk.Verdict {
	if p == nil {
		return j.verdict(sdk.Failed, "nothing is changed")
	}
	j.result = p.result
	j.readBy(p.report)
	if reason := p.unusable(j.checks); reason != "" {
		return j.verdict(sdk.Inconclusive, untouched+reason)
	}
	if p.report.Broken != "" {
		return j.verdict(sdk.Failed, "nothing is changed, and on the untouched tree the tests do not run:\n"+p.report.Broken)
	}
	count := map[runner.Status]int{}
	for _, test := range p.report.Tests {
		count[test.Status]++
	}
	passed, total := count[runner.Pass], count[runner.Pass]+count[runner.Fail]
	evidence := fmt.Sprintf("%d of %d tests pass on the untouched tree", passed, total)
	if found := thrown.FindAllString(p.report.FirstFailure(), -1); passed == 0 && len(found) > 0 {
		evidence += ": " + found[len(found)-1]
	}
	return j.testVerdict(sdk.Failed, evidence, passed, total)
}

// untouched begins the evidence if the pre-flight is unusable.
const untouched = "the tests cannot judge on the untouched tree: "

// passes reports whether a test passes on the untouched tree.
func (p *preflight) passes(t runner.Test) bool {
	return slices.ContainsFunc([]*runner.Report{p.report, &p.rest}, func(r *runner.Report) bool {
		return runner.Worst(r.Find(t.ID())) == runner.Pass
	})
}

// failsBefore reports whether a test is known to fail on the untouched tree, by any name that a check gives it.
func (p *preflight) failsBefore(name string) bool {
	return p != nil && runner.Worst(p.report.Find(name)) == runner.Fail
}
