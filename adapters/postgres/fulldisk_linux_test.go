package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// A full disk of the database makes the store unavailable: no cap can be checked, and no provider is to blame. Once
// there is space, the accounts are correct.
func TestAFullDiskIsTheStores(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	c := pgtest.Start(t, "fsync=off")
	dir, err := os.MkdirTemp("/tmp", "stepfall-disk-*") // the server is another user, who may not enter the test's folder
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	if err := syscall.Mount("stepfall", dir, "tmpfs", 0, "size=24m,mode=755"); err != nil {
		t.Skip("no small disk can be mounted here:", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	space := filepath.Join(dir, "space")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Command("mkdir", "-m", "700", space).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	admin, err := connect(t.Context(), c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	for _, command := range []string{"CREATE TABLESPACE small LOCATION '" + space + "'", "CREATE DATABASE full_disk TABLESPACE small"} {
		if _, err := admin.Exec(t.Context(), command); err != nil {
			t.Fatal(command, err)
		}
	}
	url := c.URL("full_disk")
	s, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	shared := store.Share(s, url, nil)
	defer func() {
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	}()
	ledger := shared.Ledger(step.Caps{RunUSD: 1})
	before, err := ledger.Reserve(t.Context(), &sdk.Query{Run: "r"}, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 32<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal("the disk is not full:", err)
	}
	// Pages that are begun already leave room for a few hundred more.
	refused := false
	for i := 0; i < 5000 && !refused; i++ {
		_, err = ledger.Reserve(t.Context(), &sdk.Query{Run: fmt.Sprint("other", i)}, 0.5)
		refused = err != nil
	}
	if !errors.Is(err, sdk.ErrStoreUnavailable) || errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("a full disk gives %v", err)
	}
	t.Log(err)
	if err := before.Settle(t.Context(), 0.25); err != nil && !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Error(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	right := func() bool {
		list, err := shared.Balances(t.Context(), store.RunAccount("", "r"), 0)
		return err == nil && len(list) == 1 && list[0].Spent == 0.25*store.NanoUSD && list[0].Reserved == 0
	}
	for until := time.Now().Add(20 * time.Second); !right(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the books are not right once there is room")
		}
	}
}
