package store_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// posted is an engine that passes on the notes that are posted.
type posted struct {
	stuck
	notes chan string
}

func (p *posted) Post(_ context.Context, _, _ string, note []byte, _ time.Duration) error {
	p.notes <- string(note)
	return nil
}

// Replicas of the version before read from the note of a circuit until when it is open.
func TestTheVersionBeforeReadsCircuits(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		engine := &posted{notes: make(chan string, 1)}
		shared := store.Share(engine, "postgres://posted/"+t.Name(), nil)
		until := time.Now().Add(time.Minute)
		shared.Opened("small", until)
		note := <-engine.notes
		if ns, err := strconv.ParseInt(note, 10, 64); err != nil || !time.Unix(0, ns).Equal(until) {
			t.Errorf("posted %q, %v, want the time %v", note, err, until)
		}
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
}
