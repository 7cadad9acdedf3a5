package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/process"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Host runs plugins. It is safe for concurrent use.
type Host struct {
	cfg        Config
	log        hclog.Logger
	searchPath []string
	dir        string // for sockets and scratch directories, removed by Close
	dirs       atomic.Int64
	jail       func() (*jail.Jail, error) // opened at its first use

	ctx    context.Context // cancelled by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines of instances

	mu        sync.Mutex
	closed    bool
	instances []*instance
	infos     map[string]*wire.Info
}

// New returns a host. It starts no plugin, but Close must be called in any case.
func New(cfg Config) (*Host, error) {
	h := &Host{cfg: cfg, log: cmp.Or(cfg.Logger, hclog.NewNullLogger()), searchPath: cfg.SearchPath, infos: map[string]*wire.Info{}}
	if h.searchPath == nil {
		h.searchPath = SearchPath()
	}
	var err error
	if cfg.Dir != "" { // a sandbox mounts it at the same path
		if h.cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
			return nil, err
		}
	}
	if h.dir, err = makeDir(cfg.TempDir); err != nil {
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.jail = sync.OnceValues(h.openJail)
	return h, nil
}

const (
	dirPrefix = "stepfall-host-"
	// longestDir leaves room for socket names: a socket's path is limited to about 100 bytes.
	longestDir = 28
)

// makeDir creates the host's directory, and removes those that killed hosts left behind.
func makeDir(base string) (string, error) {
	if base == "" {
		base = os.TempDir()
		if len(base) > longestDir && runtime.GOOS != "windows" {
			base = "/tmp"
		}
	}
	if len(base) > longestDir {
		return "", fmt.Errorf("the path of the folder for plugins' sockets is too long: %s", base)
	}
	old, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	for _, dir := range old {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && !alive(pid) {
			os.RemoveAll(dir) // fails for other users' directories, as it should
		}
	}
	dir, err := os.MkdirTemp(base, fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("making a folder for plugins: %w", err)
	}
	return dir, nil
}

// Verifier returns the instance name of a plugin as a verifier. The program is found now and started at the
// first call. An error of Verify is an *unavailableError, a *configError, a *callError or the end of the
// context.
func (h *Host) Verifier(name, plugin string, config map[string]any) (sdk.Verifier, error) {
	i, err := h.instance(name, plugin, wire.Verifier, config)
	if err != nil {
		return nil, err
	}
	return sdk.VerifierFunc(i.verify), nil
}

// QualityEstimator returns the instance name of a plugin as a quality estimator, like Verifier.
func (h *Host) QualityEstimator(name, plugin string, config map[string]any) (sdk.QualityEstimator, error) {
	i, err := h.instance(name, plugin, wire.QualityEstimator, config)
	if err != nil {
		return nil, err
	}
	return sdk.QualityEstimatorFunc(i.estimateQuality), nil
}

// CostEstimator returns the instance name of a plugin as a cost estimator, like Verifier.
func (h *Host) CostEstimator(name, plugin string, config map[string]any) (sdk.CostEstimator, error) {
	i, err := h.instance(name, plugin, wire.CostEstimator, config)
	if err != nil {
		return nil, err
	}
	return sdk.CostEstimatorFunc(i.estimateCost), nil
}

func (h *Host) instance(name, plugin string, role wire.Role, config map[string]any) (*instance, error) {
	config, err := schema.Normalize(config)
	if err != nil {
		return nil, fmt.Errorf("config of %s: %w", name, err)
	}
	if _, err := h.find(plugin); err != nil {
		return nil, err
	}
	if err := h.cfg.Plugins[plugin].checkIsolation(); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", plugin, err)
	}
	i := &instance{
		host: h, name: name, plugin: plugin, role: role, config: config,
		settings: h.cfg.Plugins[plugin].withDefaults(),
		log:      h.log.Named(plugin).With("instance", name),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	h.instances = append(h.instances, i)
	return i, nil
}

// Info returns a plugin's description. It starts and stops the plugin at the first call and caches the
// result.
func (h *Host) Info(ctx context.Context, plugin string) (*wire.Info, error) {
	h.mu.Lock()
	info, closed := h.infos[plugin], h.closed
	h.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if info != nil {
		return info, nil
	}
	settings := h.cfg.Plugins[plugin].withDefaults()
	ctx, cancel := context.WithTimeout(ctx, settings.StartTimeout)
	defer cancel()
	own, err := h.ownDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(own)
	s := new(session)
	if s.Process, err = h.connect(ctx, plugin, settings, own, nil, h.log.Named(plugin)); err != nil {
		return nil, err
	}
	defer s.Stop()
	if info, err = s.Client().Info(ctx, h.cfg.Version); err == nil && info.Has(wire.FeatureModelCalls) {
		_, err = s.Client().ServeModels(ctx, nil, wire.ModelLimits{}) // fails here if every instance would fail
	}
	if err != nil {
		return nil, fmt.Errorf("reading info of plugin %s: %w", plugin, s.explainStart(ctx, settings.StartTimeout, err))
	}
	h.remember(plugin, info)
	return info, nil
}

func (h *Host) remember(plugin string, info *wire.Info) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.infos[plugin] = info
}

// Schema returns the schema of a role's config. It starts the plugin at the first call.
func (h *Host) Schema(ctx context.Context, plugin string, role wire.Role) (*schema.Schema, error) {
	info, err := h.Info(ctx, plugin)
	if err != nil {
		return nil, err
	}
	s, ok := info.Schema(role)
	if !ok {
		return nil, fmt.Errorf("%w: plugin %s is not a %s", ErrNoRole, plugin, strings.ReplaceAll(string(role), "-", " "))
	}
	return s, nil
}

// ownDir creates a directory for one process. Its name is short because it is part of a socket's path.
func (h *Host) ownDir() (string, error) {
	dir := filepath.Join(h.dir, fmt.Sprintf("p%d", h.dirs.Add(1)))
	return dir, os.Mkdir(dir, 0o700)
}

func (h *Host) connect(ctx context.Context, plugin string, settings PluginConfig, own string, redact []string, log hclog.Logger) (*process.Process, error) {
	program, err := h.open(plugin)
	if err != nil {
		return nil, err
	}
	defer program.close()
	spec := process.Spec{
		Path:         program.path,
		ExecPath:     program.exec,
		Dir:          h.cfg.Dir,
		Env:          environment(settings),
		TempDir:      own,
		Log:          log,
		Redact:       append(secrets(settings), redact...),
		StartTimeout: settings.StartTimeout,
	}
	if err := h.confine(&spec, settings, own); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", plugin, err)
	}
	p, err := process.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	if c := p.Isolation(); c != nil {
		log.Debug("plugin is confined", "layers", strings.Join(c.Layers, ", "))
	}
	return p, nil
}

// Start starts every instance that is not running, concurrently, and returns their errors. It is for
// applications that want to fail before the first call.
func (h *Host) Start(ctx context.Context) error {
	h.mu.Lock()
	instances := append([]*instance(nil), h.instances...)
	h.mu.Unlock()
	errs := make([]error, len(instances))
	var wg sync.WaitGroup
	for n, i := range instances {
		wg.Go(func() { _, errs[n] = i.acquire(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close stops every plugin and waits until all processes and files are gone, which takes little more than a
// second at most.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	instances := h.instances
	h.mu.Unlock()
	h.cancel()
	var wg sync.WaitGroup
	for _, i := range instances {
		wg.Go(i.close)
	}
	wg.Wait()
	h.wg.Wait()
	if err := os.RemoveAll(h.dir); err != nil {
		return fmt.Errorf("removing the plugins' folder: %w", err)
	}
	return nil
}
