package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Process is a plugin process after its handshake. It is safe for concurrent use.
type Process struct {
	spec   Spec
	runner *runner
	client *goplugin.Client
	conn   *grpc.ClientConn
	wire   *wire.Client
	pid    int
}

// StartError is the error of a plugin that did not start.
type StartError struct {
	Path string
	// Err is the cause.
	Err error
	// Exit is the exit status, or empty if the process had to be killed.
	Exit string
	// Output has the last lines that the process printed.
	Output []string
}

// Error returns the message, with the plugin's last output.
func (e *StartError) Error() string {
	text := fmt.Sprintf("%s: %v", e.Path, e.Err)
	if e.Exit != "" {
		text += "; it ended with " + e.Exit
	}
	if len(e.Output) > 0 {
		text += "; output:\n  " + strings.Join(e.Output, "\n  ")
	}
	return text
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Start starts a plugin and connects to it. It returns a *[StartError] if the
// program cannot be run, is not a plugin, or is not ready in time; the process is
// then stopped and its files are removed.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	spec.StartTimeout = cmp.Or(spec.StartTimeout, defaultStartTimeout)
	spec.StopGrace = cmp.Or(spec.StopGrace, defaultStopGrace)
	ctx, cancel := context.WithTimeout(ctx, spec.StartTimeout)
	defer cancel()
	sink := newLogSink(spec.Log, spec.Redact)
	p := &Process{spec: spec, runner: newRunner(&spec, sink)}
	sets := map[int]goplugin.PluginSet{}
	if len(spec.ProtocolVersions) == 0 {
		spec.ProtocolVersions = []int{wire.ProtocolVersion}
	}
	for _, v := range spec.ProtocolVersions {
		sets[v] = goplugin.PluginSet{} // only the connection is needed
	}
	handshake := wire.Handshake()
	if spec.WithoutCookie {
		handshake.MagicCookieKey, handshake.MagicCookieValue = "STEPFALL_NO_COOKIE", "1"
	}
	tlsConfig, certificate, err := NewCertificate()
	if err != nil {
		return nil, fmt.Errorf("%w: making its client certificate: %w", errStarting, err)
	}
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: sets,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, base *exec.Cmd, dir string) (gorunner.Runner, error) {
			p.runner.sockets, p.runner.cmd.Dir = dir, cmp.Or(spec.Dir, dir)
			p.runner.cmd.Env = slices.Concat(spec.Env, base.Env, []string{"PLUGIN_CLIENT_CERT=" + string(certificate)})
			return p.runner, nil
		},
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: spec.TempDir},
		SkipHostEnv:      true,
		TLSConfig:        tlsConfig,
		StartTimeout:     spec.StartTimeout,
		GRPCDialOptions:  wire.DialOptions(),
		Logger:           hclog.NewNullLogger(), // the caller logs what matters
		SyncStdout:       sink.writer("stdout"),
		SyncStderr:       sink.writer("stderr"),
	})
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	if err := p.connect(); err != nil {
		p.Stop()
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return nil, p.startError(err, sink)
	}
	return p, nil
}

func (p *Process) connect() error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	client, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return fmt.Errorf("%w: it does not speak gRPC", errStarting)
	}
	p.conn = client.Conn
	p.wire = wire.NewClient(p.conn)
	p.Redact(nil)
	p.runner.mu.Lock()
	defer p.runner.mu.Unlock()
	p.pid = p.runner.pid
	return nil
}

func (p *Process) startError(err error, sink *logSink) error {
	e := &StartError{Path: p.spec.Path, Output: sink.lastLines()}
	text := err.Error()
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), errors.Is(err, jail.ErrLacks):
		e.Err = err
		return e
	case strings.Contains(text, "incompatible API version"):
		_, theirs, _ := strings.Cut(text, "Plugin version: ")
		theirs, _, _ = strings.Cut(theirs, ",")
		e.Err = fmt.Errorf("%w: it speaks another version of the plugin protocol (%s) than this host (%d); rebuild it with a matching SDK", errStarting, theirs, wire.ProtocolVersion)
	case errors.Is(err, context.Canceled):
		e.Err = fmt.Errorf("%w: %w", errStarting, context.Canceled)
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(text, "timeout while waiting"):
		e.Err = fmt.Errorf("%w: it was not ready within %v", errStarting, p.spec.StartTimeout)
	case strings.Contains(text, "Unrecognized remote plugin message"), strings.Contains(text, "exited before we could connect"):
		e.Err = fmt.Errorf("%w: it ended before the handshake", errStarting)
	default:
		e.Err = fmt.Errorf("%w: %s", errStarting, sink.cleanText(text))
	}
	if p.runner.endedByItself() {
		e.Exit = p.Exit()
	}
	return e
}

// Redact adds secrets that are redacted in everything logged or returned from now on.
func (p *Process) Redact(secrets []string) { p.wire.Redact(p.runner.sink.addSecrets(secrets)) }

// Client returns the client of the connection.
func (p *Process) Client() *wire.Client { return p.wire }

// Conn returns the gRPC connection.
func (p *Process) Conn() *grpc.ClientConn { return p.conn }

// PID returns the process's id.
func (p *Process) PID() int { return p.pid }

// Isolation returns the jail that confines the process, or nil.
func (p *Process) Isolation() *jail.ConfinedProgram {
	p.runner.mu.Lock()
	defer p.runner.mu.Unlock()
	return p.runner.confined
}

// StrayOutput returns the first lines, besides the handshake, that the process wrote to its standard
// output. The host tolerates them.
func (p *Process) StrayOutput() []string {
	p.runner.mu.Lock()
	defer p.runner.mu.Unlock()
	return append([]string(nil), p.runner.stray...)
}

// LastLines returns the last lines that the process logged or printed.
func (p *Process) LastLines() []string { return p.runner.sink.lastLines() }

// DropLifeline closes the lifeline, as the death of the host would. The plugin must then exit by
// itself. It is for tests of plugins.
func (p *Process) DropLifeline() {
	p.runner.mu.Lock()
	defer p.runner.mu.Unlock()
	if p.runner.pid != 0 {
		p.runner.lifeline.Close()
	}
}

// Addr returns the address that the plugin listens on.
func (p *Process) Addr() net.Addr {
	if r := p.client.ReattachConfig(); r != nil {
		return r.Addr
	}
	return nil
}

// Done returns a channel that is closed when the process has ended, by itself or killed.
func (p *Process) Done() <-chan struct{} { return p.runner.finished }

// Exit describes how the process ended; it is empty while the process runs.
func (p *Process) Exit() string {
	select {
	case <-p.runner.finished:
	default:
		return ""
	}
	state := p.runner.cmd.ProcessState
	if state == nil {
		return ""
	}
	if lines := p.runner.sink.lastLines(); p.runner.confined != nil && len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], jail.StoppedBy) {
		return lines[len(lines)-1]
	}
	if s := signalOf(state.ExitCode()); p.runner.confined != nil && s != 0 {
		return "signal: " + s.String()
	}
	return state.String()
}

// signalOf returns the signal that ended a plugin in a jail, which then exits with 128 plus its number, or 0: a plugin
// can exit with 255 itself.
func signalOf(code int) syscall.Signal {
	const signalled, lastSignal = 128, 64
	if code <= signalled || code > signalled+lastSignal {
		return 0
	}
	return syscall.Signal(code - signalled)
}

// Kill kills the process group immediately. Stop must still be called.
func (p *Process) Kill() { _ = p.runner.Kill(context.Background()) }

// Stop asks the process to exit, kills it after the grace period, and removes its files. It blocks
// until this is done, little longer than the grace period, and can be called more than once.
func (p *Process) Stop() {
	timer := time.AfterFunc(p.spec.StopGrace, p.Kill)
	defer timer.Stop()
	p.client.Kill()
	p.Kill()
	p.runner.mu.Lock()
	hasBegun := p.runner.hasBegun
	p.runner.mu.Unlock()
	if hasBegun {
		<-p.runner.finished
	}
}

// Spec describes the process to start.
type Spec struct {
	// Path is the program, Args its arguments.
	Path string
	Args []string
	// ExecPath, if not empty, is the file that is executed instead of Path, for
	// instance an open file whose checksum was verified. The program still sees
	// Path as its name.
	ExecPath string
	// Env is the whole environment, except for the handshake's variables.
	Env []string
	// Dir is the working directory; empty means the socket's directory.
	Dir string
	// TempDir is the directory in which the socket's directory is created; empty means the system's. Its
	// path must be short: a socket's is limited to about 100 bytes.
	TempDir string
	// Log receives what the plugin logs and prints; nil discards it.
	Log hclog.Logger
	// Redact are secrets that are redacted in everything logged or returned.
	Redact []string
	// StartTimeout limits the time until the handshake; 0 means 10 s.
	StartTimeout time.Duration
	// StopGrace is how long Stop waits for the plugin to exit by itself; 0 means 1 s.
	StopGrace time.Duration
	// Jail and Confinement confine the process; without them it only has its own process group.
	Jail        *jail.Jail
	Confinement *jail.Confinement
	// ProtocolVersions are offered to the plugin; empty means the current one. Tests of plugins offer
	// others.
	ProtocolVersions []int
	// WithoutCookie starts the program without the handshake cookie, as a person would. It is for tests.
	WithoutCookie bool
}

const (
	defaultStartTimeout = 10 * time.Second
	defaultStopGrace    = time.Second
	// drainTime is how long output is read after the process has exited: a grandchild outside the group
	// can keep the pipe open.
	drainTime = 50 * time.Millisecond
)
