package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk/internal/processes"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// runner runs the process. It implements go-plugin's runner.Runner.
type runner struct {
	spec *Spec
	cmd  *exec.Cmd
	sink *logSink

	stdout, stderr *os.File // the host's ends of the pipes
	lifeline       *os.File // closed when the process must end or has ended
	childFiles     []*os.File
	sockets        string // directory of the plugin's socket
	handshake      *io.PipeReader
	handshakeIn    *io.PipeWriter
	pumps          sync.WaitGroup
	exited         chan struct{} // closed when the process has exited or was killed
	finished       chan struct{} // closed when everything is cleaned up, too
	starting       context.Context
	cancel         context.CancelFunc // cancels a start in progress

	mu       sync.Mutex
	confined *jail.ConfinedProgram // nil without a jail
	hasBegun bool                  // Start was called, so finished will be closed
	killed   bool
	stopped  bool // killed before it exited
	pid      int  // 0 before the start and after the process was reaped
	waitErr  error
	stray    []string // first lines on standard output other than the handshake
}

func newRunner(spec *Spec, sink *logSink) *runner {
	cmd := exec.Command(cmp.Or(spec.ExecPath, spec.Path), spec.Args...)
	cmd.Args[0] = spec.Path
	processes.OwnGroup(cmd)
	r := &runner{spec: spec, cmd: cmd, sink: sink, exited: make(chan struct{}), finished: make(chan struct{})}
	r.handshake, r.handshakeIn = io.Pipe()
	r.starting, r.cancel = context.WithCancel(context.Background())
	return r
}

var errKilled = errors.New("killed before it started")

func (r *runner) Start(context.Context) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hasBegun = true
	defer func() {
		if err != nil {
			r.closeFiles()
			r.handshakeIn.Close()
			close(r.finished)
		}
	}()
	if r.killed {
		return errKilled
	}
	if err := r.openFiles(); err != nil {
		return err
	}
	if r.spec.Jail == nil {
		err = r.cmd.Start()
	} else {
		r.confined, err = r.spec.Jail.Start(r.starting, r.cmd, r.spec.Confinement)
	}
	if err != nil {
		return err
	}
	r.pid = r.cmd.Process.Pid
	for _, f := range r.childFiles {
		f.Close()
	}
	r.childFiles = nil
	r.pumps.Go(r.pumpStdout)
	r.pumps.Go(func() { pump(r.stderr, func(line string, cut bool) { r.sink.addLine(line, "", cut) }) })
	go r.reap(r.pid)
	return nil
}

func (r *runner) openFiles() error {
	var outErr, errErr, lifeErr error
	r.childFiles = make([]*os.File, 3)
	r.stdout, r.childFiles[0], outErr = os.Pipe()
	r.stderr, r.childFiles[1], errErr = os.Pipe()
	r.childFiles[2], r.lifeline, lifeErr = os.Pipe()
	if err := errors.Join(outErr, errErr, lifeErr); err != nil {
		return err
	}
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.ExtraFiles = r.childFiles[0], r.childFiles[1], r.childFiles[2:]
	r.cmd.Env = append(r.cmd.Env, wire.LifelineEnv+"=3")
	return nil
}

func (r *runner) closeFiles() {
	for _, f := range append(r.childFiles, r.stdout, r.stderr, r.lifeline) {
		if f != nil {
			f.Close()
		}
	}
}

// pumpStdout forwards the handshake line and logs every other line, since libraries may print a banner
// when they are loaded.
func (r *runner) pumpStdout() {
	defer r.handshakeIn.Close()
	shaken := false
	pump(r.stdout, func(line string, cut bool) {
		if !shaken && isHandshake(line) {
			shaken = true
			_, _ = io.WriteString(r.handshakeIn, line+"\n") // the reader is closed only by this function
			return
		}
		const enough = 10
		r.mu.Lock()
		if len(r.stray) < enough {
			r.stray = append(r.stray, r.sink.cleanText(line))
		}
		r.mu.Unlock()
		r.sink.addLine(line, "stdout", cut)
	})
	if !shaken { // go-plugin kills it at the end of its output: let it exit by itself first, for its exit code
		select {
		case <-r.exited:
		case <-time.After(defaultStopGrace):
		}
	}
}

func isHandshake(line string) bool {
	fields := strings.Split(strings.TrimSpace(line), "|")
	if len(fields) < 4 {
		return false
	}
	return !slices.ContainsFunc(fields[:2], func(number string) bool {
		_, err := strconv.Atoi(number)
		return err != nil
	})
}

func (r *runner) reap(pid int) {
	awaitExit(pid)
	// The leader is not reaped yet, so the group's id cannot have been reused.
	processes.KillGroup(pid)
	err := r.cmd.Wait()
	close(r.exited)
	if r.confined != nil {
		r.confined.Close()
	}
	r.mu.Lock()
	r.pid, r.waitErr = 0, err
	r.mu.Unlock()
	deadline := time.Now().Add(drainTime)
	_ = r.stdout.SetReadDeadline(deadline)
	_ = r.stderr.SetReadDeadline(deadline)
	r.pumps.Wait()
	r.closeFiles()
	close(r.finished)
}

// Wait waits until the process has ended and its output is read.
func (r *runner) Wait(context.Context) error {
	<-r.finished
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waitErr
}

// Kill kills the process group. If the process has not started, it never will.
func (r *runner) Kill(context.Context) error {
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.pid == 0 {
		return nil
	}
	r.stopped = r.stopped || !r.hasExited()
	if r.confined != nil {
		r.confined.Kill(r.cmd.Process)
	} else {
		processes.KillGroup(r.pid)
		_ = r.cmd.Process.Kill()
	}
	return nil
}

// endedByItself reports whether the process ran and exited without being killed by the host.
func (r *runner) endedByItself() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hasExited() && !r.stopped
}

func (r *runner) hasExited() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// ID is never empty: go-plugin would skip its cleanup.
func (r *runner) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("pid %d", r.pid)
}

// Stdout returns a reader of the handshake line only.
func (r *runner) Stdout() io.ReadCloser { return r.handshake }

// Stderr returns an empty reader: the lines are read and sanitized by the runner.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (r *runner) Name() string { return r.spec.Path }

// Diagnose returns nothing: [StartError] has the details.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost rejects an address other than a socket in the directory that was made for the plugin.
// Otherwise a plugin could direct the host to some other process's socket.
func (r *runner) PluginToHost(network, addr string) (string, string, error) {
	if runtime.GOOS == "windows" {
		return network, addr, nil
	}
	folder, err := filepath.EvalSymlinks(r.sockets)
	if err != nil {
		return "", "", err
	}
	at, err := filepath.EvalSymlinks(filepath.Dir(addr))
	if network != "unix" || err != nil || !filepath.IsAbs(addr) || at != folder {
		return "", "", fmt.Errorf("the plugin names %s %q, which is not in the folder for its socket", network, addr)
	}
	info, err := os.Lstat(addr)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return "", "", fmt.Errorf("the plugin names %q, which is no socket", addr)
	}
	if linkCount(info) != 1 {
		return "", "", fmt.Errorf("the plugin names %q, a socket that has another name too", addr)
	}
	return network, addr, nil
}

func (r *runner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
