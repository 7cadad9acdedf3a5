package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Jail runs commands within the walls that the machine offers. It is safe for
// concurrent use.
type Jail struct {
	self       string
	temp       string
	namespaces bool
	// asNobody: commands run as another uid, because the plugin runs as root.
	asNobody bool
	layers   []string
	missing  map[string]string
}

// errNoMain is said in the process that should have been the first of a run; what
// started it reads it from there.
var errNoMain = errors.New("the program does not call jail.Main before anything else")

// probeTimeout is for a program that does not call Main and does something else.
const probeTimeout = 10 * time.Second

// nobody is what commands run as when the plugin runs as root and the uids are few.
const nobody = 65534

// unusedUID returns a uid that nobody has, where there are as many: limits on
// processes are counted by uid, and one run must not use up those of another.
func unusedUID() int {
	const first, many = 0x60000000, 0x0fffffff
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nobody
	}
	var inside, outside, count int64
	if n, _ := fmt.Sscan(string(data), &inside, &outside, &count); n != 3 || inside > first || inside+count < first+many {
		return nobody
	}
	return first + rand.IntN(many)
}

// Open probes the machine. What earlier, killed runs left in the folder for
// temporary ones is removed.
func Open(ctx context.Context, options Options) (*Jail, error) {
	temp := options.Temp
	if temp == "" {
		temp = os.TempDir()
	}
	if len(os.Args) > 0 && (os.Args[0] == helperName || os.Args[0] == innerName) {
		return nil, errNoMain
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the own program: %w", err)
	}
	j := &Jail{self: self, temp: temp, namespaces: true, asNobody: os.Getuid() == 0}
	removeStale(temp)
	var result *Result
	reason := "turned off"
	if !options.NoNamespaces {
		if result, err = j.probe(ctx); err != nil {
			reason = err.Error()
		}
	}
	if result == nil {
		// Another uid could not reach toolchains in root's own folders; what root
		// may do goes with its capabilities.
		j.namespaces, j.asNobody = false, false
		if result, err = j.probe(ctx); err != nil {
			return nil, fmt.Errorf("probing: %w", err)
		}
		for _, layer := range []string{LayerUser, LayerPID, LayerMount, LayerNetwork, LayerIPC} {
			result.Missing[layer] = reason
		}
	}
	result.Missing[LayerCgroup] = "not configured: limits are held by the watchdog"
	j.layers, j.missing = result.Layers, result.Missing
	return j, nil
}

func (j *Jail) probe(ctx context.Context) (*Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errNoMain)
	defer cancel()
	return j.start(ctx, &order{Probe: true, Spec: Spec{ReadOnly: []string{"/usr", "/lib", "/lib64", "/bin"}}})
}

// Layers returns the layers that held when the machine was probed, and those
// that did not, with the reason.
func (j *Jail) Layers() ([]string, map[string]string) { return j.layers, j.missing }

// Run runs one command to its end. An error means that the command could not be
// run at all, or that ctx ended; everything else is in the result.
func (j *Jail) Run(ctx context.Context, spec *Spec) (*Result, error) {
	result, err := j.start(ctx, &order{Spec: *spec})
	if err != nil {
		return nil, err
	}
	for layer, reason := range j.missing {
		if _, known := result.Missing[layer]; !known {
			result.Missing[layer] = reason
		}
	}
	return result, nil
}

func (j *Jail) start(ctx context.Context, o *order) (*Result, error) {
	begin := time.Now()
	o.Limits = o.Limits.withDefaults()
	o.Namespaces, o.UID, o.GID = j.namespaces, -1, -1
	o.UserNamespace = j.namespaces && os.Getuid() != 0
	asNobody := j.asNobody && !o.InPlace
	if asNobody {
		o.UID = unusedUID()
		o.GID = o.UID
	}
	if !j.namespaces {
		temp, unlock, err := newTemp(j.temp)
		if err != nil {
			return nil, err
		}
		defer unlock()
		defer os.RemoveAll(temp)
		o.Temp = temp
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	orders, ordersWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersWriter.Close()
	reports, reportsWriter, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer reports.Close()

	tooMuch := func() { cancel(errTooMuchOutput) }
	stdout := &capped{limit: o.Limits.Output, tooMuch: tooMuch}
	stderr := &capped{limit: o.Limits.Output, tooMuch: tooMuch}
	command := exec.CommandContext(ctx, j.self)
	command.Args = []string{helperName}
	command.Env = []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=256MiB"}
	command.Stdout, command.Stderr = stdout, stderr
	if o.CombineOutput {
		command.Stderr = stdout
	}
	command.ExtraFiles = []*os.File{orders, reportsWriter}
	command.WaitDelay = time.Second
	command.SysProcAttr = j.attributes(o.UserNamespace)
	if !j.namespaces {
		// The helper ends its run when its pipe closes: killed, it could not.
		command.Cancel = ordersWriter.Close
	}

	// The kernel sends the death signal when the thread ends that started the
	// process, so this goroutine keeps its thread until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = command.Start()
	orders.Close()
	reportsWriter.Close()
	if err != nil {
		return nil, fmt.Errorf("starting the jail: %w", err)
	}
	var r report
	var decode error
	var reading sync.WaitGroup
	reading.Go(func() {
		decode = json.NewDecoder(io.LimitReader(reports, 64<<20)).Decode(&r)
		_, _ = io.Copy(io.Discard, reports)
	})
	if err := json.NewEncoder(ordersWriter).Encode(o); err != nil {
		decode = err
	}
	waited := command.Wait()
	_ = reports.SetReadDeadline(time.Now().Add(time.Second)) // a pipe always takes one
	reading.Wait()
	result := &Result{
		End: r.End, ExitCode: r.ExitCode, Stdout: stdout.bytes(), Stderr: stderr.bytes(),
		Truncated: stdout.cut() || stderr.cut(), Reports: r.Reports, Touched: r.Touched, LeftOver: r.LeftOver,
		Layers: r.Layers, Missing: r.Missing, Command: r.Command, Duration: time.Since(begin),
	}
	switch {
	case errors.Is(context.Cause(ctx), errTooMuchOutput):
		result.End, result.ExitCode = EndOutput, -1
		result.Layers, result.Missing = j.layers, map[string]string{}
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case decode != nil:
		if o.Probe || !errors.Is(decode, io.EOF) && !errors.Is(decode, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("the jail said nothing: %w (%w) %s", decode, waited, result.Stderr)
		}
		result.End, result.ExitCode = EndLost, -1
		result.Layers, result.Missing = j.layers, map[string]string{}
	case r.Error != "":
		return nil, errors.New(r.Error)
	}
	return result, nil
}

func (j *Jail) attributes(userNamespace bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if !j.namespaces {
		return attributes
	}
	attributes.Pdeathsig = syscall.SIGKILL
	attributes.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	if userNamespace {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attributes
}
