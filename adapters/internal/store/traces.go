package store

import (
	"context"
	"fmt"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Traces keep the records of steps and sums over them.
type Traces interface {
	TraceReader
	// Record writes traces, and adds them to the sums. A trace whose id is there
	// already is left out, so that a batch whose answer was lost may be written again.
	// Traces that can never be written are left out, and the rest is: the error then is a
	// [*LeftOutError]. After any other error the same traces may be given again.
	Record(ctx context.Context, entries []Entry) error
}

// TraceReader finds steps and sums over them, for several callers at one time.
//
// Lists read narrow rows by an index on what they select by, and sums read tables
// that were summed up when the traces came, one row for each day, tenant, key,
// policy and model: a million steps take no longer than a thousand.
type TraceReader interface {
	// Trace returns the whole record of a step, or an error that is ErrNotFound. The id
	// may be the beginning of one, when only one begins so.
	Trace(ctx context.Context, id string) (*sdk.Trace, error)
	// Whole returns the whole records of steps by id, in any order; those that are not
	// there are left out.
	Whole(ctx context.Context, ids []string) ([]*sdk.Trace, error)
	// Steps returns what the filter selects, the newest first; see [Filter.Before] for
	// the next page.
	Steps(ctx context.Context, f Filter) ([]Step, error)
	// Follow returns the steps that were recorded after the one with this Seq, the
	// oldest first; 0 is from the beginning. It returns at once: ask again with the
	// last Seq that came.
	Follow(ctx context.Context, after int64, f Filter) ([]Step, error)
	// Sums adds up what the filter selects, a row for each value of the dimensions,
	// without dimensions one row. Of the filter Since, Until (whole days, UTC), Tenant,
	// Key, Policy and Model count. Without [ByModel] a row is about whole steps, with
	// it about the calls of one model.
	Sums(ctx context.Context, by []Dimension, f Filter) ([]Sum, error)
	// Runs returns the sums of runs, the one with the newest step first. Of the filter
	// Since, Until (of the newest step), Tenant, Run and Limit count.
	Runs(ctx context.Context, f Filter) ([]Sum, error)
}

// Entry is a trace that is to be recorded.
type Entry struct {
	Trace *sdk.Trace
	// Key is the id of the key that the step was made with; empty is none.
	Key string
	// JSON is the trace as JSON where somebody has encoded it; nil has the store do so.
	JSON []byte
}

// LeftOutError says which traces were left out of a batch, of which the rest was
// written: numbers that JSON has no word for, more than the engine holds.
type LeftOutError struct {
	// Reasons has one error for each of them, with its id.
	Reasons []error
}

// Error gives the first few reasons.
func (e *LeftOutError) Error() string {
	const few = 3
	text := fmt.Sprintf("%d of the traces cannot be written and were left out: ", len(e.Reasons))
	for i, reason := range e.Reasons {
		if i == few {
			return text + "; ..."
		}
		if i > 0 {
			text += "; "
		}
		text += reason.Error()
	}
	return text
}

// Filter selects steps; zero fields select all.
type Filter struct {
	Run, Session, Tenant, Key, Policy, Mode string
	// Query is the id of the query.
	Query string
	// Chosen is the model whose answer was returned; Model one that was asked.
	Chosen, Model string
	// Stop is why the step ended.
	Stop sdk.StopReason
	// Outcome is what the verifiers said of the answer that was returned: "passed",
	// "failed" or "inconclusive".
	Outcome string
	// Failed selects steps without an answer, Escalated those that asked more than one model.
	Failed, Escalated bool
	// Text is looked for in the beginnings of prompts (400 bytes), in ids and errors; it
	// takes time in proportion to the steps that the rest of the filter selects.
	Text string
	// Since is inclusive, Until is not.
	Since, Until time.Time
	// Before continues a list below the step that was last on the page before.
	Before *Step
	// Limit is the most to return; 0 means 100.
	Limit int
}

// Step is one line of a list: a trace without its decisions and texts.
type Step struct {
	// Seq grows with each step that is recorded.
	Seq      int64     `json:"seq"`
	ID       string    `json:"id"`
	Start    time.Time `json:"start"`
	Policy   string    `json:"policy,omitempty"`
	Mode     string    `json:"mode,omitempty"`
	Strategy string    `json:"strategy,omitempty"`
	Tenant   string    `json:"tenant,omitempty"`
	Key      string    `json:"key,omitempty"`
	Run      string    `json:"run,omitempty"`
	Session  string    `json:"session,omitempty"`
	Query    string    `json:"query_id,omitempty"`
	// Asked are the models in the order in which they were first asked.
	Asked   []string       `json:"asked,omitempty"`
	Chosen  string         `json:"chosen,omitempty"`
	Stop    sdk.StopReason `json:"stop"`
	Outcome string         `json:"outcome,omitempty"`
	Error   string         `json:"error,omitempty"`
	// Prompt is the beginning of the prompt, where the policy records prompts.
	Prompt       string        `json:"prompt,omitempty"`
	Calls        int           `json:"calls"`
	InputTokens  int           `json:"input_tokens"`
	OutputTokens int           `json:"output_tokens"`
	CostUSD      float64       `json:"cost_usd"`
	Duration     time.Duration `json:"duration_ns"`
	Overhead     time.Duration `json:"overhead_ns"`
}

// Dimension is what sums are told apart by.
type Dimension string

// The dimensions of sums.
const (
	ByDay    Dimension = "day"
	ByTenant Dimension = "tenant"
	ByKey    Dimension = "key"
	ByPolicy Dimension = "policy"
	ByModel  Dimension = "model"
)

// Sum adds up steps, or the calls of one model. Fields that are no dimension of it
// are empty.
type Sum struct {
	// Day is the day in UTC, as 2026-11-21.
	Day    string `json:"day,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key,omitempty"`
	Policy string `json:"policy,omitempty"`
	Model  string `json:"model,omitempty"`
	// Run, First and Last are set in sums of runs: when its first and its newest step began.
	Run   string    `json:"run,omitempty"`
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`

	// Steps counts steps; of a model, those whose answer it gave.
	Steps int64 `json:"steps"`
	// Failed counts steps without an answer; of a model, calls with an error.
	Failed int64 `json:"failed"`
	// Escalated counts steps that asked more than one model.
	Escalated int64 `json:"escalated"`
	Calls     int64 `json:"calls"`
	// Passed, Rejected and Inconclusive count verdicts on answers.
	Passed       int64   `json:"passed"`
	Rejected     int64   `json:"rejected"`
	Inconclusive int64   `json:"inconclusive"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	// Duration is the time of all steps, or calls, together; Overhead that of
	// stepfall itself.
	Duration time.Duration `json:"duration_ns"`
	Overhead time.Duration `json:"overhead_ns"`
}
