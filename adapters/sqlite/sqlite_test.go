package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A report on a run can name no tenant: it must not be taken for one on another tenant's run.
func TestTenantsOfARun(t *testing.T) {
	s, err := OpenShared(t.Context(), filepath.Join(t.TempDir(), "traces.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, tenant := range []string{"acme", "bolt", ""} {
		s.Record(t.Context(), &sdk.Trace{ID: strconv.Itoa(i), Start: time.Now(), Tenant: tenant, Run: "shared" + strconv.Itoa(i/2)})
	}
	s.Record(t.Context(), &sdk.Trace{ID: "3", Start: time.Now(), Mode: sdk.ModeVerdict, Run: "shared0", Verdict: &sdk.Verdict{Outcome: sdk.Passed}})
	for asked, want := range map[[2]string]string{{"", "shared0"}: `["acme" "bolt"]`, {"bolt", "shared0"}: `["bolt"]`, {"other", "shared0"}: "[]", {"", "shared1"}: `[""]`} {
		var got []string
		for range 500 { // traces are written in the background
			if got = slices.Sorted(slices.Values(s.TenantsOf(t.Context(), asked[0], asked[1]))); fmt.Sprintf("%q", got) == want {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if fmt.Sprintf("%q", got) != want {
			t.Errorf("tenants of %q: %q, want %s", asked, got, want)
		}
	}
}

// Sums and the filter count a step as escalated if it asked another model after an answer, not if it asked two at once.
func TestTwoModelsAtOnceAreNoEscalation(t *testing.T) {
	s, start := open(t, filepath.Join(t.TempDir(), "s.db")), time.Unix(1e9, 0)
	var entries []store.Entry
	for i, second := range []time.Time{start, start.Add(time.Minute)} {
		entries = append(entries, store.Entry{Trace: &sdk.Trace{ID: fmt.Sprintf("%032x", i), Start: start, Chosen: "b", Calls: []sdk.Call{
			{Model: "a", Attempt: 1, Start: start, Latency: time.Second}, {Model: "b", Attempt: 1, Start: second, Latency: time.Second},
		}}})
	}
	if err := s.Record(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	sums, err := s.Sums(t.Context(), nil, store.Filter{})
	if err != nil || len(sums) != 1 || sums[0].Steps != 2 || sums[0].Escalated != 1 {
		t.Errorf("sums %+v, %v", sums, err)
	}
	if steps, err := s.Steps(t.Context(), store.Filter{Escalated: true}); err != nil || len(steps) != 1 || steps[0].ID != entries[1].Trace.ID {
		t.Errorf("escalated %+v, %v", steps, err)
	}
}

func TestAFileThatWasLostIsNotZeroSpent(t *testing.T) {
	dir := t.TempDir()
	spend := func(t *testing.T, path string) *Store {
		s := open(t, path)
		if err := s.Reserve(t.Context(), 1, []store.Charge{{Account: "a", Amount: 9, Cap: 10}}, time.Hour); err != nil {
			t.Fatal(err)
		}
		return s
	}
	refuses := func(t *testing.T, path string) {
		t.Helper()
		if _, err := Open(t.Context(), path); !errors.Is(err, store.ErrReplaced) {
			t.Errorf("opening gives %v", err)
		}
	}
	t.Run("cut to nothing", func(t *testing.T) {
		path := filepath.Join(dir, "cut.db")
		spend(t, path).Close()
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		refuses(t, path)
	})
	t.Run("only the log is left", func(t *testing.T) {
		path := filepath.Join(dir, "log.db")
		if err := os.WriteFile(path+"-wal", []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(t, path)
	})
	for name, lose := range map[string]func(path string) error{
		"removed":       os.Remove,
		"log removed":   func(path string) error { return os.Remove(path + "-wal") },
		"index removed": func(path string) error { return os.Remove(path + "-shm") },
		"replaced": func(path string) error {
			other, err := Open(context.Background(), path+"2")
			if err != nil {
				return err
			}
			return errors.Join(other.Close(), os.Rename(path+"2", path))
		},
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name+" while open", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := spend(t, path)
			if err := lose(path); err != nil {
				t.Skip(err) // an open file cannot be removed here
			}
			if err := s.Reserve(t.Context(), 2, []store.Charge{{Account: "b", Amount: 1, Cap: 10}}, time.Hour); !errors.Is(err, store.ErrReplaced) {
				t.Errorf("reserving gives %v", err)
			}
			_, unknown := s.KeyByDigest(t.Context(), []byte("x"))
			for what, err := range map[string]error{"asking": s.Ping(t.Context()), "settling": s.Settle(t.Context(), 3, nil), "looking up a key": unknown} {
				if !errors.Is(err, store.ErrReplaced) || !errors.Is(err, sdk.ErrStoreUnavailable) {
					t.Errorf("%s gives %v", what, err)
				}
			}
		})
	}
	t.Run("moved away for a time", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		s := spend(t, path)
		if err := os.Rename(path, path+".away"); err != nil {
			t.Skip(err) // an open file cannot be moved here
		}
		for range 4 { // each is a new connection, since the others are not given back
			if c, err := s.read.Conn(t.Context()); err == nil {
				defer c.Close()
			}
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file was made in its place: %v", err)
		}
		if err := errors.Join(os.Rename(path+".away", path), s.Ping(t.Context())); err != nil {
			t.Error(err)
		}
		if err := s.Reserve(t.Context(), 2, []store.Charge{{Account: "a", Amount: 2, Cap: 10}}, time.Hour); err == nil || errors.Is(err, sdk.ErrStoreUnavailable) {
			t.Errorf("reserving gives %v", err)
		}
	})
	t.Run("of another program", func(t *testing.T) {
		path := filepath.Join(dir, "other.db")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("CREATE TABLE songs (title TEXT)"); err != nil {
			t.Fatal(err)
		}
		db.Close()
		if _, err := Open(t.Context(), path); !errors.Is(err, store.ErrVersion) {
			t.Errorf("opening gives %v", err)
		}
	})
	if _, err := Open(t.Context(), dir); err == nil {
		t.Error("a folder was opened")
	}
}

// TestAttackDamagedFile: from a file that was truncated, wiped or overwritten, while closed or open, spent money is
// never granted again.
func TestAttackDamagedFile(t *testing.T) {
	wipe := func(from, to int) func(string, []byte) error {
		return func(path string, data []byte) error {
			clear(data[min(from, len(data)):min(to, len(data))])
			return os.WriteFile(path, data, 0o600)
		}
	}
	cut := func(part func(int) int) func(string, []byte) error {
		return func(path string, data []byte) error { return os.Truncate(path, int64(part(len(data)))) }
	}
	for name, damage := range map[string]func(path string, data []byte) error{
		"half":         cut(func(n int) int { return n / 2 }),
		"header":       cut(func(int) int { return 100 }),
		"magic":        cut(func(int) int { return 16 }),
		"first page":   wipe(0, 4096),
		"other pages":  wipe(8192, 16384),
		"all but one":  wipe(4096, 1<<20),
		"all of it":    wipe(0, 1<<20),
		"read only":    func(path string, _ []byte) error { return os.Chmod(path, 0o400) },
		"another word": func(path string, _ []byte) error { return os.WriteFile(path, []byte("{}"), 0o600) },
	} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in use %v", name, running), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "ledger.db")
				s := open(t, path)
				if err := s.Reserve(t.Context(), 1, []store.Charge{{Account: "a", Amount: 90, Cap: 100}}, time.Hour); err != nil {
					t.Fatal(err)
				}
				if !running {
					s.Close()
				}
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := damage(path, data); err != nil {
					t.Skip(err) // a file in use cannot be written to here
				}
				over := []store.Charge{{Account: "a", Amount: 20, Cap: 100}}
				if running {
					if err := s.Reserve(t.Context(), 2, over, time.Hour); err == nil {
						t.Error("in use, the cap was passed")
					}
					s.Close()
				}
				if s, err = Open(t.Context(), path); err != nil {
					return
				}
				defer s.Close()
				if err := s.Reserve(t.Context(), 3, over, time.Hour); err == nil {
					t.Error("opened again, the cap was passed")
				}
			})
		}
	}
}

// Damage to an open file is noticed within seconds, even where cached pages would suffice.
func TestDamageIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path)
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if size := info.Size(); size > 4096 {
			if _, err := file.WriteAt(bytes.Repeat([]byte{0xA5}, int(size)-4096), 4096); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := s.Settle(t.Context(), 1, nil)
		if errors.Is(err, sdk.ErrStoreUnavailable) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("settling gives %v", err)
		}
	}
}

// A list that cannot be read completely is an error.
func TestDamagedRowLeavesNoList(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "keys.db"))
	err := s.write(t.Context(), func(tx sqlstore.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO gateway_keys (id, body) VALUES ('a', '{"id":"a"}'), ('b', '{')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.ListKeys(t.Context(), ""); err == nil || list != nil {
		t.Errorf("%d keys, %v", len(list), err)
	}
	if list, err := s.ListKeys(t.Context(), "a"); err != nil || len(list) != 1 {
		t.Errorf("%d keys, %v", len(list), err)
	}
}

// TestAttackEmptiedWAL: a running ledger whose write-ahead log is emptied, or whose files are restored to an earlier
// state, never grants spent money again.
func TestAttackEmptiedWAL(t *testing.T) {
	for name, damage := range map[string]func(path string, before map[string][]byte) error{
		"emptied": func(path string, _ map[string][]byte) error { return os.Truncate(path+"-wal", 0) },
		"half":    func(path string, _ map[string][]byte) error { return os.Truncate(path+"-wal", 4096) },
		"wiped": func(path string, _ map[string][]byte) error {
			info, err := os.Stat(path + "-wal")
			if err != nil {
				return err
			}
			return os.WriteFile(path+"-wal", make([]byte, info.Size()), 0o600)
		},
		"with the index": func(path string, _ map[string][]byte) error {
			return errors.Join(os.Truncate(path+"-wal", 0), os.WriteFile(path+"-shm", make([]byte, 32768), 0o600))
		},
		"put back": func(_ string, before map[string][]byte) error {
			var faults []error
			for name, data := range before {
				faults = append(faults, os.WriteFile(name, data, 0o600))
			}
			return errors.Join(faults...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := open(t, path)
			if err := s.Reserve(t.Context(), 1, []store.Charge{{Account: "a", Amount: 10, Cap: 100}}, time.Hour); err != nil {
				t.Fatal(err)
			}
			before := map[string][]byte{}
			for _, end := range []string{"", "-wal", "-shm"} {
				data, err := os.ReadFile(path + end)
				if err != nil {
					t.Fatal(err)
				}
				before[path+end] = data
			}
			if err := s.Reserve(t.Context(), 2, []store.Charge{{Account: "a", Amount: 80, Cap: 100}}, time.Hour); err != nil {
				t.Fatal(err)
			}
			if err := damage(path, before); err != nil {
				t.Skip(err) // a file in use cannot be written to here
			}
			for i := range int64(3) {
				if err := s.Reserve(t.Context(), 3+i, []store.Charge{{Account: "a", Amount: 20, Cap: 100}}, time.Hour); err == nil {
					t.Error("the cap was passed")
				}
			}
		})
	}
}

func TestProcessesThatBeginTogetherMakeOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.db")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := Open(t.Context(), path)
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
	list, err := open(t, path).Balances(t.Context(), "", 0)
	if err != nil || len(list) != 1 || list[0].Reserved != 6 {
		t.Errorf("got %v, %v", list, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".stepfall-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestVersionsThatDifferByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "next.db")
	open(t, path).Close()
	set := func(query string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, path)
	// The next version adds a column, which this program can live with, and says so.
	set("ALTER TABLE accounts2 ADD COLUMN note TEXT; PRAGMA user_version = 5")
	again := open(t, path)
	for i, one := range []*Store{s, again} {
		if err := one.Reserve(t.Context(), int64(i+2), []store.Charge{{Account: "a", Amount: 1, Cap: 10}}, time.Hour); err != nil {
			t.Error(err)
		}
	}
	set("UPDATE meta SET value = 5 WHERE name = 'oldest_program'")
	if _, err := Open(t.Context(), path); !errors.Is(err, store.ErrVersion) {
		t.Errorf("tables that this program cannot work with: %v", err)
	}
}

// A file from before the first version is refused, and not changed.
func TestAFileBeforeTheFirstVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE accounts (name TEXT PRIMARY KEY); PRAGMA user_version = 2"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), "before v0.1.0") {
		t.Errorf("got %v", err)
	}
	var tables int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'table'").Scan(&tables); err != nil || tables != 1 {
		t.Errorf("%d tables, %v", tables, err)
	}
}

// TestLeaseUntilKilled is the process that TestLeasesOfAKilledProcess kills.
func TestLeaseUntilKilled(t *testing.T) {
	path := os.Getenv("LEASE_UNTIL_KILLED")
	if path == "" {
		t.Skip("it is the process of another test")
	}
	leased := store.NewLeasedAccounts(open(t, path), store.LeaseOptions{})
	for {
		held, err := leased.Take(t.Context(), killedCharges)
		if err != nil {
			t.Fatal(err)
		}
		if err := held.Settle(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		fmt.Println("settled")
	}
}

var killedCharges = []store.Charge{{Account: "hot", Amount: 1000, Cap: 1_000_000}}

// When a process is killed under load, at most an eighth of its leases counts as spent, a minute later and without
// intervention.
func TestLeasesOfAKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "killed.db")
	s := open(t, path)
	cmd := exec.Command(os.Args[0], "-test.run=^TestLeaseUntilKilled$", "-test.v")
	cmd.Env = append(os.Environ(), "LEASE_UNTIL_KILLED="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	settled := int64(0)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() != "settled" {
			continue
		}
		if settled++; settled == 500 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	balance := func() store.Balance {
		list, err := s.Balances(t.Context(), "hot", 0)
		if err != nil || len(list) != 1 {
			t.Fatalf("got %v, %v", list, err)
		}
		return list[0]
	}
	before := balance()
	s.Now = func() time.Time { return time.Now().Add(61 * time.Second) }
	after := balance()
	t.Logf("killed after %d calls of 10 units: %d leased; a minute later %d spent, %d reserved", settled, before.Reserved, after.Spent, after.Reserved)
	if before.Reserved < 20_000 {
		t.Errorf("only %d are leased: nothing is tested", before.Reserved)
	}
	// The call under way, and what its process had settled and not written yet.
	if most := 10*settled + 1000 + before.Reserved/store.LeaseShare + 1000; after.Reserved != 0 || after.Spent < 10*settled || after.Spent > most {
		t.Errorf("spent %d, reserved %d, want %d to %d", after.Spent, after.Reserved, 10*settled, most)
	}
}

// A store's files are private to their owner, whatever the umask.
func TestAStoreIsItsOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of files are not Windows's")
	}
	path := filepath.Join(t.TempDir(), "store.db")
	open(t, path)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("store.db%s has mode %o, want 600", suffix, got)
		}
	}
}

// A file locked by another program does not block callers, and works again when it is unlocked. Pruned content is in
// no byte of the file afterwards.
func TestPrunedTextsAreOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := open(t, path)
	const secret = "the order of a customer"
	var entries []store.Entry
	for i := range 50 {
		text := strings.Repeat(secret, 1+100*(i%2)) // in one page, and over several
		entries = append(entries, store.Entry{Trace: &sdk.Trace{ID: fmt.Sprintf("%04d", i), Start: time.Now().Add(-time.Hour), Prompt: text, Calls: []sdk.Call{{Model: "m", Answer: text}}}})
	}
	if err := s.Record(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	if n, err := store.PruneAll(t.Context(), s, store.Retention{Traces: time.Minute}); err != nil || n.Traces != 50 {
		t.Fatal(n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), secret); n > 0 {
		t.Errorf("the file still has what was deleted, %d times", n)
	}
}

func TestAFileThatAnotherProgramLocks(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	shared := store.Share(s, path, nil)
	other, err := connect(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	lock, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = shared.Ledger(step.Caps{RunUSD: 1}).Reserve(t.Context(), &sdk.Query{Run: "r"}, 0.25)
	if took := time.Since(began); !errors.Is(err, sdk.ErrStoreUnavailable) || took > 5*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	if err := shared.Ready(t.Context()); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("ready: %v", err)
	}
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); shared.Ready(t.Context()) != nil && time.Now().Before(until); {
		time.Sleep(50 * time.Millisecond)
	}
	held, err := shared.Ledger(step.Caps{RunUSD: 1}).Reserve(t.Context(), &sdk.Query{Run: "r"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(held.Settle(t.Context(), 0.5), shared.Close()); err != nil {
		t.Error(err)
	}
}
