package jail

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Jail runs commands with the isolation layers that the machine supports. It is safe for concurrent
// use.
type Jail struct {
	self string
	temp string
	// namespaces are available; userNamespace: by way of a user namespace.
	namespaces, userNamespace bool
	// asNobody means that commands run with another uid, because the program runs as root.
	asNobody bool
	groups   *hierarchy
	layers   []string
	missing  map[string]string
	// before has the usage of trees before the first run in them, by their paths.
	before sync.Map
}

// overheadLimit is the time allowed besides the command's: for copying a tree, if needed, and returning
// files.
const overheadLimit = time.Minute

var errTooLong = errors.New("the run timed out")

// errNoMain keeps a program from starting itself endlessly.
var errNoMain = errors.New("the program does not call jail.Main before anything else")

// probeTimeout limits a probe, which takes milliseconds.
const probeTimeout = 10 * time.Second

// nobodyUID is the uid of commands if the program runs as root and the user namespace has few uids.
const nobodyUID = 65534

// unusedUID returns a random high uid if the user namespace has them: the kernel counts processes by
// uid, and runs must not use up each other's limit.
func unusedUID() int {
	const first, many = 0x60000000, 0x0fffffff
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nobodyUID
	}
	var inside, outside, count int64
	if n, _ := fmt.Sscan(string(data), &inside, &outside, &count); n != 3 || inside > first || inside+count < first+many {
		return nobodyUID
	}
	return first + rand.IntN(many)
}

// Open probes the machine, and removes the temporary directories that killed runs left behind.
func Open(ctx context.Context, options Options) (*Jail, error) {
	if !mainCalled.Load() {
		return nil, errNoMain
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the own program: %w", err)
	}
	j := &Jail{self: self, temp: cmp.Or(options.Temp, os.TempDir()), missing: map[string]string{}}
	removeStale(j.temp)
	noGroup := error(nil)
	if j.groups, noGroup = findHierarchy(); noGroup != nil {
		j.missing[LayerCgroup] = noGroup.Error()
	}
	root := os.Getuid() == 0
	ways := []struct{ namespaces, userNamespace, asNobody bool }{
		{namespaces: true, asNobody: true},
		{namespaces: true, userNamespace: true},
		// Another uid could not read toolchains in root's home, so commands stay root; dropping its
		// capabilities takes root's powers away.
		{},
	}
	refused := errors.New("disabled")
	for _, way := range ways {
		if way.asNobody && !root || way.namespaces && options.NoNamespaces {
			continue
		}
		j.namespaces, j.userNamespace, j.asNobody = way.namespaces, way.userNamespace, way.asNobody
		result, err := j.probe(ctx)
		if err != nil && !way.namespaces {
			return nil, fmt.Errorf("probing: %w", err)
		}
		if err != nil {
			refused = err
			continue
		}
		if !way.namespaces {
			for _, layer := range []string{LayerUser, LayerPID, LayerMount, LayerIPC} {
				result.Missing[layer] = refused.Error()
			}
		}
		j.layers, j.missing = result.Layers, result.Missing
		break
	}
	return j, nil
}

// probe does a complete run on a small tree: the layers are useless if the command cannot access its
// files or change its uid.
func (j *Jail) probe(ctx context.Context) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	o := &order{Probe: true, Spec: Spec{
		Argv: []string{j.self}, Env: []string{"PATH=/usr/bin:/bin", exitAtOnce},
		ReadOnly: []string{"/usr", "/lib", "/lib64", "/bin", j.self},
		Caches:   []Cache{{Path: "/tmp/cache", Files: map[string][]byte{"file": nil}}},
	}}
	if dir, release, err := newTemp(j.temp); err == nil {
		defer release()
		o.Dir = filepath.Join(dir, "tree")
		if err := errors.Join(os.Mkdir(o.Dir, 0o700), os.WriteFile(filepath.Join(o.Dir, "private"), nil, 0o600)); err != nil {
			return nil, err
		}
		o.Changes = []Change{{Path: "folder/file", Data: []byte("new")}}
	}
	result, err := j.start(ctx, o)
	if err != nil {
		return nil, err
	}
	if result.End != EndExit || result.ExitCode != 0 {
		return nil, fmt.Errorf("a command failed (%s, %d): %s", result.End, result.ExitCode, bytes.TrimSpace(result.Stderr))
	}
	return result, nil
}

// Layers returns the layers that were active in the probe, and the others with the reason.
func (j *Jail) Layers() ([]string, map[string]string) { return j.layers, j.missing }

// Run runs one command to its end. An error means that the command could not be run at all, or that ctx
// ended; everything else is in the result.
func (j *Jail) Run(ctx context.Context, spec *Spec) (*Result, error) {
	return j.start(ctx, &order{Spec: *spec})
}

func (j *Jail) start(ctx context.Context, o *order) (*Result, error) {
	begin := time.Now()
	release, err := j.complete(o)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The work before and after the command is limited as well.
	defer time.AfterFunc(o.Limits.Wall+overheadLimit, func() { cancel(errTooLong) }).Stop()
	p, err := openPipes()
	if err != nil {
		return nil, err
	}
	defer p.close()
	tooMuch := func() { cancel(errTooMuchOutput) }
	stdout := &Output{Limit: o.Limits.Output, Full: tooMuch}
	stderr := &Output{Limit: o.Limits.Output, Full: tooMuch}
	command := exec.CommandContext(ctx, j.self)
	command.Args = []string{helperName}
	command.Env = []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=256MiB", exitAtOnce}
	command.Stdout, command.Stderr = stdout, stderr
	if o.CombineOutput {
		command.Stderr = stdout
	}
	command.ExtraFiles = p.childEnds()
	command.WaitDelay = 10 * time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	j.unshare(command.SysProcAttr, o)
	if j.namespaces {
		command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	} else {
		// Closing its pipe makes the first process kill its run, which it could not do if it were killed.
		command.Cancel = p.orders.Close
	}
	// The kernel sends the parent-death signal when the thread that started the process exits, so this
	// goroutine keeps its thread until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	group, noGroup, err := j.launch(command, o)
	if err != nil {
		return nil, err
	}
	defer group.end()
	r, said := p.exchange(o)
	if said != nil && ctx.Err() == nil {
		cancel(said)
	}
	waited := command.Wait()
	result := &r.Result
	result.Stdout, result.Stderr, result.Truncated = stdout.Bytes(), stderr.Bytes(), stdout.Truncated() || stderr.Truncated()
	result.Duration = time.Since(begin)
	if state := command.ProcessState; state != nil {
		result.CPU = state.UserTime() + state.SystemTime()
	}
	result.Layers, result.Missing = j.layersOf(r, noGroup)
	if err := j.setEnd(ctx, o, r, said, waited); err != nil {
		return nil, err
	}
	if group.ranOutOfMemory() {
		result.End = EndMemory
	}
	return result, nil
}

// complete fills in an order's limits, uid, previous usage and temporary directory, which release removes.
func (j *Jail) complete(o *order) (release func(), err error) {
	o.Limits = o.Limits.WithDefaults()
	o.Namespaces, o.UserNamespace, o.UID, o.GID = j.namespaces, j.userNamespace, -1, -1
	if j.asNobody && !o.InPlace {
		o.UID = unusedUID()
		o.GID = o.UID
	}
	if o.InPlace {
		dirs := append([]string{o.Dir}, o.Writable...)
		known, _ := j.before.LoadOrStore(strings.Join(dirs, "\x00"), sync.OnceValue(func() usage { return measureTrees(dirs, func(usage) bool { return false }) }))
		o.Before = known.(func() usage)() //nolint:forcetypeassert // it holds nothing else
	}
	if j.namespaces {
		return func() {}, nil
	}
	o.Temp, release, err = newTemp(j.temp)
	return release, err
}

// launch starts the first process of an order in its own cgroup. Without one, noGroup is the reason.
func (j *Jail) launch(command *exec.Cmd, o *order) (g *group, noGroup string, err error) {
	g, noGroup = j.newGroup(o)
	if err := command.Start(); err != nil {
		g.end()
		return nil, "", fmt.Errorf("starting the jail: %w", err)
	}
	if err := g.add(command.Process.Pid); err != nil {
		g.end()
		g, noGroup = nil, err.Error()
	}
	o.Group = g != nil
	return g, noGroup, nil
}

// setEnd sets the End of a run that was cut off or refused. said is the error of reading its report,
// waited that of waiting for its first process.
func (j *Jail) setEnd(ctx context.Context, o *order, r *report, said, waited error) error {
	cutOff := func(end End) {
		r.End, r.ExitCode = end, -1
		r.Layers, r.Missing = j.layers, j.missing
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTooLong):
		cutOff(EndTimeout)
	case errors.Is(cause, errTooMuchOutput):
		cutOff(EndOutput)
	case said != nil && errors.Is(cause, said):
		if o.Probe || !errors.Is(said, io.EOF) && !errors.Is(said, io.ErrUnexpectedEOF) {
			return fmt.Errorf("no report from the jail: %w (%w) %s", said, waited, r.Stderr)
		}
		cutOff(EndLost)
	case ctx.Err() != nil:
		return ctx.Err()
	case r.Error != "":
		return errors.New(r.Error)
	case len(r.Lacks) > 0:
		r.End, r.ExitCode = EndRefused, -1
	}
	return nil
}

// layersOf returns the layers of a run, and the missing ones with the reason.
func (j *Jail) layersOf(r *report, noGroup string) ([]string, map[string]string) {
	missing := maps.Clone(j.missing)
	if noGroup != "" {
		missing[LayerCgroup] = noGroup
	}
	for _, layer := range r.Layers {
		delete(missing, layer)
	}
	maps.Copy(missing, r.Missing)
	return r.Layers, missing
}

func (j *Jail) unshare(attributes *syscall.SysProcAttr, o *order) {
	if !o.Namespaces {
		return
	}
	attributes.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	if !o.isUnsandboxed() {
		attributes.Cloneflags |= syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	}
	if o.UserNamespace {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}
