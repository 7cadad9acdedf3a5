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

// Store holds the state that several processes share and that outlives them: accounts, traces, open
// circuits, conversations and the pacing of budgets. sqlite.OpenShared and postgres.OpenShared return one.
type Store interface {
	// Ledger returns a ledger of the accounts that enforces these caps.
	Ledger(caps step.Caps) step.Ledger
	// Record stores a trace. It is a [step.Sink].
	Record(ctx context.Context, t *sdk.Trace)
	middleware.Circuits
	middleware.Conversations
	// Pace connects a pacer with those of the same policy in other processes until leave is called.
	Pace(policy string, p *fit.Pacer) (leave func() error)
	// Retain periodically deletes traces, accounts and notes older than the given ages until stop is called;
	// an age of 0 keeps them forever.
	Retain(traces, accounts, sessions time.Duration) (stop func() error)
	// Close flushes buffered writes and closes the store.
	Close() error
}

// VerifyName is the verifier name of [Options.Verify] in traces.
const VerifyName = "verify"

// Options are the settings that are not part of a policy file. The zero value is usable.
type Options struct {
	// Models are the models that the policy declares with the provider "go", by name.
	Models map[string]llms.Model
	// Verify, when not nil, judges every answer after the policy's own verifiers. Verdicts that name no
	// verifier get [VerifyName].
	Verify sdk.VerifierFunc
	// Load controls how the policy is loaded: environment, overrides. Secrets that the policy names must be
	// set in the environment.
	Load policies.LoadOptions
	// Watch reloads the policy given to Open when its files change or the process receives SIGHUP. If the
	// new policy has errors, the old one stays in force. Either result is logged to Logger.
	Watch bool
	// Providers create the clients of models, by provider name. Only these are linked; package full has all
	// of them. The provider "go" needs none.
	Providers map[string]middleware.OpenClient
	// Plugins provides the policy's plugins and remains owned by the caller; nil means a host from
	// PluginHosts that the router starts and closes.
	Plugins Plugins
	// PluginHosts runs the policy's plugins; if nil, policies with plugins are rejected.
	PluginHosts PluginHosts
	// OpenStore opens the databases that policies name for traces and ledgers; if nil, such policies are rejected.
	OpenStore func(ctx context.Context, address string, logger hclog.Logger) (Store, error)
	// Verifiers, when not nil, returns the verifier that replaces a policy's plugin, by the name of the
	// verifier's block, for instance one that runs on other machines.
	Verifiers func(block string) sdk.Verifier
	// Logger receives messages about plugins and steps. Nil discards them, except warnings about the policy,
	// which are logged by log/slog.
	Logger hclog.Logger
	// Transport makes the HTTP requests; nil means the connection pool shared by all providers.
	Transport http.RoundTripper
	// Seed fixes random choices, such as those between ties; 0 means a new seed each time.
	Seed uint64
	// Store shares state with other processes. It keeps caps, open circuits, conversations and pacing in
	// place of memory and the policy's ledger, and traces in addition to the policy's own files. It
	// remains owned by the caller; nil means none.
	Store Store
	// Traces receives each trace, in addition to the policy's own files. If it panics, that is logged once.
	Traces step.Sink
	// Callbacks, Interceptors and Checks are passed on to the middleware.
	Callbacks    callbacks.Handler
	Interceptors []func(middleware.Handler) middleware.Handler
	Checks       []step.Check

	// priorMeans are the prior mean qualities that Wrap assumes, in the order of the policy's models.
	priorMeans []float64
}

// Router runs a policy as an llms.Model. It is safe for concurrent use.
type Router struct {
	o Options
	// accounts is the ledger in memory, used with the caps of the current policy.
	accounts *step.Memory
	open     openFiles
	runs     recentRuns
	// stopWatch stops watching the policy's files; nil if they are not watched.
	stopWatch func()

	// swapping is held while one policy replaces another.
	swapping sync.Mutex
	// mu guards the fields below.
	mu       sync.RWMutex
	active   *setup
	retiring sync.WaitGroup // setups that have been replaced
	closed   atomic.Bool    // written under mu
	faults   []error        // errors from closing retired setups
}

var _ llms.ReasoningModel = (*Router)(nil)

// Open loads the policy at path and returns a router that runs it. The context limits only the start.
// The caller must close the router.
func Open(ctx context.Context, path string, o Options) (*Router, error) {
	if o.PluginHosts != nil && o.Plugins == nil && o.Load.Schemas == nil {
		o.Load.Schemas = o.PluginHosts.Schemas(context.WithoutCancel(ctx), path)
	}
	if o.Watch {
		return newWatching(ctx, path, o)
	}
	p, err := policies.Load(path, o.load())
	if err != nil {
		return nil, err
	}
	warn(o.Logger, p)
	return New(ctx, p, o)
}

// New returns a router that runs a loaded policy. It does not watch the policy's files.
func New(ctx context.Context, p *policies.Policy, o Options) (*Router, error) {
	r := &Router{o: o, accounts: step.NewMemory(step.Caps{})}
	var err error
	r.active, err = r.newSetup(ctx, p, nil)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// use returns the current setup and keeps it open until done is called.
func (r *Router) use() (s *setup, done func(), err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed.Load() {
		return nil, nil, ErrClosed
	}
	r.active.steps.Add(1)
	return r.active, r.active.steps.Done, nil
}

// GenerateContent runs one step, entirely under the policy that is current when it begins. See
// [middleware.Model.GenerateContent].
func (r *Router) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	s, done, err := r.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return s.model.GenerateContent(s.markUnpinned(ctx, options), messages, options...)
}

// Call runs one step on a single prompt.
//
// Deprecated: it exists for the interface llms.Model. Use GenerateContent.
func (r *Router) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, r, prompt, options...)
}

// SupportsReasoning reports whether any of the models supports reasoning.
func (r *Router) SupportsReasoning() bool { return r.current().model.SupportsReasoning() }

// Embed turns texts into vectors with one of the policy's models that have the capability embeddings. See
// [middleware.Model.Embed].
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
	return r.active
}

// Start starts the policy's plugins, which otherwise start at their first use, and returns their errors,
// including those of their configuration. A service calls it before it accepts requests.
func (r *Router) Start(ctx context.Context) error {
	s, done, err := r.use()
	if err != nil {
		return err
	}
	defer done()
	return s.startPlugins(ctx)
}

// ErrClosed means that the router has been closed.
var ErrClosed = errors.New("the router is closed")

// Close stops watching the policy, waits for running steps and background work, stops the plugins and
// closes the files. Steps that begin later return [ErrClosed]; running steps end sooner if the caller
// cancels their contexts. Further calls do nothing.
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
	return errors.Join(append(r.faults, r.active.close())...)
}
