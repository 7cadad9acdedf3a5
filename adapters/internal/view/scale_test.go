package view

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
)

// scaleSteps is the number of steps of TestScale; 0 skips it.
var scaleSteps = flag.Int("steps", 0, "how many steps TestScale writes and looks at")

// slow bounds the median time of a page.
const slow = 200 * time.Millisecond

// Overview and lists take as long with a million steps as with a thousand.
func TestScale(t *testing.T) {
	if *scaleSteps == 0 {
		t.Skip("make scale runs it")
	}
	t.Run("sqlite", func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "traces.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		measureScale(t, s)
	})
	t.Run("postgres", func(t *testing.T) {
		s, err := postgres.Open(t.Context(), pgtest.Start(t, "fsync=off").Database(t))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		measureScale(t, s)
	})
}

func measureScale(t *testing.T, s store.Traces) {
	began := time.Now()
	ids := fill(t, s, *scaleSteps)
	t.Logf("%d steps written, %.0f a second", *scaleSteps, float64(*scaleSteps)/time.Since(began).Seconds())
	h := New(Options{Traces: s, Source: "test"})
	day := fleetBegin.AddDate(0, 0, 3).Format(time.DateOnly)
	for _, path := range []string{
		"/", "/?tenant=blue-7", "/?since=" + day + "&until=" + day,
		"/steps", "/steps?tenant=green-3", "/steps?model=pro", "/steps?model=none", "/steps?model=once", "/steps?chosen=pro", "/steps?failed=1", "/steps?escalated=1",
		"/steps?outcome=failed", "/steps?stop=budget", "/steps?run=agent-007-3", "/steps?since=" + day + "&until=" + day, "/steps?tenant=none",
		"/steps?tenant=blue-7&model=pro&escalated=1", "/steps?run=agent-007-3&chosen=pro", "/steps?text=nightly", "/steps?text=nowhere", "/runs", "/runs?tenant=orange-9", "/run?name=agent-007-3",
		"/step?id=" + ids[len(ids)/2], "/trust",
	} {
		var took []time.Duration
		for range 7 {
			w := httptest.NewRecorder()
			start := time.Now()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			took = append(took, time.Since(start))
			if w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		first := took[0]
		slices.Sort(took)
		median := took[len(took)/2]
		t.Logf("%-50s first %6.1f ms, median %6.1f ms", path, first.Seconds()*1e3, median.Seconds()*1e3)
		if median > slow {
			t.Errorf("%s takes %v at the median", path, median)
		}
	}
}

// fill writes n steps of a synthetic fleet over 30 days, of 60 tenants and with 14 steps per run, and returns some of
// their ids.
func fill(t *testing.T, s store.Traces, n int) (ids []string) {
	pattern := fleetTraces(2000, 1)
	gap := 30 * 24 * time.Hour / time.Duration(n)
	for at := 0; at < n; {
		var batch []*sdk.Trace
		for ; at < n && len(batch) < 2000; at++ {
			one := *pattern[at%len(pattern)]
			round := at / len(pattern)
			one.ID = fmt.Sprintf("%016x", uint64(at)*0x9e3779b97f4a7c15)
			one.Start = fleetBegin.Add(time.Duration(at) * gap)
			one.Tenant = fmt.Sprintf("%s-%d", one.Tenant, round%20)
			one.Run = fmt.Sprintf("%s-%d", one.Run, round)
			batch = append(batch, &one)
		}
		if err := s.Record(context.Background(), entriesOf(batch)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, batch[0].ID)
	}
	// A model that was asked once, when half of the steps were there.
	one := *pattern[0]
	one.ID, one.Start, one.Calls = "once", fleetBegin.Add(15*24*time.Hour), slices.Clone(one.Calls)
	for i := range one.Calls {
		one.Calls[i].Model = "once"
	}
	if err := s.Record(context.Background(), []store.Entry{{Trace: &one}}); err != nil {
		t.Fatal(err)
	}
	return ids
}
