package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
)

// traces is a store that may be away.
type traces struct {
	store.Traces
	mu   sync.Mutex
	away bool
	have map[string]string // keys by id
}

func (s *traces) Record(_ context.Context, list []*sdk.Trace, keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errors.New("the store is away")
	}
	for i, t := range list {
		s.have[t.ID] = keys[i]
	}
	return nil
}

func (s *traces) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *traces) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.have)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What waits for the store when a process ends is written by the next one.
func TestTracesOutliveTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	s := &traces{away: true, have: map[string]string{}}
	first := store.NewBuffer(s, store.BufferOptions{Spool: dir, Wait: time.Millisecond})
	ctx := store.WithKey(t.Context(), &store.Key{ID: "k1"})
	for i := range 7 {
		first.Record(ctx, &sdk.Trace{ID: fmt.Sprint(i), CostUSD: 0.25})
	}
	// All of it is in the file before Record returns; nothing more is done by a kill.
	left := files(t, dir)
	if len(left) != 1 {
		t.Fatalf("files %v", left)
	}
	if info, err := os.Stat(left[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v %v", info.Mode(), err)
	}
	// As long as its process lives nobody takes it.
	other := store.NewBuffer(&traces{have: map[string]string{}}, store.BufferOptions{Spool: dir})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if now := files(t, dir); !slices.Equal(now, left) {
		t.Fatalf("a file in use was taken: %v", now)
	}
	if err := first.Close(); err == nil {
		t.Error("Close did not say that traces wait")
	}
	// Half a line, as a kill leaves it.
	f, err := os.OpenFile(left[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"key":"k1","trace":{"id":"ha`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s.set(false)
	second := store.NewBuffer(s, store.BufferOptions{Spool: dir, Batch: 3})
	eventually(t, "what was left is not written", func() bool { return s.count() == 7 && len(files(t, dir)) == 0 })
	if s.have["3"] != "k1" {
		t.Errorf("keys are lost: %v", s.have)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// The files of a process that lives shrink once the store has what is in them.
func TestASpoolIsEmptiedWhenTheStoreIsBack(t *testing.T) {
	dir := t.TempDir()
	s := &traces{away: true, have: map[string]string{}}
	b := store.NewBuffer(s, store.BufferOptions{Spool: dir, Wait: time.Millisecond})
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() { b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint(i)}) })
	}
	all.Wait()
	s.set(false)
	eventually(t, "traces are not written", func() bool { return s.count() == 200 })
	eventually(t, "the file was not emptied", func() bool {
		info, err := os.Stat(files(t, dir)[0])
		return err == nil && info.Size() == 0
	})
	// It is used again.
	s.set(true)
	for i := range 3 {
		b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint("again", i)})
	}
	s.set(false)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if s.count() != 203 || len(files(t, dir)) != 0 {
		t.Errorf("%d traces, files %v", s.count(), files(t, dir))
	}
}

// A folder that cannot be written to is told of once; traces wait in memory then.
func TestASpoolThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &traces{away: true, have: map[string]string{}}
	var mu sync.Mutex
	told := 0
	b := store.NewBuffer(s, store.BufferOptions{Spool: filepath.Join(dir, "spool"), Wait: -1, Fault: func(err error, _ int64) {
		mu.Lock()
		defer mu.Unlock()
		if err.Error() != "the store is away" {
			told++
		}
	}})
	for i := range 50 {
		b.Record(t.Context(), &sdk.Trace{ID: fmt.Sprint(i)})
	}
	s.set(false)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if s.count() != 50 {
		t.Errorf("%d traces", s.count())
	}
	if told == 0 || told > 3 {
		t.Errorf("told %d times", told)
	}
}
