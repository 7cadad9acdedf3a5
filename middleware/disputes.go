package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/step"
)

// AddFeatures adds to the query's features the number of earlier steps of its run in which answers
// differed or were rejected, if [SessionConfig.CountDisputes] is set, and, with [SessionConfig.DoubtUpTo],
// how often two answers that call each tool differ.
func (s *Sessions) AddFeatures(q *sdk.Query) {
	if n := s.disputes(q); n > 0 {
		q.Features[feature.DisputedSteps] = float64(n)
	}
	if s.c.DoubtUpTo > 0 {
		s.memory.doubts.addFeatures(q, s.c.DoubtUpTo)
	}
}

func (s *Sessions) disputes(q *sdk.Query) int {
	if !s.c.CountDisputes {
		return 0
	}
	run, isFirst := runKey(q)
	if run == "" || isFirst {
		return 0
	}
	s.loadShared(run)
	shard := s.shard(run)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	known := shard.byID[run]
	if known == nil || s.now().Sub(known.used) > s.c.IdleTimeout {
		return 0
	}
	return known.disputes
}

// RecordDispute counts the step of a query if its answers differed or one was rejected. For a step
// decided by the policy, it also records the cost and whether the answers that call each tool differed.
func (s *Sessions) RecordDispute(q *sdk.Query, result *step.Result) {
	i := slices.IndexFunc(s.models, func(m sdk.Model) bool { return m.Name == s.c.Dearest })
	if i >= 0 && s.c.DoubtUpTo > 0 && result.Answer != nil && result.IsDecided {
		s.memory.doubts.record(result, &s.models[i])
	}
	if !s.c.CountDisputes {
		return
	}
	run, isFirst := runKey(q)
	disputed := isDisputed(result)
	if run == "" || !disputed && !isFirst {
		return
	}
	shard := s.shard(run)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.byID[run] == nil && !disputed {
		return
	}
	known := s.sessionFor(shard, run)
	known.used = s.now()
	if isFirst {
		known.disputes = 0
	}
	if disputed {
		known.disputes++
	}
	s.saveShared(run, known)
}

func isDisputed(result *step.Result) bool {
	for i := range result.Attempts {
		a := &result.Attempts[i]
		if a.Verdict != nil && a.Verdict.Outcome == sdk.Failed || feature.AnswerKey(&a.Answer) != feature.AnswerKey(&result.Attempts[0].Answer) {
			return true
		}
	}
	return false
}

// runKey returns the key of a query's run: the caller's name for it, or else its conversation, for which
// isFirst reports that it has no answer yet. The key is empty for a query without messages.
func runKey(q *sdk.Query) (key string, isFirst bool) {
	tenant := strconv.Quote(q.Tenant)
	switch name := q.RunName(); {
	case name != "":
		return "run " + tenant + " " + name, false
	case q.Conversation != "":
		return "conversation " + tenant + " " + q.Conversation, q.Features[featureTurn] == 0
	}
	return "", false
}

// conversationDigest returns a digest of the messages before the first answer; "" without messages.
func conversationDigest(list []sdk.Message) string {
	if len(list) == 0 {
		return ""
	}
	sum := sha256.New()
	for i := range list {
		if list[i].Role == sdk.RoleAssistant {
			break
		}
		for _, p := range list[i].Parts {
			sum.Write([]byte(p.Text[:min(len(p.Text), scanWindow)]))
			sum.Write([]byte(strconv.Itoa(len(p.Text)) + "\n"))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
