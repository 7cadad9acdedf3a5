package container

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stepfall/stepfall/sdk/internal/processes"
	"github.com/stepfall/stepfall/sdk/jail"
)

// Options select the engine and the image. Only Image is required.
type Options struct {
	// Command is the engine's command with its global options; empty means podman or
	// docker, whichever is found first.
	Command []string
	// Image is the image of the containers.
	Image string
	// Dir is the path of the work tree in the container; empty means the same path as on the host.
	// Spec.Dir and paths below it are translated.
	Dir string
	// Runtime is the engine's OCI runtime; empty means runsc if the engine has it, and otherwise the
	// engine's default.
	Runtime string
}

var errNoEngine = errors.New("no container engine here: neither podman nor docker")

// Engine runs commands in containers. It is safe for concurrent use.
type Engine struct {
	options Options
	runtime []string
	layers  []string
	missing map[string]string
	pull    func() error
}

// label marks this package's containers with the process that created them.
const label = "io.stepfall.owner"

// Open finds the engine and removes containers that killed processes left behind. The image is not
// needed before [Engine.Pull] or the first run.
func Open(ctx context.Context, options Options) (*Engine, error) {
	if options.Image == "" {
		return nil, errors.New("a container needs an image")
	}
	command, err := findEngine(options.Command)
	if err != nil {
		return nil, err
	}
	options.Command = command
	e := &Engine{options: options, missing: map[string]string{}}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	info, err := e.do(ctx, "info")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	switch {
	case options.Runtime != "":
		e.runtime = []string{"--runtime", options.Runtime}
	case strings.Contains(info, "runsc") && !slices.Contains(options.Command, "--runtime"):
		e.runtime = []string{"--runtime", "runsc"}
	}
	e.layers = []string{"container", jail.LayerPID, jail.LayerMount, jail.LayerNetwork, jail.LayerIPC, jail.LayerSeccomp, jail.LayerRlimits, jail.LayerCgroup}
	if slices.Contains(e.runtime, "runsc") {
		e.layers = append(e.layers, "runsc")
	}
	if strings.Contains(info, "rootless: true") || strings.Contains(info, "rootless") && !strings.Contains(info, "rootless: false") {
		e.layers = append(e.layers, jail.LayerUser)
	} else {
		e.missing[jail.LayerUser] = "the engine runs as root; the command has no capabilities"
	}
	e.missing[jail.LayerLandlock] = "the container has its own root"
	e.pull = sync.OnceValue(func() error { return e.fetch(context.WithoutCancel(ctx)) })
	e.sweep(ctx)
	return e, nil
}

// findEngine returns the command of the engine, by default that of podman or docker. A relative path in
// asked becomes absolute.
func findEngine(asked []string) ([]string, error) {
	if len(asked) == 0 {
		for _, name := range []string{"podman", "docker"} {
			if path, err := exec.LookPath(name); err == nil {
				return []string{path}, nil
			}
		}
		return nil, errNoEngine
	}
	if strings.ContainsRune(asked[0], filepath.Separator) {
		if program, err := filepath.Abs(asked[0]); err == nil {
			return append([]string{program}, asked[1:]...), nil
		}
	}
	return asked, nil
}

// Image returns the image of the containers.
func (e *Engine) Image() string { return e.options.Image }

// Layers returns the active layers, and the missing ones with the reason.
func (e *Engine) Layers() ([]string, map[string]string) { return e.layers, e.missing }

// pullTimeout limits pulling an image, which can have gigabytes.
const pullTimeout = time.Hour

// Pull pulls the image unless it is present. It does so only once.
func (e *Engine) Pull() error { return e.pull() }

func (e *Engine) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	if _, err := e.do(ctx, "image", "inspect", e.options.Image); err == nil {
		return nil
	}
	if _, err := e.do(ctx, "pull", "--quiet", e.options.Image); err != nil {
		return fmt.Errorf("fetching the image %s: %w", e.options.Image, err)
	}
	return nil
}

// command returns a command of the engine. When ctx ends it is terminated and has 10 s to clean up. It has
// its own process group, so that an interrupt from the terminal does not reach it.
func (e *Engine) command(ctx context.Context, arguments ...string) *exec.Cmd {
	all := slices.Concat(e.options.Command[1:], e.runtimeOption(arguments), arguments)
	cmd := exec.CommandContext(ctx, e.options.Command[0], all...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	processes.OwnGroup(cmd)
	return cmd
}

// runtimeOption returns podman's global --runtime option, which every podman command needs. For docker
// it is an option of create instead.
func (e *Engine) runtimeOption(arguments []string) []string {
	if len(e.runtime) == 0 || e.isDocker() || arguments[0] == "info" {
		return nil
	}
	return e.runtime
}

func (e *Engine) isDocker() bool { return strings.Contains(e.options.Command[0], "docker") }

func (e *Engine) do(ctx context.Context, arguments ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := e.command(ctx, arguments...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("%s %s: %w: %s", e.options.Command[0], arguments[0], err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// owner identifies this process, so that another can tell whether it is still running.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
}

func newName() string { return "stepfall-" + strings.ToLower(rand.Text()) }

// sweep removes the containers of exited processes of this machine.
func (e *Engine) sweep(ctx context.Context) {
	list, err := e.do(ctx, "ps", "--all", "--filter", "label="+label, "--format", `{{.ID}} {{.Label "`+label+`"}}`)
	if err != nil {
		return // best effort: no run depends on it
	}
	host, _, _ := strings.Cut(owner(), "/")
	for line := range strings.Lines(list) {
		id, made, _ := strings.Cut(strings.TrimSpace(line), " ")
		where, pid, ok := strings.Cut(made, "/")
		if number, err := strconv.Atoi(pid); ok && err == nil && where == host && !processes.Exists(number) {
			_, _ = e.do(ctx, "rm", "--force", "--volumes", id)
		}
	}
}
