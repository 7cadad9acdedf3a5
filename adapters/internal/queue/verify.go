package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/stepfall/stepfall/sdk"
)

// VerifyKind is the kind of jobs that verify an answer.
const VerifyKind = "verify"

// verifyArgs are the arguments of a verification job.
type verifyArgs struct {
	Policy Policy `json:"policy"`
	// Block is the name of the verifier's block.
	Block   string        `json:"block"`
	Query   *sdk.Query    `json:"query"`
	Answer  *sdk.Answer   `json:"answer"`
	Earlier []sdk.Attempt `json:"earlier,omitempty"`
	// Tree is the parcel with the query's WorkDir.
	Tree string `json:"tree,omitempty"`
}

// verifyResult is the output of a verification job.
type verifyResult struct {
	Verdict *sdk.Verdict `json:"verdict,omitempty"`
	// Error is the verifier's own error, and USD its cost nevertheless.
	Error string  `json:"error,omitempty"`
	USD   float64 `json:"usd,omitempty"`
}

// Verifiers runs the verifiers of a policy on workers, where their plugins are, instead of in this process; it goes
// to [router.Options]. The work tree of a query is sent along. Closing the run cancels the jobs.
func (r *Run) Verifiers(p Policy) func(block string) sdk.Verifier {
	var n atomic.Int64
	return func(block string) sdk.Verifier {
		return sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
			args := verifyArgs{Policy: p, Block: block, Query: req.Query, Answer: req.Answer, Earlier: req.Earlier}
			if req.Query != nil && req.Query.WorkDir != "" {
				var err error
				if args.Tree, err = r.q.SendTree(ctx, req.Query.WorkDir); err != nil {
					return nil, err
				}
			}
			done, err := r.Do(ctx, Ticket{Kind: VerifyKind, Name: "answer-" + strconv.FormatInt(n.Add(1), 10), Args: args, Transient: true})
			if err != nil {
				return nil, err
			}
			var v verifyResult
			if err := done.Decode(&v); err != nil {
				return nil, err
			}
			if v.Error != "" {
				return nil, &paidError{error: errors.New(v.Error), usd: v.USD}
			}
			return v.Verdict, nil
		})
	}
}

type paidError struct {
	error
	usd float64
}

func (e *paidError) SpentUSD() float64 { return e.usd }

// Verify returns the kind that verifies answers, parallel at once.
func (c *RouterCache) Verify(parallel int) Kind {
	return Kind{Parallel: parallel, Poll: c.cache.q.t.poll / 2, Do: c.verify}
}

func (c *RouterCache) verify(ctx context.Context, j *Job) (Outcome, error) {
	var a verifyArgs
	if err := j.Decode(&a); err != nil {
		return Outcome{}, err
	}
	r, done, err := c.Use(ctx, a.Policy, "", nil)
	if err != nil {
		return Outcome{}, err
	}
	defer done()
	if a.Query != nil {
		a.Query.WorkDir = ""
	}
	if a.Tree != "" {
		if a.Query.WorkDir, err = c.cache.Tree(ctx, a.Tree); err != nil {
			return Outcome{}, err
		}
	}
	for _, v := range r.Config().Step.Verifiers {
		if v.Name != a.Block {
			continue
		}
		verdict, err := v.Verifier.Verify(ctx, &sdk.VerifyRequest{Query: a.Query, Answer: a.Answer, Earlier: a.Earlier})
		if ctx.Err() != nil {
			return Outcome{}, ctx.Err()
		}
		if err != nil {
			return Outcome{Output: verifyResult{Error: err.Error(), USD: sdk.SpentUSD(err)}}, nil
		}
		return Outcome{Output: verifyResult{Verdict: verdict}}, nil
	}
	return Outcome{}, fmt.Errorf("the policy has no verifier %s", strconv.Quote(a.Block))
}
