package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// server is shared by the tests that do not stop it; each has a database of its own.
var server = pgtest.Server{Options: []string{"fsync=off"}}

func TestMain(m *testing.M) { server.Main(m) }

func opened(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestReplicasThatStartTogetherMigrateOnce(t *testing.T) {
	url := server.Database(t)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := Open(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Reserve(t.Context(), int64(i+1), []store.Charge{{Account: "a", Amount: 1}}, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := opened(t, url).Balances(t.Context(), "", 0); err != nil || len(list) != 1 || list[0].Reserved != 6 {
		t.Errorf("got %v, %v", list, err)
	}
}

func TestVersionsThatDifferByOne(t *testing.T) {
	url := server.Database(t)
	old, err := open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	use := func(s *Store, id int64) {
		t.Helper()
		if err := s.Reserve(t.Context(), id, []store.Charge{{Account: "a", Amount: 1, Cap: 10}}, time.Hour); err != nil {
			t.Error(err)
		}
		if err := s.Record(t.Context(), []store.Entry{{Trace: &sdk.Trace{ID: fmt.Sprint(id), Start: time.Now()}}}); err != nil {
			t.Error(err)
		}
	}
	use(old, 1)
	// A newer program brings the tables on; the old one works on, and starts anew.
	use(opened(t, url), 2)
	use(old, 3)
	again, err := open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	use(again, 4)
	// Where the tables say that they are beyond it, it says so.
	if _, err := old.pool.Exec(t.Context(), "INSERT INTO stepfall.migrations (version, oldest_program) VALUES (9, 2)"); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), url, 1); !errors.Is(err, store.ErrVersion) {
		t.Errorf("got %v", err)
	}
	opened(t, url)
}

func TestADatabaseThatIsAwayOrReplaced(t *testing.T) {
	c := pgtest.Start(t, "fsync=off")
	url := c.Database(t)
	s := opened(t, url)
	one := []store.Charge{{Account: "a", Amount: 1, Cap: 10}}
	if err := s.Reserve(t.Context(), 1, one, time.Hour); err != nil {
		t.Fatal(err)
	}
	// Connections that were cut are no fault of the caller's.
	if _, err := s.pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"); err != nil {
		t.Fatal(err)
	}
	if err := s.Reserve(t.Context(), 2, one, time.Hour); err != nil {
		t.Errorf("after a cut: %v", err)
	}
	if err := c.Down(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for name, err := range map[string]error{
		"reserving": s.Reserve(t.Context(), 3, one, time.Hour),
		"settling":  s.Settle(t.Context(), 1, nil),
		"recording": s.Record(t.Context(), []store.Entry{{Trace: &sdk.Trace{ID: "x", Start: time.Now()}}}),
		"looking":   s.Ping(t.Context()),
	} {
		if !errors.Is(err, sdk.ErrStoreUnavailable) {
			t.Errorf("%s gives %v", name, err)
		}
	}
	if _, err := Open(t.Context(), url); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("opening gives %v", err)
	}
	if took := time.Since(began); took > 5*time.Minute && !testing.Short() {
		t.Errorf("it took %v to say so", took)
	}
	if err := c.Up(); err != nil {
		t.Fatal(err)
	}
	if err := s.Reserve(t.Context(), 3, one, time.Hour); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if _, reserved := balanceOf(t, s, "a"); reserved != 3 {
		t.Errorf("reserved %d, want 3", reserved)
	}

	// Where a dead standby holds up each commit, and where a right is missing, requests and readiness fail alike.
	ready := func(s *Store) error {
		shared := store.Share(s, "", nil)
		defer shared.Leased.Close()
		return shared.Ready(t.Context())
	}
	wait := func(standby string) {
		if _, err := s.pool.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+standby+"'"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.pool.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
		for shown := "?"; shown != standby; {
			if err := s.pool.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&shown); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := ready(s); err != nil {
		t.Error(err)
	}
	wait("dead")
	if err := ready(s); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("ready without the standby: %v", err)
	}
	wait("")

	// A right that was taken away is the operator's to give back.
	if _, err := s.pool.Exec(t.Context(), `CREATE ROLE poor LOGIN; GRANT USAGE ON SCHEMA stepfall TO poor; GRANT SELECT, INSERT, DELETE ON ALL TABLES IN SCHEMA stepfall TO poor`); err != nil {
		t.Fatal(err)
	}
	as := func(role string) string { return strings.Replace(url, "user=stepfall", "user="+role, 1) }
	poor := opened(t, as("poor"))
	if err := poor.Reserve(t.Context(), 9, one, time.Hour); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("reserving without the right to: %v", err)
	}
	if err := ready(poor); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("ready without the right to reserve: %v", err)
	}
	if _, err := Open(t.Context(), as("nobody")); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("opening without a role: %v", err)
	}

	if _, err := s.pool.Exec(t.Context(), "DROP SCHEMA stepfall CASCADE"); err != nil {
		t.Fatal(err)
	}
	if err := s.Reserve(t.Context(), 4, one, time.Hour); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("without the tables: %v", err)
	}
	other := opened(t, url) // makes new ones
	if err := other.Reserve(t.Context(), 4, one, time.Hour); err != nil {
		t.Error(err)
	}
	if err := s.Reserve(t.Context(), 5, one, time.Hour); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("with others in their place: %v", err)
	}
}

// What processes share ends by the database's clock, and they are told how long that is, since theirs may be wrong.
func TestADatabaseWithAnotherClock(t *testing.T) {
	s := opened(t, server.Database(t))
	ahead := func(d time.Duration) {
		t.Helper()
		if _, err := s.pool.Exec(t.Context(), fmt.Sprintf("CREATE OR REPLACE FUNCTION stepfall.now_ns() RETURNS bigint LANGUAGE sql VOLATILE AS "+
			"$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + %d $$", d)); err != nil {
			t.Fatal(err)
		}
	}
	claims := func() bool {
		t.Helper()
		mine, err := s.Claim(t.Context(), "answer", "a", []byte("x"), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return mine
	}
	ahead(10 * time.Minute)
	if !claims() || claims() {
		t.Error("a name is not claimed once")
	}
	full, _ := errors.AsType[*store.RefusedError](s.Reserve(t.Context(), 1, []store.Charge{{Account: "a", Amount: 2, Cap: 1, Period: time.Minute}}, time.Hour))
	if full == nil || full.Wait > time.Minute || full.Wait < -10*time.Second {
		t.Errorf("refused with %+v", full)
	}
	if err := s.Post(t.Context(), "circuit", "small", []byte{}, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Notes(t.Context(), "circuit"); err != nil || left["small"] > 30*time.Second || left["small"] < 10*time.Second {
		t.Errorf("open for %v, %v", left, err)
	}
	ahead(12 * time.Minute)
	if note, err := s.Note(t.Context(), "answer", "a"); note != nil || err != nil {
		t.Errorf("after its minute: %q, %v", note, err)
	}
	if left, err := s.Notes(t.Context(), "circuit"); err != nil || len(left) > 0 {
		t.Errorf("after its seconds, open for %v, %v", left, err)
	}
	if !claims() {
		t.Error("a claim outlives its minute")
	}
}

func balanceOf(t testing.TB, s *Store, account string) (spent, reserved int64) {
	t.Helper()
	list, err := s.Balances(t.Context(), account, 0)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	return list[0].Spent, list[0].Reserved
}

// However many ask at once whether the store is ready, none of them waits for another's lock.
func TestManyAskWhetherTheStoreIsReady(t *testing.T) {
	s := store.Share(opened(t, server.Database(t)), "postgres", nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := s.Ready(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
