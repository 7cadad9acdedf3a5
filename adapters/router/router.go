package router

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/step"
)

// Store is what several processes share and what outlives them: accounts, traces, open circuits,
// conversations and the pacing of budgets. sqlite.OpenShared and postgres.OpenShared return one.
type Store interface {
	// Ledger returns the accounts under these caps.
	Ledger(caps step.Caps) step.Ledger
	// Record is a [step.Sink].
	Record(ctx context.Context, t *sdk.Trace)
	middleware.Circuits
	middleware.Conversations
	// Pace connects a pacer with those of the same policy in other processes, until leave is called.
	Pace(policy string, p *fit.Pacer) (leave func() error)
	// Retain deletes traces, accounts and notes that are older, periodically until stop is called; 0 keeps
	// them.
	Retain(traces, accounts, sessions time.Duration) (stop func() error)
	// Close writes what is buffered and closes the store.
	Close() error
}

// VerifyName is the verifier's name in traces for [Options.Verify].
const VerifyName = "verify"

// Options are the settings that are not in a policy file. The zero value is sensible.
type Options struct {
	// Models are the models that the policy declares with the provider "go", by name.
	Models map[string]llms.Model
	// Verify, when not nil, judges every answer after the policy's own verifiers. Verdicts without a
	// verifier's name get [VerifyName].
	Verify sdk.VerifierFunc
	// Load says how the policy is loaded: environment, overrides. Keys that the policy
	// names must be in the environment.
	Load policies.LoadOptions
	// Watch reloads the policy that Open was given when its files change or the process gets SIGHUP. A
	// policy with errors is refused, and the old one stays in force. Logger reports which.
	Watch bool
	// Providers make the models' clients, by provider name. Only these are linked; package full has all.
	// "go" needs none.
	Providers map[string]middleware.OpenClient
	// Plugins provides the policy's plugins and stays the caller's; nil means a host of PluginHosts that
	// the router starts and closes.
	Plugins Plugins
	// PluginHosts runs the policy's plugins; nil refuses policies that have plugins.
	PluginHosts PluginHosts
	// OpenStore opens the databases that policies name, for traces and ledgers; nil refuses them.
	OpenStore func(ctx context.Context, address string, logger hclog.Logger) (Store, error)
	// Verifiers, when not nil, returns the verifier to use instead of the policy's plugin, by the name of
	// the verifier's block: for instance one that runs on other machines.
	Verifiers func(block string) sdk.Verifier
	// Logger gets messages about plugins and steps. Nil discards them, except warnings about the policy,
	// which then go to log/slog.
	Logger hclog.Logger
	// Transport makes the HTTP requests; nil means the connection pool that all providers share.
	Transport http.RoundTripper
	// Seed fixes random choices, such as those among ties; 0 means a new seed each time.
	Seed uint64
	// Store is shared with other processes. It keeps caps, open circuits, conversations and pacing,
	// instead of memory and the policy's ledger, and traces in addition to the policy's own files. It
	// stays the caller's; nil is none.
	Store Store
	// Traces receives each trace, in addition to the policy's own files. If it panics, the log says so once.
	Traces step.Sink
	// Callbacks, Interceptors and Checks are passed to the middleware unchanged.
	Callbacks    callbacks.Handler
	Interceptors []func(middleware.Handler) middleware.Handler
	Checks       []step.Check

	// guesses are the mean qualities that Wrap believes in where nothing looks, by model of the policy.
	guesses []float64
}

// Router runs a policy as an llms.Model. It is safe for concurrent use.
type Router struct {
	o Options
	// accounts are the ledger in memory, with the caps of the policy of the time.
	accounts *step.Memory
	open     openFiles
	runs     recentRuns
	// stopWatch ends the watch; nil when nothing is watched.
	stopWatch func()

	// swapping is held while a policy takes the place of another.
	swapping sync.Mutex
	// mu guards what follows.
	mu       sync.RWMutex
	now      *setup
	retiring sync.WaitGroup // setups that are not now any more
	closed   atomic.Bool    // written under mu
	faults   []error        // of those
}

var _ llms.ReasoningModel = (*Router)(nil)

// Open loads the policy at path and returns a router that runs it. The context bounds only the start.
// The caller closes the router.
func Open(ctx context.Context, path string, o Options) (*Router, error) {
	if o.PluginHosts != nil && o.Plugins == nil && o.Load.Schemas == nil {
		o.Load.Schemas = o.PluginHosts.Schemas(context.WithoutCancel(ctx), path)
	}
	if o.Watch {
		return newFollowing(ctx, path, o)
	}
	p, err := policies.Load(path, o.load())
	if err != nil {
		return nil, err
	}
	warn(o.Logger, p)
	return New(ctx, p, o)
}

// New returns a router that runs a loaded policy. It watches no file.
func New(ctx context.Context, p *policies.Policy, o Options) (*Router, error) {
	r := &Router{o: o, accounts: step.NewMemory(step.Caps{})}
	var err error
	r.now, err = r.newSetup(ctx, p, nil)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// use returns the policy at work and keeps it open until done is called.
func (r *Router) use() (s *setup, done func(), err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed.Load() {
		return nil, nil, ErrClosed
	}
	r.now.steps.Add(1)
	return r.now, r.now.steps.Done, nil
}

// GenerateContent runs one step, from beginning to end under the policy that is current when it
// begins. See [middleware.Model.GenerateContent].
func (r *Router) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	s, done, err := r.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return s.model.GenerateContent(s.markChoosing(ctx, options), messages, options...)
}

// Call runs one step on a single prompt.
//
// Deprecated: llms.Model asks for it. Use GenerateContent.
func (r *Router) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, r, prompt, options...)
}

// SupportsReasoning reports whether any of the models does.
func (r *Router) SupportsReasoning() bool { return r.current().model.SupportsReasoning() }

// Embed turns texts into vectors by one of the policy's models with the capability
// embeddings. See [middleware.Model.Embed].
func (r *Router) Embed(ctx context.Context, model string, request json.RawMessage) (json.RawMessage, error) {
	s, done, err := r.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return s.model.Embed(ctx, model, request)
}

// Ask calls one candidate, without a decision. See [middleware.Model.Ask].
func (r *Router) Ask(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error) {
	s, done, err := r.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return s.model.Ask(ctx, model, q)
}

// Config returns the middleware's configuration for the current policy, for programs that run their
// own steps with the same models, strategy and verifiers. It must not be modified, and is valid until
// another policy is swapped in.
func (r *Router) Config() middleware.Config { return r.current().config }

// Policy returns the current policy.
func (r *Router) Policy() *policies.Policy { return r.current().policy }

func (r *Router) current() *setup {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.now
}

// Start starts the policy's plugins, which otherwise start at their first use, and returns errors in
// them or in their configuration. A service calls it before it accepts requests.
func (r *Router) Start(ctx context.Context) error {
	s, done, err := r.use()
	if err != nil {
		return err
	}
	defer done()
	return s.startPlugins(ctx)
}

// ErrClosed says that the router has been closed.
var ErrClosed = errors.New("the router is closed")

// Close ends the watch, waits for running steps and work in the background, stops the plugins and
// closes the files. Steps that begin later get [ErrClosed]; those that run end sooner when the caller
// cancels their contexts. Closing again does nothing.
func (r *Router) Close() error {
	if r.stopWatch != nil {
		r.stopWatch()
	}
	r.swapping.Lock()
	defer r.swapping.Unlock()
	r.mu.Lock()
	again := r.closed.Swap(true)
	r.mu.Unlock()
	if again {
		return nil
	}
	r.retiring.Wait()
	return errors.Join(append(r.faults, r.now.close())...)
}
