package verify

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/jail/container"
	"github.com/stepfall/stepfall/sdk/patch"
	"github.com/stepfall/stepfall/sdk/regular"
)

// Verifier verifies answers by running tests. It is safe for concurrent use.
type Verifier struct {
	config Config
	env    []string
	jail   jail.Walls
	// containers, if not nil, run the command in place of the jail.
	containers *container.Pool
	runner     runner.Runner
	// guard matches the files that answers must not change.
	guard *guard
	slots *semaphore.Weighted
	store *store

	// programs returns the interpreters that the command can start by name.
	programs func() programs
	compiled sync.Map // trees that compileOnce has handled
	// compileFrom is the processor time of the tests on an untouched tree, or without a pre-flight on an answer,
	// from which on its packages are compiled by a separate run, once for all answers. If everything is compiled
	// already, the tests of a small package take a quarter of a second; below the limit there is little to compile.
	compileFrom time.Duration

	mu        sync.Mutex
	preflight map[string]*preflight
}

var _ sdk.Verifier = (*Verifier)(nil)

// New returns a verifier that runs tests in j, or in containers if the configuration says so. c must be valid.
func New(c Config, j jail.Walls) *Verifier {
	c.Command = runner.MoveFolderFlag(c.Command)
	v := &Verifier{
		config: c, env: c.variables(), jail: j, slots: semaphore.NewWeighted(int64(cmp.Or(c.Parallel, runtime.NumCPU()))),
		guard: c.guard(), store: newStore(c.CacheDir), compileFrom: time.Second, preflight: map[string]*preflight{},
	}
	if c.Runtime == "container" {
		v.containers = &container.Pool{Options: container.Options{Command: c.Engine, Image: c.Image, Dir: c.ContainerDir, Runtime: c.OCIRuntime}}
	}
	v.runner = runner.For(c.Command, runner.Config{Report: c.Report, State: c.CacheDir, Foreign: v.containers != nil, Env: v.env, Log: c.Log, MemoryMiB: c.MemoryMiB})
	v.programs = sync.OnceValue(v.findPrograms)
	return v
}

// Verify runs the tests on the query's tree with the answer's edits. It only returns an error when ctx ends.
func (v *Verifier) Verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	start := time.Now()
	verdict, err := v.verify(ctx, req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		verdict = &sdk.Verdict{Outcome: sdk.Inconclusive, Evidence: "the tests could not be run: " + err.Error()}
	}
	verdict.Duration = time.Since(start)
	return verdict, nil
}

func (v *Verifier) verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	query := cmp.Or(req.Query, &sdk.Query{})
	walls, image, err := v.walls(ctx, query)
	if err != nil {
		return nil, err
	}
	layers, missing := walls.Layers()
	if lacks := jail.Lacks(v.config.Require, layers); len(lacks) > 0 {
		evidence := "required isolation is unavailable here: " + strings.Join(lacks, ", ")
		return &sdk.Verdict{Outcome: sdk.Inconclusive, Evidence: evidence, IsolationMissing: missing}, nil
	}
	dir := cmp.Or(query.WorkDir, v.config.WorkDir)
	if dir == "" {
		return nil, errors.New("the query names no work tree, and the configuration none")
	}
	if req.Answer == nil {
		return nil, errors.New("there is no answer")
	}
	t, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	t.walls, t.image = walls, image
	if err := v.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer v.slots.Release(1)

	j := &judgement{way: "tests in process", checks: query.Checks, confidence: v.runner.Confidence, strict: v.config.Log != "", edits: v.config.AllowTestEdits}
	if len(strings.TrimSpace(req.Answer.Text))+len(req.Answer.ToolCalls) == 0 {
		return v.judgeUntouched(ctx, t, j)
	}
	return v.judgeEdits(ctx, t, j, t.findFiles(patch.Within(patch.Parse(req.Answer, v.config.File), v.paths(t, dir)...)))
}

func (v *Verifier) judgeEdits(ctx context.Context, t *tree, j *judgement, edits []patch.Edit) (*sdk.Verdict, error) {
	files, err := patch.Apply(regular.FS(t.root), edits)
	if misfit := (*patch.Error)(nil); errors.As(err, &misfit) {
		return &sdk.Verdict{Outcome: misfit.Outcome(), Evidence: "the answer cannot be applied: " + misfit.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	if j.before, err = v.before(ctx, t); err != nil {
		return nil, err
	}
	if reason := j.before.unusable(j.checks); reason != "" {
		return j.verdict(sdk.Inconclusive, untouched+reason), nil
	}
	deciders := v.decidersOf(t, j.before)
	changes := deciders.allow(files, j)
	a := &attempt{tree: t, changes: changes, guarded: deciders.existing(), isFirst: j.before == nil}
	a.compile = j.before != nil && j.before.result.CPU >= v.compileFrom
	if j.before == nil || j.before.key == "" {
		return v.judge(ctx, a, j)
	}
	return v.judgeOnce(ctx, a, j, files)
}

func (v *Verifier) judgeUntouched(ctx context.Context, t *tree, j *judgement) (_ *sdk.Verdict, err error) {
	if j.before, err = v.before(ctx, t); err != nil {
		return nil, err
	}
	if unknown := v.unknownNames(t, j); len(unknown) > 0 {
		return j.verdict(sdk.Inconclusive, untouched+"there is no test of this name: "+strings.Join(unknown, ", ")), nil
	}
	return j.before.verdict(j), nil
}

// judgeOnce returns the stored verdict if the same changes to such a tree were judged before, and otherwise judges
// and stores it. The verdicts on runs that were stopped or had flaky tests are not stored, since another run may
// differ.
func (v *Verifier) judgeOnce(ctx context.Context, a *attempt, j *judgement, files []patch.File) (*sdk.Verdict, error) {
	key, err := hashOf([]any{j.before.key, files, j.checks, v.config.Reruns, v.config.AllowTestEdits, v.config.Protect})
	if err != nil {
		return nil, err
	}
	verdict := &sdk.Verdict{}
	if v.store.get(key, verdict) {
		return verdict, nil
	}
	verdict, err = v.judge(ctx, a, j)
	if err == nil && verdict.Outcome != sdk.Inconclusive && j.result.End == jail.EndExit && len(j.flaky) == 0 {
		_ = v.store.put(key, verdict) // if that fails, it is judged again
	}
	return verdict, err
}

// paths returns the paths by which an answer may refer to the tree.
func (v *Verifier) paths(t *tree, dir string) []string {
	paths := []string{t.Dir, dir}
	if v.containers != nil {
		paths = append(paths, v.containers.Options.Dir)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// attempt is an answer's changes to a tree, without those that are not allowed.
type attempt struct {
	tree    *tree
	changes []jail.Change
	// guarded are the files that the run must not change.
	guarded []string
	// only, if not nil, are the files whose tests are run.
	only []string
	// compile means that the tree's packages are compiled first, unless they already were. isFirst means that
	// no earlier run has shown whether that pays.
	compile, isFirst bool
	// record is a file that tests write to; see alter.Request.
	record string
	// isBrief means that nothing is needed of the run but which tests fail.
	isBrief bool
}

// walls returns the jail or container engine for a query's tests, and the container's image.
func (v *Verifier) walls(ctx context.Context, query *sdk.Query) (jail.Walls, string, error) {
	if v.containers == nil {
		return v.jail, "", nil
	}
	engine, err := v.containers.For(ctx, query.ID, query.Labels[ImageLabel])
	if err != nil {
		return nil, "", err
	}
	return engine, engine.Image(), nil
}

// ImageLabel is the label of a query that names its own image.
const ImageLabel = "image"

// run plans and runs the command once. Caches are only kept for trusted runs.
func (v *Verifier) run(ctx context.Context, a *attempt, trusted bool) (*runner.Report, *jail.Result, error) {
	t := a.tree
	plan, spec, err := v.planRun(a, trusted)
	if err != nil {
		return nil, nil, err
	}
	if a.compile || !mounts(t.walls) || a.isFirst && plan.Cold() {
		if _, err := v.compileOnce(ctx, t, spec, plan); err != nil {
			return nil, nil, err
		}
	}
	result, err := v.runSpec(ctx, a, spec, plan)
	if err != nil {
		return nil, nil, err
	}
	if len(result.Disturbed) > 0 && len(result.Touched) == 0 { // the tests may have read anything of these
		return nil, nil, errors.New("another process changed files of the tree meanwhile: " + strings.Join(result.Disturbed, ", "))
	}
	if a.isFirst && !trusted && result.CPU >= v.compileFrom {
		if _, err := v.compileOnce(ctx, t, spec, plan); err != nil {
			return nil, nil, err
		}
	}
	a.isFirst = false
	own := *result // without the record, which is not a report of the tests
	own.Reports = maps.Clone(result.Reports)
	delete(own.Reports, a.record)
	return v.runner.Read(plan, &own), result, nil
}

func (v *Verifier) planRun(a *attempt, trusted bool) (*runner.Plan, *jail.Spec, error) {
	command := v.config.Command
	if narrower, ok := v.runner.Driver.(runner.Narrower); ok && a.only != nil {
		command = narrower.Narrow(command, &a.tree.Tree, a.only)
	}
	if briefer, ok := v.runner.Driver.(runner.Briefer); ok && a.isBrief {
		command = briefer.Brief(command)
	}
	plan, err := v.runner.Plan(command, &a.tree.Tree, rand.Text())
	if err != nil {
		return nil, nil, err
	}
	for i := range plan.Caches {
		if !trusted {
			plan.Caches[i].Keep = ""
		}
	}
	spec := v.spec(a.tree, v.config.Command[0], plan)
	spec.Changes = overlay(v.leftOut(a.tree), a.changes, plan.Changes)
	spec.Guarded = slices.Concat(a.guarded, plan.Guarded)
	if a.record != "" {
		spec.Reports = append(slices.Clip(spec.Reports), a.record)
	}
	return plan, spec, nil
}

// runSpec runs a plan, and reruns a first one that timed out.
func (v *Verifier) runSpec(ctx context.Context, a *attempt, spec *jail.Spec, plan *runner.Plan) (*jail.Result, error) {
	result, err := runInTime(ctx, a.tree.walls, spec)
	if err != nil || !a.isFirst || result.End != jail.EndTimeout {
		return result, err
	}
	// It may have spent the time compiling, and nothing of that is kept.
	if isWarm, err := v.compileOnce(ctx, a.tree, spec, plan); err != nil || !isWarm {
		return result, err
	}
	return runInTime(ctx, a.tree.walls, spec)
}

func (v *Verifier) spec(t *tree, program string, plan *runner.Plan) *jail.Spec {
	c, programs, output := &v.config, v.programs(), v.config.OutputKiB<<10
	if v.runner.IsGo { // its events take several times the space of what the tests print
		output *= 8
	}
	return &jail.Spec{
		Dir: t.Dir, Argv: plan.Argv, Changes: plan.Changes, Reports: plan.Reports, Guarded: plan.Guarded, Caches: plan.Caches, Require: c.Require,
		Env:      slices.Concat(jail.ToolEnv(), programs.env, plan.Env, v.env, plan.Last),
		ReadOnly: slices.Concat(jail.SystemPaths(), jail.ToolPaths(program), programs.paths, t.installedFolders(), plan.ReadOnly, c.ReadOnly),
		Limits:   jail.Limits{Wall: c.Timeout, Memory: c.MemoryMiB << 20, Disk: c.DiskMiB << 20, Processes: c.Processes, Output: output},
	}
}

// overlay concatenates the changes. The last change to a file takes the place of the first, and its mode unless it
// has its own.
func overlay(lists ...[]jail.Change) []jail.Change {
	var changes []jail.Change
	places := map[string]int{}
	for _, change := range slices.Concat(lists...) {
		place, known := places[change.Path]
		if !known {
			place, changes = len(changes), append(changes, change)
			places[change.Path] = place
		}
		change.Mode = cmp.Or(change.Mode, changes[place].Mode)
		changes[place] = change
	}
	return changes
}

// leftOut returns the changes that remove files from the view of the tree before the answer's changes: earlier
// versions, in which an answer could read what unaltered tests expect, and files that look like secrets, since what
// tests print becomes evidence that is sent to models.
func (v *Verifier) leftOut(t *tree) []jail.Change {
	names := slices.Clone(t.earlier)
	if !v.config.ShowSecrets {
		names = slices.AppendSeq(names, func(yield func(string) bool) {
			for _, name := range slices.Concat(t.Files, t.links) {
				if jail.LooksSecret(name) && !yield(name) {
					return
				}
			}
		})
	}
	changes := make([]jail.Change, len(names))
	for i, name := range names {
		changes[i] = jail.Change{Path: name, Delete: true}
	}
	return changes
}

// mounts reports whether runs see the machine's caches directly. If nothing can be mounted, they are copied or linked,
// which only pays for what was compiled for such runs.
func mounts(w jail.Walls) bool {
	layers, _ := w.Layers()
	return slices.Contains(layers, jail.LayerMount)
}

// compileOnce compiles a tree's packages, once, and reports whether it did so now. A container has its own caches.
func (v *Verifier) compileOnce(ctx context.Context, t *tree, spec *jail.Spec, plan *runner.Plan) (bool, error) {
	if len(plan.Compile) == 0 || plan.Warm == "" || t.image != "" {
		return false, nil
	}
	if _, done := v.compiled.LoadOrStore(t.Dir+"\x00"+t.hash, true); done {
		return false, nil
	}
	return true, v.compile(ctx, spec, plan)
}

// compile warms the build cache for later runs. Code of a tree that has run could have put anything into a cache, so
// the cache that is kept for other trees is written by a run that only compiles. If it fails, later runs are merely
// slower.
func (v *Verifier) compile(ctx context.Context, spec *jail.Spec, plan *runner.Plan) error {
	warm := *spec
	const enough = 5 * time.Minute // for a slow machine with nothing compiled yet
	warm.Limits.Wall = max(warm.Limits.Wall, enough)
	warm.Argv, warm.Changes, warm.Reports, warm.Guarded = plan.Compile, plan.Changes, nil, nil
	warm.Caches = slices.Clone(spec.Caches)
	warm.Caches[0].Keep = plan.Warm
	_, err := v.jail.Run(ctx, &warm)
	return err
}
