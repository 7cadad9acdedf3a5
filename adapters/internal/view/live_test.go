package view

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// recorded are steps in the order of recording. Their Seq is their place, from 1.
type recorded struct {
	store.TraceReader
	mu     sync.Mutex
	starts []time.Time
}

func (r *recorded) LastSeq(context.Context) (int64, error) { return int64(len(r.starts)), nil }

func (r *recorded) Follow(_ context.Context, after int64, _ store.Filter) (list []store.Step, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := after; i < int64(len(r.starts)); i++ {
		list = append(list, store.Step{Seq: i + 1, Start: r.starts[i]})
	}
	return list, nil
}

func (r *recorded) Steps(context.Context, store.Filter) ([]store.Step, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := store.Step{Seq: 1, Start: r.starts[0]}
	for i, start := range r.starts {
		if start.After(newest.Start) {
			newest = store.Step{Seq: int64(i + 1), Start: start}
		}
	}
	return []store.Step{newest}, nil
}

// Steps that were recorded after the one that started last, such as another machine's, are not new to a page that is
// opened later.
func TestOldStepsAreNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		steps := &recorded{starts: []time.Time{start, start.Add(-time.Hour), start.Add(-time.Minute)}}
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			newViewer(Options{Traces: steps}).live(w, httptest.NewRequest(http.MethodGet, "/live", nil).WithContext(ctx))
		}()
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		steps.mu.Lock()
		steps.starts = append(steps.starts, time.Now())
		steps.mu.Unlock()
		time.Sleep(time.Second)
		cancel()
		<-ended
		if got := w.Body.String(); strings.Count(got, "event: steps") != 1 || !strings.Contains(got, "data: 1\n") {
			t.Errorf("announced %q, want one step", got)
		}
	})
}
