package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

func keys(t *testing.T, e engine) {
	s := e.Open(t)
	now := time.Now().UTC().Truncate(time.Second)
	k := &store.Key{ID: "k1", Tenant: "acme", Created: now, CapUSD: 5, RequestsPerMinute: 3}
	must(t, s.PutKey(t.Context(), k, []byte("one"), now))
	got, err := e.Open(t).KeyByDigest(t.Context(), []byte("one"))
	must(t, err)
	if diff := cmp.Diff(k, got); diff != "" || !got.Valid(now) {
		t.Error(diff)
	}
	if _, err := s.KeyByDigest(t.Context(), []byte("two")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown secret gives %v", err)
	}
	// A new secret; the first one ends in an hour.
	must(t, s.PutKey(t.Context(), k, []byte("two"), now.Add(time.Hour)))
	first, err := s.KeyByDigest(t.Context(), []byte("one"))
	must(t, err)
	second, err := s.KeyByDigest(t.Context(), []byte("two"))
	must(t, err)
	if !first.Valid(now) || first.Valid(now.Add(time.Hour)) || !second.Valid(now.Add(time.Hour)) {
		t.Errorf("the first %+v, the second %+v", first, second)
	}
	k.Revoked = now
	must(t, s.PutKey(t.Context(), k, nil, time.Time{}))
	if got, err := s.KeyByDigest(t.Context(), []byte("two")); err != nil || got.Valid(now) {
		t.Errorf("a revoked key is %+v, %v", got, err)
	}
	must(t, s.PutKey(t.Context(), &store.Key{ID: "k0"}, []byte("three"), now))
	list, err := s.ListKeys(t.Context(), "")
	if must(t, err); len(list) != 2 || list[0].ID != "k0" {
		t.Errorf("got %+v", list)
	}
	if list, err := s.ListKeys(t.Context(), "k1"); err != nil || len(list) != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

func notes(t *testing.T, e engine) {
	s, other := e.Open(t), e.Open(t)
	must(t, s.Post(t.Context(), "circuit", "a", []byte("1"), time.Hour))
	must(t, s.Post(t.Context(), "circuit", "a", []byte("2"), time.Hour))
	must(t, s.Post(t.Context(), "circuit", "b", []byte("3"), time.Hour))
	must(t, s.Post(t.Context(), "circuit", "b", []byte("3"), -time.Hour))
	must(t, s.Post(t.Context(), "session", "a", []byte("4"), time.Hour))
	got, err := other.Notes(t.Context(), "circuit")
	must(t, err)
	if left := got["a"]; len(got) != 1 || left > time.Hour || left < 59*time.Minute {
		t.Errorf("got %v", got)
	}
	if note, err := other.Note(t.Context(), "session", "a"); string(note) != "4" || err != nil {
		t.Errorf("got %q, %v", note, err)
	}
	if note, err := other.Note(t.Context(), "circuit", "b"); note != nil || err != nil {
		t.Errorf("got %q, %v", note, err)
	}
}

// A claimed note belongs to one process until it expires; a note posted after a claim can be overwritten and deleted.
func claims(t *testing.T, e engine) {
	s, other := e.Open(t), e.Open(t)
	var wg sync.WaitGroup
	var won atomic.Int32
	for _, from := range []store.Store{s, other, s, other} {
		wg.Go(func() {
			mine, err := from.Claim(t.Context(), "answer", "a", []byte("running"), time.Hour)
			if err != nil {
				t.Error(err)
			}
			if mine {
				won.Add(1)
			}
		})
	}
	if wg.Wait(); won.Load() != 1 {
		t.Errorf("%d have claimed one name", won.Load())
	}
	must(t, s.Post(t.Context(), "answer", "a", []byte("done"), time.Hour))
	if mine, err := other.Claim(t.Context(), "answer", "a", []byte("running"), time.Hour); mine || err != nil {
		t.Errorf("claimed over an answer: %v, %v", mine, err)
	}
	if note, err := other.Note(t.Context(), "answer", "a"); string(note) != "done" || err != nil {
		t.Errorf("got %q, %v", note, err)
	}
	must(t, s.Post(t.Context(), "answer", "a", []byte{}, -time.Second))
	if mine, err := other.Claim(t.Context(), "answer", "a", []byte("running"), time.Hour); !mine || err != nil {
		t.Errorf("a name that was given up: %v, %v", mine, err)
	}
}

func numbers(t *testing.T, e engine) {
	var wg sync.WaitGroup
	for range 4 {
		s := e.Open(t)
		wg.Go(func() {
			for range 10 {
				if _, err := s.Add(t.Context(), "pace", "p", []float64{1, 0.5}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := e.Open(t).Add(t.Context(), "pace", "p", nil)
	if must(t, err); !slices.Equal(got, []float64{40, 20}) {
		t.Errorf("got %v", got)
	}
}
