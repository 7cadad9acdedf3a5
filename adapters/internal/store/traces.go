package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Traces stores the records of steps and sums over them.
type Traces interface {
	TraceReader
	// Record writes traces, and adds them to the sums. A trace whose id exists is skipped, so a batch whose answer
	// was lost can be written again. Traces that can never be written are left out and the rest is written; the error
	// is then a [*LeftOutError]. After any other error the same traces can be passed again.
	Record(ctx context.Context, entries []Entry) error
}

// TraceReader finds steps and sums over them. It is safe for concurrent use.
//
// Lists read narrow rows through an index. Sums read tables that Record maintains, one row per day, tenant, key,
// policy and model: a million steps take no longer than a thousand.
type TraceReader interface {
	// Trace returns the whole record of a step, or an error that wraps ErrNotFound. id can be a unique prefix.
	Trace(ctx context.Context, id string) (*sdk.Trace, error)
	// Whole returns the whole records of steps by id, in any order; unknown ids are skipped.
	Whole(ctx context.Context, ids []string) ([]*sdk.Trace, error)
	// Steps returns the steps that the filter selects, newest first; see [Filter.Before] for the next page.
	Steps(ctx context.Context, f Filter) ([]Step, error)
	// Follow returns the steps recorded after the one with this Seq, oldest first; 0 starts at the beginning. It does
	// not block: poll with the last Seq received.
	Follow(ctx context.Context, after int64, f Filter) ([]Step, error)
	// LastSeq returns the Seq of the step recorded last, which need not be the one that started last, or 0.
	LastSeq(ctx context.Context) (int64, error)
	// Sums adds up what the filter selects: one row for each combination of the dimensions, or a single row without
	// dimensions. It uses the fields Since, Until (whole days, UTC), Tenant, Key, Policy and Model. Without [ByModel]
	// a row counts whole steps, with it the calls of one model.
	Sums(ctx context.Context, by []Dimension, f Filter) ([]Sum, error)
	// Runs returns the sums of runs, the run with the newest step first. It uses the fields Since, Until (of the
	// newest step), Tenant, Run and Limit.
	Runs(ctx context.Context, f Filter) ([]Sum, error)
}

// Entry is a trace to be recorded.
type Entry struct {
	Trace *sdk.Trace
	// Key is the id of the key that the step was made with, or empty.
	Key string
	// JSON is the encoded trace; with nil the store encodes it.
	JSON []byte
}

// LeftOutError lists the traces that were left out of a batch whose rest was written, such as those with numbers that
// JSON cannot express or too large for the engine.
type LeftOutError struct {
	// Reasons has one error for each of the traces, with its id.
	Reasons []error
}

// Error returns the first few reasons.
func (e *LeftOutError) Error() string {
	const few = 3
	text := fmt.Sprintf("%d traces cannot be written and were dropped: ", len(e.Reasons))
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
	// Chosen is the model whose answer was returned; Model is any model that was asked.
	Chosen, Model string
	// Stop is why the step ended.
	Stop sdk.StopReason
	// Outcome is the verdict on the returned answer: "passed", "failed" or "inconclusive".
	Outcome string
	// Failed selects steps without an answer, Escalated those that asked another model after an answer.
	Failed, Escalated bool
	// Text is searched for in the first 400 bytes of prompts, in ids and in errors; this takes time in proportion to
	// the steps that the other fields select.
	Text string
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
	// Before continues a list after its last step on the previous page.
	Before *Step
	// Limit bounds the result; 0 means 100.
	Limit int
}

// Step is one line of a list: a trace without its decisions and texts.
type Step struct {
	// Seq increases with each recorded step.
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
	// Asked lists the models in the order of their first call.
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

// Dimension is what sums are grouped by.
type Dimension string

// The dimensions of sums.
const (
	ByDay    Dimension = "day"
	ByTenant Dimension = "tenant"
	ByKey    Dimension = "key"
	ByPolicy Dimension = "policy"
	ByModel  Dimension = "model"
)

// Sum adds up steps, or the calls of one model. Fields outside its dimensions are empty.
type Sum struct {
	// Day is the day in UTC, such as 2026-11-21.
	Day    string `json:"day,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key,omitempty"`
	Policy string `json:"policy,omitempty"`
	Model  string `json:"model,omitempty"`
	// Run, First and Last are set in sums of runs; First and Last are the starts of the oldest and the newest step.
	Run   string    `json:"run,omitempty"`
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`

	// Steps counts steps; for a model, those whose answer it gave.
	Steps int64 `json:"steps"`
	// Failed counts steps without an answer; for a model, calls with an error.
	Failed int64 `json:"failed"`
	// Escalated counts steps that asked another model after an answer; see middleware.HasEscalated.
	Escalated int64 `json:"escalated"`
	Calls     int64 `json:"calls"`
	// Passed, Rejected and Inconclusive count verdicts on answers.
	Passed       int64   `json:"passed"`
	Rejected     int64   `json:"rejected"`
	Inconclusive int64   `json:"inconclusive"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	// Duration is the total time of the steps, or calls; Overhead is the part spent in stepfall itself.
	Duration time.Duration `json:"duration_ns"`
	Overhead time.Duration `json:"overhead_ns"`
}

// RowBytes bounds the JSON of a step. In a larger one the longest texts are truncated, with a mark that gives the
// original size; where that does not suffice, alternatives of decisions, labels, and the names of tools and of
// omitted content are removed.
const RowBytes = 1 << 20

// Encode returns a trace as JSON of at most [RowBytes].
func Encode(t *sdk.Trace) ([]byte, error) {
	const least = 1 << 10 // in bytes
	body, err := json.Marshal(t)
	for budget := RowBytes / 2; err == nil && len(body) > RowBytes; budget = max(budget/4, least) {
		own := cutTexts(t, budget)
		if budget == least {
			own.Labels, own.Tools = map[string]string{"cut": "labels, alternatives and lists of names are left out"}, nil
			for i := range own.Decisions {
				own.Decisions[i].Alternatives = nil
			}
			for i := range own.Calls {
				own.Calls[i].NotSent, own.Calls[i].Tools = nil, nil
			}
		}
		if body, err = json.Marshal(own); budget == least && len(body) > RowBytes {
			return nil, fmt.Errorf("it has %d bytes without its texts, more than %d", len(body), RowBytes)
		}
	}
	return body, err
}

// cutTexts returns a copy of a trace whose texts are truncated to about budget bytes together.
func cutTexts(t *sdk.Trace, budget int) *sdk.Trace {
	own := *t
	own.Calls = slices.Clone(t.Calls)
	own.Decisions = slices.Clone(t.Decisions)
	texts := []*string{&own.Prompt, &own.Error}
	evidence := func(v **sdk.Verdict) {
		if *v != nil {
			own := **v
			*v, texts = &own, append(texts, &own.Evidence)
		}
	}
	evidence(&own.Verdict)
	for i := range own.Calls {
		c := &own.Calls[i]
		texts = append(texts, &c.Answer, &c.Error)
		evidence(&c.Verdict)
	}
	for i := range own.Decisions {
		texts = append(texts, &own.Decisions[i].Note)
	}
	// From the shortest on, each text gets an equal share of what remains.
	slices.SortFunc(texts, func(a, b *string) int { return len(*a) - len(*b) })
	for i, text := range texts {
		share := budget / (len(texts) - i)
		if n := len(*text); n > share {
			*text = strings.ToValidUTF8((*text)[:share], "") + fmt.Sprintf("\n[cut: the first %d of %d bytes]", share, n)
		}
		budget -= min(share, len(*text))
	}
	return &own
}
