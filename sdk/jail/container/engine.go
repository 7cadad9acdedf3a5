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

// Options say which engine and image. Only Image is required.
type Options struct {
	// Command is the engine's command with its global options; empty means podman or
	// docker, whichever is found first.
	Command []string
	// Image is what containers are made of.
	Image string
	// Dir is where the work tree is put in the container; empty means the same path
	// as outside. Spec.Dir and paths below it are translated.
	Dir string
	// Runtime is the engine's OCI runtime; empty means runsc where the engine has it,
	// and otherwise its default.
	Runtime string
}

// errNoEngine says that neither podman nor docker can be run here.
var errNoEngine = errors.New("no container engine here: neither podman nor docker")

// Engine runs commands in containers. It is safe for concurrent use.
type Engine struct {
	options Options
	runtime []string
	layers  []string
	missing map[string]string
	pull    func() error
}

// label marks containers of this package with the process that made them.
const label = "io.stepfall.owner"

// Open finds the engine and removes the containers that killed processes left. The
// image is not needed before [Engine.Pull] or the first run.
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

// findEngine returns the command of an engine, that of this machine where none is asked for, by
// a path that holds elsewhere, too.
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

// Image returns what its containers are made of.
func (e *Engine) Image() string { return e.options.Image }

// Layers returns what holds the commands, and what does not, with the reason.
func (e *Engine) Layers() ([]string, map[string]string) { return e.layers, e.missing }

// pullTimeout bounds the fetching of an image, which may have gigabytes.
const pullTimeout = time.Hour

// Pull fetches the image unless it is there. It does so once.
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

// command is one of the engine. It does not outlive ctx by more than it needs to leave
// nothing half done. An interrupt from the terminal is not for it.
func (e *Engine) command(ctx context.Context, arguments ...string) *exec.Cmd {
	all := slices.Concat(e.options.Command[1:], e.runtimeOption(arguments), arguments)
	cmd := exec.CommandContext(ctx, e.options.Command[0], all...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	processes.OwnGroup(cmd)
	return cmd
}

// runtimeOption is a global option of podman, which needs it for every command, and
// one of docker's create; both take it before create's arguments as podman does.
func (e *Engine) runtimeOption(arguments []string) []string {
	if len(e.runtime) == 0 || e.docker() || arguments[0] == "info" {
		return nil
	}
	return e.runtime
}

func (e *Engine) docker() bool { return strings.Contains(e.options.Command[0], "docker") }

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

// owner names this process so that another can tell whether it is alive.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
}

func newName() string { return "stepfall-" + strings.ToLower(rand.Text()) }

// sweep removes the containers of this machine's processes that have ended.
func (e *Engine) sweep(ctx context.Context) {
	list, err := e.do(ctx, "ps", "--all", "--filter", "label="+label, "--format", `{{.ID}} {{.Label "`+label+`"}}`)
	if err != nil {
		return // it is tidying up: a run does not need it
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
