package collect

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/filelock"
	"github.com/stepfall/stepfall/sdk"
)

// Outcome is the result of one model on one task, a line of the outcome file.
type Outcome struct {
	QueryID      string  `json:"query_id"`
	Group        string  `json:"group,omitempty"`
	Prompt       string  `json:"prompt,omitempty"`
	Model        string  `json:"model"`
	Quality      float64 `json:"quality"`
	CostUSD      float64 `json:"cost_usd"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	// EstimatedInputTokens is the router's estimate of the prompt's length, by which a profile predicts costs in
	// use; of a run of an agent that of its first step.
	EstimatedInputTokens int     `json:"estimated_input_tokens,omitempty"`
	LatencySeconds       float64 `json:"latency_seconds"`
	Answer               string  `json:"answer"`
	// Verdict is the verdict on the answer, with its confidence.
	Verdict *sdk.Verdict `json:"verdict,omitempty"`
	// Signals are the signals of the answer; see sdk.Answer.
	Signals map[string]float64 `json:"signals,omitempty"`
	// Worker is the queue worker that made the call, if any.
	Worker string `json:"worker,omitempty"`
}

type key struct{ query, model string }

// file is the outcome file: append-only, each line synced.
type file struct {
	mu   sync.Mutex
	log  *filelock.Log
	done map[key]bool
	// spentUSD is the cost of the outcomes in the file, and queuedUSD of those made by workers.
	spentUSD, queuedUSD float64
}

// openFile opens or creates an outcome file. A line that is no outcome is an error.
func openFile(path string) (o *file, err error) {
	o = &file{done: map[key]bool{}}
	o.log, err = filelock.OpenLog(path, o.load)
	return o, err
}

func (o *file) load(line []byte) error {
	var row Outcome
	if err := json.Unmarshal(line, &row); err != nil || row.QueryID == "" || row.Model == "" {
		return errors.Join(errors.New("is not an outcome of stepfall collect"), err)
	}
	o.done[key{row.QueryID, row.Model}] = true
	o.spentUSD += row.paidUSD()
	if row.Worker != "" {
		o.queuedUSD += row.paidUSD()
	}
	return nil
}

// paidUSD returns the cost of the calls, the verdict and the signals.
func (o *Outcome) paidUSD() float64 {
	usd := o.CostUSD
	if o.Verdict != nil {
		usd += o.Verdict.CostUSD
	}
	for name, price := range o.Signals {
		if strings.HasSuffix(name, sdk.SignalCostUSD) {
			usd += price
		}
	}
	return usd
}

// add appends an outcome and syncs the file.
func (o *file) add(row *Outcome) error {
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.log.Append(text, true)
}
