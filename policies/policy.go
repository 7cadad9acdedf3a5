package policies

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Policy is what the operator wrote, checked and with defaults filled in. It is
// read only.
type Policy struct {
	// Files whose contents come first, so that this file can
	// change them. Paths are relative to the file that includes. A name such as
	// "library:swe" is a policy that ships with stepfall.
	Include []string `policy:"include"`
	// What stepfall does with its decisions. enforce: acts on them. observe: calls
	// the baseline and records what it would have done. shadow: calls the baseline,
	// and does the steps of a sample beside it. off: calls the baseline, records nothing.
	Mode string `policy:"mode" oneof:"enforce observe shadow off" default:"enforce"`
	// The model that is called when the mode is not enforce.
	Baseline string `policy:"baseline"`
	// Types of tools that one API alone has, such as web_search or namespace, which
	// models behind another API are asked without. Without the line, such a model is not
	// asked where a client offers one of them.
	OptionalTools []string `policy:"optional_tools"`

	// Models are the candidates. Those with the capability embeddings are Embedders.
	Models     []Model     `policy:"model,block"`
	Catalog    []Catalog   `policy:"catalog,block"`
	Plugins    []Plugin    `policy:"plugin,block"`
	Estimators []Estimator `policy:"estimator,block"`
	Verifiers  []Verifier  `policy:"verifier,block"`
	// Strategy is how to choose when no Match applies.
	Strategy Strategy `policy:"strategy,block" required:"true"`
	Matches  []Match  `policy:"match,block"`
	Budget   Budget   `policy:"budget,block"`
	Fit      *Fit     `policy:"fit,block"`
	Stream   Stream   `policy:"stream,block"`
	Session  *Session `policy:"session,block"`
	// Trajectory is for programs that run whole agents.
	Trajectory Trajectory `policy:"trajectory,block"`
	Retry      Retry      `policy:"retry,block"`
	Shadow     *Shadow    `policy:"shadow,block"`
	Holdout    *Holdout   `policy:"holdout,block"`
	Trace      Trace      `policy:"trace,block"`
	Retention  *Retention `policy:"retention,block"`

	// Embedders are the models that make embeddings, and no answers.
	Embedders []Model
	// Path is what was given to Load; Files are all files that were read, in the
	// order of their layers, names of the library included.
	Path  string
	Files []string
	// Checksum is the SHA-256, in hex, of the effective policy without its secrets.
	Checksum string
	// Warnings are what deserves a look and did not stop the policy.
	Warnings Diagnostics
	// Unjudged says which queries nothing looks at since the policy says itself that its
	// verifiers are not for them, and what to add where they are to come; it may be empty.
	Unjudged string

	settings []Setting
	// secrets is a function because fmt would print a slice.
	secrets func() []string
}

// A Plugin says where a plugin's binary is and how it is run. The block is only
// needed for what differs from the defaults: plugins are found by name.
type Plugin struct {
	Name string `policy:"name,label"`
	// The binary, relative to the policy file; found by name when absent.
	Path string `policy:"path"`
	// SHA-256 of the binary, in hex; the plugin is not started when it differs.
	Checksum string `policy:"checksum"`
	// How far the plugin is confined. It always has a clean environment and a process
	// group of its own. process: all that it starts ends with it. sandbox: also no
	// network, and no files but the system's, its program's, those of the policy's
	// folder and of read.
	Isolation string `policy:"isolation" oneof:"none process sandbox" default:"process"`
	// Layers and aims of isolation without which the plugin is not started, for
	// instance filesystem, network, processes (these three are what a sandbox
	// requires when nothing is named), memory, cgroup, seccomp.
	Require []string `policy:"require"`
	// Files and folders that a sandboxed plugin may read besides, relative to the policy file.
	Read []string `policy:"read"`
	// Environment variables that the plugin sees, by name.
	Env []string `policy:"env"`
	// Longest start.
	StartTimeout time.Duration `policy:"start_timeout" above:"0" default:"10s"`
	// Longest call, unless the block that uses the plugin says otherwise.
	CallTimeout time.Duration `policy:"call_timeout" above:"0" default:"30s"`
	// Most model calls that the plugin may have made for it during one verification or
	// one estimate; the next one is refused.
	ModelCalls int `policy:"model_calls" min:"1" default:"20"`
	// Cost of them, in US dollars, from which the next one is refused; 0 is no limit
	// but the verifier's max_usd.
	ModelUSD float64 `policy:"model_usd" min:"0"`
	// Longest of them.
	ModelTimeout time.Duration `policy:"model_timeout" above:"0" default:"60s"`
	// Memory that the plugin and what it starts may use; 0 is no limit. It requires "memory".
	Memory Bytes `policy:"memory" min:"0" default:"0B"`
}

// An Estimator says how good answers will be, or are, or what calls cost. Those of the
// fitted profile come by themselves; a block adds one that is a plugin, or built in.
type Estimator struct {
	Name string `policy:"name,label"`
	// The plugin that estimates, or "agreement", which is built in: it compares the answers
	// of a step, tool calls by their arguments, and goes by the models' quality blocks, or prices.
	Plugin string `policy:"plugin" required:"true"`
	// What it estimates.
	Estimates string `policy:"estimates" oneof:"quality cost" default:"quality"`
	// Models that it speaks of; all when absent.
	Models []string `policy:"models"`
	// When the plugin cannot be had. abstain: the prior or the profile decides. fail: the step fails.
	OnUnavailable string `policy:"on_unavailable" oneof:"abstain fail" default:"abstain"`
	// Longest call; the plugin's call_timeout when "0s".
	Timeout time.Duration `policy:"timeout" min:"0" default:"0s"`
	// With "agreement" and no profile: answers that agree are believed less where those that call the
	// same tool differ on many steps, so that the dearest model is asked, as long as all costs at most
	// this share of always asking it, over the steps that the policy decides. 0 believes all alike.
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
	// What is made of what it finds. verdict: it accepts or rejects the answer. signal: it is a
	// number that the profile's estimator reads, under the verifier's name, of every answer.
	// bought: a signal that is bought only where it is worth its price (strategy index).
	As string `policy:"as" oneof:"verdict signal bought" default:"verdict"`
	// Share of the wrong answers that it passes. With it or false_reject a verdict is evidence, which
	// moves what is believed of an answer; without either, it is taken at its word. Of the two, the one
	// that is absent is 0, and with 0 for both it is taken at its word, whatever a profile has learned.
	FalsePass *float64 `policy:"false_pass" min:"0" max:"1"`
	// Share of the right answers that it rejects.
	FalseReject *float64 `policy:"false_reject" min:"0" max:"1"`
	// Takes how often it errs from the profile, which learns it from outcomes with its verdict beside the
	// truth; until there is one, false_pass = 0.15 and false_reject = 0.05. Where a model judges (verifier-judge,
	// or a config that names a model) this is so anyway.
	Learn bool `policy:"learn"`
	// When the plugin cannot be had. abstain: the estimators decide. fail: the step
	// fails. accept: the answer counts as passed.
	OnUnavailable string `policy:"on_unavailable" oneof:"abstain fail accept" default:"abstain"`
	// Longest verification; the plugin's call_timeout when "0s".
	Timeout time.Duration `policy:"timeout" min:"0" default:"0s"`
	// The most that one verification may cost, in US dollars: a judge's calls. It is reserved beforehand.
	MaxUSD float64 `policy:"max_usd" min:"0"`

	When   When   `policy:"when,block"`
	Config Config `policy:"config,block"`
}

// When says which queries a block is about: all that is given must hold. Without
// conditions it is about every query.
type When struct {
	// The query's group is one of these; "*" stands for any characters but "/".
	Groups []string `policy:"groups"`
	// The query offers at least one of these tools; "*" as above, so that ["*"] is any tool.
	Tools []string `policy:"tools"`
	// The query's tenant is one of these; "*" as above.
	Tenants []string `policy:"tenants"`
	// The query has each of these labels with the given value; "*" as above.
	Labels map[string]string `policy:"labels"`
	// Whether the query names tests that decide, or a work tree for them; either when absent.
	Checks *bool `policy:"checks"`
	// Its run has had at least so many setbacks: each earlier step whose answers differed, or of which one
	// was rejected, is one; an error of a tool and a call made again, word for word, are half of one. With doubt_up_to,
	// disputes count less, and steps that have cost more than the dearest model alone would have are one more.
	Setbacks int `policy:"setbacks" min:"0"`
}

// A Strategy chooses which models are run. Its label is the kind: route, threshold,
// cascade, cascade_route or index.
type Strategy struct {
	Kind string `policy:"kind,label" oneof:"route threshold cascade cascade_route index"`
	// What a right answer is worth, in US dollars: a model is run when what it is expected
	// to add, as a share of that, is more than it costs. It stands for lambda = 1 / worth_usd.
	WorthUSD float64 `policy:"worth_usd" above:"0" kinds:"route cascade cascade_route index"`
	// Price of a dollar in units of quality, in place of worth_usd: a number, or a list with one for each
	// number of models that have run, of which the last repeats. Comes from the profile when there is one.
	Lambda []float64 `policy:"lambda" min:"0" kinds:"route cascade cascade_route index"`
	// Estimated quality from which an answer is good enough: a number, or a list
	// with one for each model in order. Comes from the profile when there is one.
	Threshold []float64 `policy:"threshold" min:"0" max:"1" kinds:"threshold"`
	// How cascade_route looks for the best set of models. exact: branch and bound.
	// slow: all sets. greedy: one further model at a time. no_expect: as if estimates were certain.
	Variant string `policy:"variant" oneof:"exact slow greedy no_expect" default:"exact" kinds:"cascade_route"`
	// Probability of the cheapest among equally good choices. Comes from the profile when there is one.
	Gamma float64 `policy:"gamma" min:"0" max:"1" kinds:"route cascade cascade_route index"`
	// Most models run for one query; 0 is no limit.
	MaxDepth int `policy:"max_depth" min:"0"`
	// Factor on the uncertainty of estimates, above 0 up to 1: below 1, less is
	// hoped for from further models. Comes from the profile when there is one.
	Scale float64 `policy:"scale" above:"0" max:"1" default:"1" kinds:"cascade cascade_route index"`
	// Models in the order in which they may run; others never run. Every model in
	// the order of the file when absent (cascade_route: in any order).
	Order []string `policy:"order" kinds:"threshold cascade cascade_route"`
	// Asks two models at the same time where the second would be asked anyway, also if the answer
	// of the first turned out two standard deviations better than expected: always so with a pair
	// of which only the agreement counts. Faster by one answer. Where the answer of the first may be
	// enough, for a verifier or a profile that says something of one answer, one is asked after the
	// other. In the rare step in which it is enough all the same the second call is cancelled: its
	// server may bill it, and it counts as an answer of the expected length.
	Parallel bool `policy:"parallel" kinds:"threshold cascade cascade_route index"`
	// Which answer a cascade returns: the best of all, or the last.
	Answer string `policy:"answer" oneof:"best last" default:"best" kinds:"threshold cascade"`
	// Most sets of models that one decision values; 0 is 20000, -1 no limit.
	NodeLimit int `policy:"node_limit" min:"-1" kinds:"cascade_route"`
}

// A Match gives the queries that it is about a strategy and candidates of their
// own. The first that applies, in the order of the file, counts.
type Match struct {
	Name string `policy:"name,label"`
	// Candidates for these queries; all models when absent.
	Models []string `policy:"models"`

	When     When      `policy:"when,block"`
	Strategy *Strategy `policy:"strategy,block"`
}

// Budget is what may be spent. Caps are hard: the worst case of a call is reserved
// before the call, and nothing is called that might exceed one.
type Budget struct {
	// Largest expected cost of a query, in US dollars: what a fit aims at, not a cap. 0 is none.
	ExpectedUSD float64 `policy:"expected_usd_per_query" min:"0"`
	// With a fitted profile: over how many queries a difference from the expected cost is made up for, so that the mean holds on new queries too; 0 leaves it to the fit.
	HoldOver int `policy:"hold_over" min:"0" default:"50"`
	// Cap of one step, in US dollars; 0 is none.
	StepUSD float64 `policy:"step_usd" min:"0"`
	// Cap of one run of an agent, in US dollars; 0 is none.
	RunUSD float64 `policy:"run_usd" min:"0"`
	// Cap of each tenant, in US dollars; 0 is none.
	TenantUSD float64 `policy:"tenant_usd" min:"0"`
	// After how long a tenant's account starts anew; "0s" is never.
	TenantPeriod time.Duration `policy:"tenant_period" min:"0" default:"0s"`
	// At a cap: best returns the best answer so far, fail returns an error.
	AtCap string `policy:"at_cap" oneof:"best fail" default:"best"`
	// At a cap that calls under way fill with their worst cases: how long a step that can ask nobody else waits for them to be settled; "0s" refuses at once.
	Wait time.Duration `policy:"wait" min:"0" default:"10s"`
	// SQLite file that keeps the accounts over restarts, relative to the policy file, or the postgres:// URL of a database that machines share; in memory when absent.
	Ledger string `policy:"ledger"`

	Tenants []Tenant `policy:"tenant,block"`
}

// A Tenant block gives one tenant a cap of its own in place of tenant_usd.
type Tenant struct {
	Name string `policy:"name,label"`
	// Cap, in US dollars; to shut a tenant out, revoke its keys.
	USD float64 `policy:"usd" required:"true" above:"0"`
}

// Fit names what `stepfall fit` found.
type Fit struct {
	// The profile, relative to the policy file. It replaces worth_usd, lambda, threshold,
	// gamma and scale of the strategy.
	Profile string `policy:"profile" required:"true"`
}

// Stream says what callers who stream get to see.
type Stream struct {
	// buffer: nothing until the answer is chosen. commit: live from the moment at
	// which no further model can be worth running. passthrough: live, with one candidate only.
	Mode string `policy:"mode" oneof:"buffer commit passthrough" default:"buffer"`
	// Ends the call of an answer that a check will reject while it comes, where another
	// model will then be asked: one that begins like a refusal, however it would go on, or
	// that can no longer become the JSON that was asked for. For callers who do not stream, too.
	CancelDrafts bool `policy:"cancel_drafts"`
	// Has cancel_drafts end calls also whose tokens so far, 32 or more, are less probable
	// in their geometric mean; the model must give log-probabilities. An answer that would
	// be streamed live is held back for its first 32 tokens, and not ended after them.
	MinTokenProbability float64 `policy:"min_token_probability" min:"0" max:"1"`
}

// Session keeps a conversation on the model that it is with, unless moving pays.
type Session struct {
	// Adds the price of what the provider has cached of the conversation to the cost of moving.
	CacheAware bool `policy:"cache_aware" default:"true"`
	// What moving costs besides, in US dollars.
	SwitchUSD float64 `policy:"switch_usd" min:"0"`
	// A session that was idle for longer is forgotten.
	IdleTimeout time.Duration `policy:"idle_timeout" above:"0" default:"10m"`
}

// Trajectory says how programs that run a whole agent cascade, which are
// `stepfall swe` and what is built on its package. A router, which sees one step
// after the other, always cascades steps.
type Trajectory struct {
	// What one model is tried on before the next. attempt: the whole task, each model
	// from a clean start, judged at its end. step: every step of one attempt, which
	// models share.
	Unit string `policy:"unit" oneof:"attempt step" default:"attempt"`
	// Shows a model what those before it did, and why that was rejected. With
	// unit = "step" there is one attempt, and nothing to show.
	ShowFailures bool `policy:"show_failures" default:"false"`
}

// Retry says how failed calls are tried again. A failed call says nothing about
// quality; another model is asked when this one stays away or has to be waited for.
type Retry struct {
	// Tries at one model within a step, the first included.
	MaxAttempts int `policy:"max_attempts" min:"1" max:"20" default:"2"`
	// Wait before the second try; it doubles with each further one.
	BaseDelay time.Duration `policy:"base_delay" above:"0" default:"500ms"`
	// Longest wait. A server that asks for more is given up for this step.
	MaxDelay time.Duration `policy:"max_delay" above:"0" default:"10s"`
	// Longest wait for a model while another can be asked. For a longer one the strategy decides among the
	// others, dearer ones too; the model is waited for when none of them can be asked or is worth it.
	// Steps that begin during the pause leave the model alone in the same way, for five minutes at most.
	SwitchAfter time.Duration `policy:"switch_after" above:"0" default:"2s"`
	// Failures in a row after which a deployment is left alone; 0 never.
	BreakAfter int `policy:"break_after" min:"0" default:"5"`
	// For how long.
	BreakFor time.Duration `policy:"break_for" above:"0" default:"30s"`
}

// Shadow limits what the mode shadow may spend.
type Shadow struct {
	// Share of steps that are done beside the baseline, in [0, 1].
	Share float64 `policy:"share" min:"0" max:"1" default:"0.1"`
	// Cap on all that one process does beside the baseline since it started, in US dollars; with several it holds for each.
	MaxUSD float64 `policy:"max_usd" required:"true" above:"0"`
}

// Holdout lets a share of the runs go the baseline's way, so that what the policy saves, and what it
// does to success, is measured.
type Holdout struct {
	// Share of runs that go the baseline's way, in [0, 1]. A run is what the program names as one; without that a conversation, or a step.
	Share float64 `policy:"share" min:"0" max:"1" default:"0.05"`
	// Which runs these are: another number draws others. Processes with the same number draw the same.
	Seed int `policy:"seed" min:"0"`
	// All runs go the baseline's way once the policy is seen to be worse or dearer, until the process or the policy begins anew.
	Fallback bool `policy:"fallback"`
}

// Trace says where the record of each step goes.
type Trace struct {
	// JSON-lines file, relative to the policy file; none when absent.
	File string `policy:"file"`
	// SQLite file, relative to the policy file, or the postgres:// URL of a database that machines share; none when absent.
	Database string `policy:"database"`
	// Size at which the JSON-lines file is set aside and a new one begun.
	MaxSize Bytes `policy:"max_size" above:"0" default:"64MiB"`
	// How many files that were set aside are kept: FILE.1 is the newest, and the oldest is deleted for it. 0 keeps none.
	MaxFiles int `policy:"max_files" min:"0" max:"1000" default:"1"`
	// Records the last text of the user.
	Prompts bool `policy:"prompts"`
	// Records the texts of answers.
	Answers bool `policy:"answers"`
	// Records the alternatives of each decision.
	Explain bool `policy:"explain"`
	// Share of steps, in [0, 1], that ask one further model, drawn from those that the strategy left out, so that
	// later fits learn of models that are seldom asked. It costs that share of their mean price per step.
	Explore float64 `policy:"explore" min:"0" max:"1"`
}

// Retention says how long databases keep what nobody needs any more: `trace.database`, `budget.ledger` and the store
// of `stepfall serve --store`. It is deleted in small batches, every ten minutes by one of the processes, and by
// `stepfall prune`. 0s keeps it for ever, as everything but jobs is without the block.
type Retention struct {
	// Records of steps, from when the step began. Sums by day stay.
	Traces time.Duration `policy:"traces" min:"0" default:"2160h"`
	// Accounts and sums of runs, from their newest step (where steps are not recorded in the store, accounts from when the run began), and accounts of periods that are over. What a
	// cap may still go by stays.
	Accounts time.Duration `policy:"accounts" min:"0" default:"2160h"`
	// Conversations that were idle for longer than `session.idle_timeout`, and other notes that processes share, from when they ended.
	Sessions time.Duration `policy:"sessions" min:"0" default:"1h"`
	// Runs of a queue with the results of their jobs, from when somebody last waited for them.
	Jobs time.Duration `policy:"jobs" min:"0" default:"168h"`
}

// SDKModels returns the models in the vocabulary of package sdk, in the order of
// the policy: strategies' indexes refer to it.
func (p *Policy) SDKModels() []sdk.Model {
	models := make([]sdk.Model, len(p.Models))
	for i := range p.Models {
		models[i] = p.Models[i].SDK()
	}
	return models
}

// Locate returns a path of the policy as seen from the process: relative ones begin in
// the folder of the policy file.
func (p *Policy) Locate(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(p.Path, libraryPrefix) {
		return path
	}
	return filepath.Join(filepath.Dir(p.Path), path)
}
