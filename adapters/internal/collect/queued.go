package collect

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// QueueKind is the kind of a collection's call in a queue.
const QueueKind = "collect"

// Job runs the calls of a collection on the workers of a queue, see [Kind]. Folders that tasks name are sent along.
type Job struct {
	Run    *queue.Run
	Queue  *queue.Queue
	Policy queue.Policy
	// CapUSD is the most that the run's workers may spend together; 0 means no cap.
	CapUSD float64

	mu    sync.Mutex
	trees map[string]string // parcel names by folder
}

// callArgs are the arguments of a call's job.
type callArgs struct {
	Policy queue.Policy `json:"policy"`
	Model  string       `json:"model"`
	Task   Task         `json:"task"`
	// Tree is the parcel of the task's WorkDir.
	Tree   string  `json:"tree,omitempty"`
	CapUSD float64 `json:"cap_usd,omitempty"`
}

func (q *Job) ask(ctx context.Context, t *Task, model string) (_ *answer, err error) {
	args := callArgs{Policy: q.Policy, Model: model, Task: *t, CapUSD: q.CapUSD}
	if args.Tree, err = q.tree(ctx, t.WorkDir); err != nil {
		return nil, err
	}
	args.Task.WorkDir = ""
	// The name covers everything that the outcome depends on, which excludes the cap.
	named := args
	named.CapUSD = 0
	text, err := json.Marshal(named)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	done, err := q.Run.Do(ctx, queue.Ticket{Kind: QueueKind, Name: model + "/" + t.QueryID + "@" + hex.EncodeToString(sum[:8]), Args: args})
	if failed, ok := errors.AsType[*queue.FailedError](err); ok {
		return &answer{Error: failed.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	a := &answer{}
	if err := done.Decode(a); err != nil {
		return nil, err
	}
	if a.Outcome != nil {
		a.Outcome.Worker = done.Worker
	}
	return a, nil
}

// tree sends a folder, once, and returns its parcel.
func (q *Job) tree(ctx context.Context, dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if name := q.trees[dir]; name != "" {
		return name, nil
	}
	name, err := q.Queue.SendTree(ctx, dir)
	if err != nil {
		return "", err
	}
	if q.trees == nil {
		q.trees = map[string]string{}
	}
	q.trees[dir] = name
	return name, nil
}

// Kind returns the queue kind that makes calls for collections, parallel at once.
func Kind(routers *queue.RouterCache, cache *queue.Cache, parallel int) queue.Kind {
	return queue.Kind{Parallel: parallel, Do: func(ctx context.Context, j *queue.Job) (queue.Outcome, error) {
		var a callArgs
		if err := j.Decode(&a); err != nil {
			return queue.Outcome{}, err
		}
		return a.call(ctx, j, routers, cache)
	}}
}

func (a *callArgs) call(ctx context.Context, j *queue.Job, routers *queue.RouterCache, cache *queue.Cache) (queue.Outcome, error) {
	if a.Tree != "" {
		var err error
		if a.Task.WorkDir, err = cache.Tree(ctx, a.Tree); err != nil {
			return queue.Outcome{}, err
		}
	}
	missing := false
	r, done, err := routers.Use(ctx, a.Policy, fmt.Sprintf("collect %s %v", a.Model, a.CapUSD), func(p *policies.Policy) {
		i := slices.IndexFunc(p.Models, func(m policies.Model) bool { return m.Name == a.Model })
		if missing = i < 0; missing {
			return
		}
		routeToModel(p, i)
		p.Budget.RunUSD = a.CapUSD
	})
	if err != nil {
		return queue.Outcome{}, err
	}
	defer done()
	if missing {
		return queue.Outcome{}, fmt.Errorf("the policy has no model %s", a.Model)
	}
	// A call in flight is paid for, so it is finished: the next command on the same file gets its result.
	out := askModel(context.WithoutCancel(ctx), r, &a.Task, a.Model, j.Run)
	if errors.Is(out.cause, sdk.ErrStoreUnavailable) {
		return queue.Outcome{}, out.cause
	}
	return queue.Outcome{Output: out, Again: out.Outcome == nil}, nil
}

// QueuedRun returns the name of the queue's run that fills an outcome file: a new one for a new file, and the same
// one when the file is resumed. The caller calls forget when the file is complete. spentUSD is the cost of the file's
// outcomes that were made outside that run.
func QueuedRun(out string) (id string, spentUSD float64, forget func(), err error) {
	note := out + ".queue"
	forget = func() { _ = os.Remove(note) } // a leftover note without its file is ignored
	_, fresh := os.Stat(out)
	file, err := openFile(out)
	if err != nil {
		return "", 0, nil, err
	}
	defer file.log.Close()
	if fresh == nil {
		if text, err := os.ReadFile(note); err == nil && strings.HasPrefix(string(text), runName+"-") {
			return strings.TrimSpace(string(text)), file.spentUSD - file.queuedUSD, forget, nil
		}
	}
	id = runName + "-" + rand.Text()
	return id, file.spentUSD, forget, os.WriteFile(note, []byte(id+"\n"), 0o600)
}
