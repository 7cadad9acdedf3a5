package policies

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Policy is a validated policy with its defaults filled in. It is read-only.
type Policy struct {
	// Files to read first, so that this file can change what they set. Paths are relative to the including
	// file. A name such as "library:swe" is a policy that ships with stepfall.
	Include []string `policy:"include"`
	// What stepfall does with its decisions. enforce: acts on them. observe: calls the baseline and
	// records what it would have done. shadow: calls the baseline, and runs a sample of the steps in
	// addition. off: calls the baseline and decides nothing.
	Mode string `policy:"mode" oneof:"enforce observe shadow off" default:"enforce"`
	// The model to call when the mode is not enforce.
	Baseline string `policy:"baseline"`
	// Types of tools that only one API has, such as web_search or namespace, and that a request can do
	// without. Models behind another API are called without them. A tool of this kind that is not listed
	// excludes such models when a client offers it.
	OptionalTools []string `policy:"optional_tools"`

	// Models are the candidates. Those with the capability embeddings are Embedders.
	Models     []Model     `policy:"model,block"`
	Catalog    []Catalog   `policy:"catalog,block"`
	Plugins    []Plugin    `policy:"plugin,block"`
	Estimators []Estimator `policy:"estimator,block"`
	Verifiers  []Verifier  `policy:"verifier,block"`
	// Strategy applies when no Match does.
	Strategy Strategy `policy:"strategy,block" required:"true"`
	Matches  []Match  `policy:"match,block"`
	Budget   Budget   `policy:"budget,block"`
	Fit      *Fit     `policy:"fit,block"`
	Stream   Stream   `policy:"stream,block"`
	Session  *Session `policy:"session,block"`
	// Trajectory configures programs that run whole agents.
	Trajectory Trajectory `policy:"trajectory,block"`
	Retry      Retry      `policy:"retry,block"`
	Shadow     *Shadow    `policy:"shadow,block"`
	Holdout    *Holdout   `policy:"holdout,block"`
	Trace      Trace      `policy:"trace,block"`
	Retention  *Retention `policy:"retention,block"`

	// Embedders are the models that make embeddings. They do not answer queries.
	Embedders []Model
	// Path is the path given to Load. Files lists all files that were read, in the order of their layers,
	// including names of library policies.
	Path  string
	Files []string
	// Checksum is the SHA-256, in hex, of the effective policy without its secrets.
	Checksum string
	// Warnings are problems that did not stop the policy from loading.
	Warnings Diagnostics
	// Unjudged describes the queries whose answers no verifier judges because the policy limits its
	// verifiers to others, and what to add for verdicts on them; it can be empty.
	Unjudged string

	settings []Setting
	// secrets is a function because fmt would print a slice.
	secrets func() []string
}

// A Plugin block configures a plugin's binary and how it runs. Plugins are found by name, so the
// block is needed only to change a default.
type Plugin struct {
	Name string `policy:"name,label"`
	// The binary, relative to the policy file. When absent, it is found by name.
	Path string `policy:"path"`
	// SHA-256 of the binary, in hex. If it differs, the plugin is not started.
	Checksum string `policy:"checksum"`
	// How strictly the plugin is isolated. It always has a clean environment and its own process group.
	// process: everything it starts ends with it. sandbox: in addition, no network, and no files except
	// those of the system, its own program, the policy's folder and read.
	Isolation string `policy:"isolation" oneof:"none process sandbox" default:"process"`
	// Isolation layers and goals without which the plugin is not started, for instance filesystem,
	// network, processes (the three that a sandbox requires when nothing is listed), memory, cgroup, seccomp.
	Require []string `policy:"require"`
	// More files and folders that a sandboxed plugin may read, relative to the policy file.
	Read []string `policy:"read"`
	// Names of the environment variables that are passed to the plugin.
	Env []string `policy:"env"`
	// Time limit for starting the plugin.
	StartTimeout time.Duration `policy:"start_timeout" above:"0" default:"10s"`
	// Time limit for a call, unless the block that uses the plugin sets one.
	CallTimeout time.Duration `policy:"call_timeout" above:"0" default:"30s"`
	// Maximum number of model calls that the plugin can request during one verification or estimate. Further
	// ones are rejected.
	ModelCalls int `policy:"model_calls" min:"1" default:"20"`
	// Once these calls have cost this much, in US dollars, further ones are rejected. 0: only the
	// verifier's max_usd limits them.
	ModelUSD float64 `policy:"model_usd" min:"0"`
	// Time limit for one of these calls.
	ModelTimeout time.Duration `policy:"model_timeout" above:"0" default:"60s"`
	// Memory that the plugin and its child processes can use; 0 means no limit. A limit requires the layer
	// "memory".
	Memory Bytes `policy:"memory" min:"0" default:"0B"`
}

// An Estimator predicts the quality of answers, before or after the call, or the cost of calls. The
// estimators of the fitted profile need no block; a block adds a plugin or a built-in estimator.
type Estimator struct {
	Name string `policy:"name,label"`
	// The plugin that estimates, or the built-in "agreement". Agreement compares the answers of a step
	// (tool calls by their arguments). Its prior comes from the models' quality blocks, or else from their
	// prices.
	Plugin string `policy:"plugin" required:"true"`
	// What it estimates.
	Estimates string `policy:"estimates" oneof:"quality cost" default:"quality"`
	// Models whose answers or costs it estimates; all when absent.
	Models []string `policy:"models"`
	// What to do when the plugin is unavailable. abstain: the prior or the profile decides. fail: the step
	// fails.
	OnUnavailable string `policy:"on_unavailable" oneof:"abstain fail" default:"abstain"`
	// Time limit for a call; "0s" means the plugin's call_timeout.
	Timeout time.Duration `policy:"timeout" min:"0" default:"0s"`
	// For "agreement" without a profile. Agreement on a tool counts for less if the cheap models often
	// differ in calls of that tool, so that the most expensive model is called. This applies as long as the
	// total cost, over all steps that the policy decides, is at most this share of what always calling that
	// model would cost. 0: all agreements count the same.
	DoubtUpTo float64 `policy:"doubt_up_to" min:"0" max:"1" default:"0"`

	When   When   `policy:"when,block"`
	Config Config `policy:"config,block"`
}

// A Verifier judges answers: passed, failed or inconclusive.
type Verifier struct {
	Name string `policy:"name,label"`
	// The plugin that verifies.
	Plugin string `policy:"plugin" required:"true"`
	// Models whose answers it judges; all when absent.
	Models []string `policy:"models"`
	// How the result is used. verdict: it accepts or rejects the answer. signal: a number for each
	// answer, which the profile's estimator reads under the verifier's name. bought: a signal that is
	// requested only when it is worth its price (strategy index).
	As string `policy:"as" oneof:"verdict signal bought" default:"verdict"`
	// Share of the wrong answers that it passes. If this or false_reject is set, a verdict is evidence
	// that shifts the estimated quality of an answer; otherwise it is final. If only one is set, the other
	// is 0. If both are 0, a verdict is final, whatever a profile has learned.
	FalsePass *float64 `policy:"false_pass" min:"0" max:"1"`
	// Share of the right answers that it rejects.
	FalseReject *float64 `policy:"false_reject" min:"0" max:"1"`
	// Takes both error rates from the profile, which learns them from outcomes that have both the verdict
	// and the truth. Without a profile, false_pass = 0.15 and false_reject = 0.05. This is the default if a
	// model judges (verifier-judge, or a config that names a model: any text that is the name of one of
	// the policy's models, or an argument model; not in the configs of the other verifiers of stepfall).
	Learn bool `policy:"learn"`
	// What to do when the plugin is unavailable. abstain: the estimators decide. fail: the step fails.
	// accept: the answer counts as passed.
	OnUnavailable string `policy:"on_unavailable" oneof:"abstain fail accept" default:"abstain"`
	// Time limit for a verification; "0s" means the plugin's call_timeout. If it ends ten verifications in a
	// row, the verifier is left out for a while.
	Timeout time.Duration `policy:"timeout" min:"0" default:"0s"`
	// Maximum cost of one verification, in US dollars, for the model calls of a judge. This amount is
	// reserved in advance, or the highest cost so far if that is more, because a plugin that sets its own
	// prices can exceed it. If it ends ten verdicts in a row, the verifier is left out for a while.
	MaxUSD float64 `policy:"max_usd" min:"0"`

	When   When   `policy:"when,block"`
	Config Config `policy:"config,block"`

	// namesModel is set if the plugin may ask a model of the policy, because its config names it.
	namesModel bool
}

// When selects the queries that a block applies to. All given conditions must hold; without
// conditions, the block applies to every query.
type When struct {
	// The query's group is one of these; "*" matches any characters except "/".
	Groups []string `policy:"groups"`
	// The query offers at least one of these tools; "*" as above, so ["*"] matches any tool.
	Tools []string `policy:"tools"`
	// The query's tenant is one of these; "*" as above.
	Tenants []string `policy:"tenants"`
	// The query has each of these labels with the given value; "*" as above.
	Labels map[string]string `policy:"labels"`
	// Whether the query names the tests that decide, or a work tree to run them in. When absent, both match.
	Checks *bool `policy:"checks"`
	// The run has had at least this many setbacks. An earlier step in which answers differed or were
	// rejected counts 1; a tool error, or a tool call repeated word for word, counts 1/2. With
	// doubt_up_to, differing answers count less, and steps that have cost more than the most expensive
	// model alone would have add 1.
	Setbacks int `policy:"setbacks" min:"0"`
}

// A Strategy decides which models run. Its label is the kind: route, threshold, cascade, cascade_route
// or index.
type Strategy struct {
	Kind string `policy:"kind,label" oneof:"route threshold cascade cascade_route index"`
	// Value of a right answer, in US dollars. A model runs if its expected gain in quality, times this
	// value, exceeds its cost. The same as lambda = 1 / worth_usd.
	WorthUSD float64 `policy:"worth_usd" above:"0" kinds:"route cascade cascade_route index"`
	// Price of a dollar in units of quality, as an alternative to worth_usd. A number, or a list indexed by
	// how many models have run, whose last number repeats. A profile sets it.
	Lambda []float64 `policy:"lambda" min:"0" kinds:"route cascade cascade_route index"`
	// Estimated quality at which an answer is good enough: a number, or a list with one number per model,
	// in order. A profile sets it.
	Threshold []float64 `policy:"threshold" min:"0" max:"1" kinds:"threshold"`
	// How cascade_route searches for the best set of models. exact: branch and bound. slow: all sets.
	// greedy: adds one model at a time. no_expect: treats estimates as certain.
	Variant string `policy:"variant" oneof:"exact slow greedy no_expect" default:"exact" kinds:"cascade_route"`
	// Probability of taking the cheapest of equally good choices. A profile sets it.
	Gamma float64 `policy:"gamma" min:"0" max:"1" kinds:"route cascade cascade_route index"`
	// Maximum number of models that run for one query; 0 means no limit.
	MaxDepth int `policy:"max_depth" min:"0"`
	// Factor on the uncertainty of estimates, above 0 up to 1. Below 1, further models are expected to
	// gain less. A profile sets it.
	Scale float64 `policy:"scale" above:"0" max:"1" default:"1" kinds:"cascade cascade_route index"`
	// Models in the order in which they can run; models that are not listed never run. When absent, all
	// models in the order of the file (cascade_route: in any order).
	Order []string `policy:"order" kinds:"threshold cascade cascade_route"`
	// Calls two models at once if the second would be called even if the first answer turned out two
	// standard deviations better than expected. That always holds for a pair that is judged only by its
	// agreement. Saves the time of one answer. If one answer may suffice, because a verifier or a profile
	// can judge it alone, the models are called in turn. In the rare step where the first answer of a pair
	// suffices after all, the second call is cancelled: its server may bill it, and it is booked as an
	// answer of the expected length.
	Parallel bool `policy:"parallel" kinds:"threshold cascade cascade_route index"`
	// Which answer a cascade returns: the best of all, or the last.
	Answer string `policy:"answer" oneof:"best last" default:"best" kinds:"threshold cascade"`
	// Maximum number of sets of models to evaluate in one decision; 0 means 50000, -1 no limit.
	NodeLimit int `policy:"node_limit" min:"-1" kinds:"cascade_route"`
}

// A Match gives the queries that it selects their own strategy and candidates. The first matching
// block, in the order of the file, applies.
type Match struct {
	Name string `policy:"name,label"`
	// Candidates for these queries; all models when absent.
	Models []string `policy:"models"`

	When     When      `policy:"when,block"`
	Strategy *Strategy `policy:"strategy,block"`
}

// Budget limits spending. Caps are hard: the worst-case cost of a call is reserved in advance, and a
// call that might exceed a cap is not made.
type Budget struct {
	// Largest expected cost of a query, in US dollars: the goal of a fit, not a cap. 0 means none.
	ExpectedUSD float64 `policy:"expected_usd_per_query" min:"0"`
	// With a fitted profile: the number of queries over which a deviation from the expected cost is
	// corrected, so that the mean holds on new queries too. 0 relies on the fit alone.
	HoldOver int `policy:"hold_over" min:"0" default:"50"`
	// Cap on one step, in US dollars; 0 means none.
	StepUSD float64 `policy:"step_usd" min:"0"`
	// Cap on one run of an agent, in US dollars; 0 means none. Steps belong to the same run if they have the
	// same Info.Run, or without one the same Info.Session; steps with neither are not counted.
	RunUSD float64 `policy:"run_usd" min:"0"`
	// Cap on each tenant, in US dollars; 0 means none.
	TenantUSD float64 `policy:"tenant_usd" min:"0"`
	// Period after which a tenant's account is reset; "0s" means never.
	TenantPeriod time.Duration `policy:"tenant_period" min:"0" default:"0s"`
	// What a step returns when a cap ends it. best: the best answer so far. fail: an error, unless a model has
	// answered that can cost as much as every model that the cap excluded.
	AtCap string `policy:"at_cap" oneof:"best fail" default:"best"`
	// How long a step waits in total for running calls to be settled, if their reservations leave too little
	// of a cap and either at_cap is fail or the strategy has no model that needs less. A step waits even if it
	// has an answer. "0s" means that it does not wait.
	Wait time.Duration `policy:"wait" min:"0" default:"10s"`
	// SQLite file that keeps the accounts across restarts, relative to the policy file, or the postgres://
	// URL of a database shared by several machines. When absent, accounts are kept in memory.
	Ledger string `policy:"ledger"`

	Tenants []Tenant `policy:"tenant,block"`
}

// A Tenant block sets a cap for one tenant, in place of tenant_usd.
type Tenant struct {
	Name string `policy:"name,label"`
	// Cap, in US dollars. To exclude a tenant, revoke its keys.
	USD float64 `policy:"usd" required:"true" above:"0"`
}

// Fit names a profile written by `stepfall fit`.
type Fit struct {
	// The profile, relative to the policy file. It replaces the strategy's worth_usd, lambda, threshold,
	// gamma and scale.
	Profile string `policy:"profile" required:"true"`
}

// Stream decides when streaming callers are shown text.
type Stream struct {
	// buffer: nothing until the answer is chosen. commit: live as soon as no further model can be worth
	// running. passthrough: live; allowed with one candidate only.
	Mode string `policy:"mode" oneof:"buffer commit passthrough" default:"buffer"`
	// Cancels a call while its answer arrives if a check is certain to reject the answer and another model
	// will be called: an answer that begins like a refusal, however it might continue, or that can no longer
	// become the requested JSON. Also applies to callers that do not stream.
	CancelDrafts bool `policy:"cancel_drafts"`
	// With cancel_drafts: also cancels calls whose tokens so far (32 or more) have a geometric mean
	// probability below this. The model must return log-probabilities. An answer that would be streamed
	// live is held back for its first 32 tokens, and is not cancelled after them.
	MinTokenProbability float64 `policy:"min_token_probability" min:"0" max:"1"`
}

// Session keeps a conversation on its model unless switching pays.
type Session struct {
	// Adds the value of the provider's prompt cache for the conversation to the cost of switching.
	CacheAware bool `policy:"cache_aware" default:"true"`
	// Additional cost of switching, in US dollars.
	SwitchUSD float64 `policy:"switch_usd" min:"0"`
	// Idle time after which a session is forgotten.
	IdleTimeout time.Duration `policy:"idle_timeout" above:"0" default:"10m"`
}

// Trajectory configures the cascade in programs that run a whole agent: `stepfall swe` and programs
// built on its package. A router sees one step at a time and always cascades steps.
type Trajectory struct {
	// What a model attempts before the next model does. attempt: the whole task, from a clean start for each
	// model, judged at its end. step: each step of one attempt that the models share.
	Unit string `policy:"unit" oneof:"attempt step" default:"attempt"`
	// Shows a model the attempts of earlier models, and why they were rejected. Has no effect if unit =
	// "step", because there is only one attempt.
	ShowFailures bool `policy:"show_failures" default:"false"`
}

// Retry configures how failed calls are retried. A failed call is no evidence about quality. If a model
// keeps failing or its server asks for a long wait, another model is called.
type Retry struct {
	// Attempts at one model within a step, including the first.
	MaxAttempts int `policy:"max_attempts" min:"1" max:"20" default:"2"`
	// Wait before the second attempt; it doubles with each further one.
	BaseDelay time.Duration `policy:"base_delay" above:"0" default:"500ms"`
	// Longest wait. If a server asks for more, its model is given up for this step.
	MaxDelay time.Duration `policy:"max_delay" above:"0" default:"10s"`
	// Longest wait for a model while another can be called. If the wait is longer, the strategy chooses
	// among the others, including more expensive ones; the step waits only if none of them can be called or
	// is worth it. Until the pause ends, and for five minutes at most, other steps avoid the model in the
	// same way.
	SwitchAfter time.Duration `policy:"switch_after" above:"0" default:"2s"`
	// Consecutive failures after which a deployment is avoided for break_for; 0 means never.
	BreakAfter int `policy:"break_after" min:"0" default:"5"`
	// How long the deployment is avoided.
	BreakFor time.Duration `policy:"break_for" above:"0" default:"30s"`
}

// Shadow limits the spending of the mode shadow.
type Shadow struct {
	// Share of steps that also run under the policy, in addition to the baseline, in [0, 1].
	Share float64 `policy:"share" min:"0" max:"1" default:"0.1"`
	// Cap on the additional spending of one process since its start, in US dollars. Each of several
	// processes has its own.
	MaxUSD float64 `policy:"max_usd" required:"true" above:"0"`
}

// Holdout sends a share of the runs to the baseline, to measure what the policy saves and how it
// changes the success rate.
type Holdout struct {
	// Share of runs that are sent to the baseline, in [0, 1]. A run is what the program names as one; without
	// a name it is a conversation, or a single step.
	Share float64 `policy:"share" min:"0" max:"1" default:"0.05"`
	// Selects which runs these are. Processes with the same number select the same runs.
	Seed int `policy:"seed" min:"0"`
	// Sends all runs to the baseline once the policy is measured to be worse or more expensive, until the
	// process restarts or the policy changes.
	Fallback bool `policy:"fallback"`
}

// Trace says where the record of each step is written.
type Trace struct {
	// JSON-lines file, relative to the policy file; none when absent.
	File string `policy:"file"`
	// SQLite file, relative to the policy file, or the postgres:// URL of a database shared by several machines; none when absent.
	Database string `policy:"database"`
	// Size at which the JSON-lines file is rotated.
	MaxSize Bytes `policy:"max_size" above:"0" default:"64MiB"`
	// Number of rotated files to keep: FILE.1 is the newest, and the oldest is deleted. 0 keeps none.
	MaxFiles int `policy:"max_files" min:"0" max:"1000" default:"1"`
	// Records the last text of the user.
	Prompts bool `policy:"prompts"`
	// Records the texts of answers.
	Answers bool `policy:"answers"`
	// Records the alternatives of each decision.
	Explain bool `policy:"explain"`
	// Share of steps, in [0, 1], that call one more model, drawn at random from those that the strategy
	// left out, so that later fits have data on rarely called models. It adds this share of their mean
	// price to each step.
	Explore float64 `policy:"explore" min:"0" max:"1"`
}

// Retention configures how long databases keep old records: `trace.database`, `budget.ledger`
// and the store of `stepfall serve --store`. One of the processes deletes old records in small batches
// every ten minutes; `stepfall prune` does so on request. 0s keeps them for ever. Without this block,
// everything except jobs is kept.
type Retention struct {
	// Records of steps, counted from the start of the step. Daily sums are kept.
	Traces time.Duration `policy:"traces" min:"0" default:"2160h"`
	// Accounts and sums of runs, counted from their newest step (or, if steps are not recorded in the
	// store, from the start of the run), and accounts of past periods. Anything that a cap can still depend
	// on is kept.
	Accounts time.Duration `policy:"accounts" min:"0" default:"2160h"`
	// Conversations idle for longer than `session.idle_timeout`, and other state that processes share,
	// counted from its expiry.
	Sessions time.Duration `policy:"sessions" min:"0" default:"1h"`
	// Runs of a queue with the results of their jobs, counted from the last time that a client waited for them.
	Jobs time.Duration `policy:"jobs" min:"0" default:"168h"`
}

// SDKModels returns the models as types of package sdk, in the order of the policy, which the indexes of
// strategies refer to.
func (p *Policy) SDKModels() []sdk.Model {
	models := make([]sdk.Model, len(p.Models))
	for i := range p.Models {
		models[i] = p.Models[i].SDK()
	}
	return models
}

// Locate resolves a path of the policy for the process: relative paths begin in the folder of the policy
// file.
func (p *Policy) Locate(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(p.Path, libraryPrefix) {
		return path
	}
	return filepath.Join(filepath.Dir(p.Path), path)
}
