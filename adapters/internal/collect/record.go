package collect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	f    *os.File
	done map[key]bool
	// spentUSD is the cost of the outcomes in the file, and queuedUSD of those made by workers.
	spentUSD, queuedUSD float64
}

// errLocked prevents two runs from paying for the same outcomes.
var errLocked = errors.New("another run is writing to this file")

// openFile opens or creates an outcome file, and locks it. It drops a last line that a kill cut off; any other line
// that is no outcome is an error.
func openFile(path string) (*file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := filelock.Take(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, errLocked), f.Close())
	}
	o := &file{f: f, done: map[key]bool{}}
	if err := o.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return o, nil
}

func (o *file) load() error {
	in, end := bufio.NewReader(o.f), int64(0)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			if err := o.f.Truncate(end); err != nil {
				return err
			}
			_, err := o.f.Seek(end, io.SeekStart)
			return err
		}
		if err != nil {
			return err
		}
		var row Outcome
		if err := json.Unmarshal(text, &row); err != nil || row.QueryID == "" || row.Model == "" {
			return errors.Join(fmt.Errorf("line %d is not an outcome of stepfall collect", line), err)
		}
		o.done[key{row.QueryID, row.Model}] = true
		o.spentUSD += row.paidUSD()
		if row.Worker != "" {
			o.queuedUSD += row.paidUSD()
		}
		end += int64(len(text))
	}
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
	if n, err := o.f.Write(append(text, '\n')); err != nil {
		return errors.Join(err, o.cut(n))
	}
	return o.f.Sync()
}

// cut removes the n bytes of a partially written line, as on a full disk: no line may follow half a line.
func (o *file) cut(n int) error {
	if n == 0 {
		return nil
	}
	end, err := o.f.Seek(-int64(n), io.SeekCurrent)
	if err != nil {
		return err
	}
	return o.f.Truncate(end)
}
