package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// mountSmallDisk returns a folder on a small file system of its own.
func mountSmallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("stepfall", dir, "tmpfs", 0, size); err != nil {
		t.Skip("no small disk can be mounted here:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Wherever the disk becomes full while a file is created, the file is afterwards complete or absent: once there is
// space, it opens.
func TestAFileIsMadeWholeOrNotAtAll(t *testing.T) {
	dir := mountSmallDisk(t, "size=64k")
	path := filepath.Join(dir, "s.db")
	refused := 0
	for kib := 64; kib <= 640; kib += 16 {
		for _, resize := range []int{kib, 20 << 10} {
			if err := syscall.Mount("stepfall", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%dk", resize)); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path)
			switch {
			case err == nil:
				if err := s.Close(); err != nil {
					t.Errorf("closing with %d KiB: %v", resize, err)
				}
			case resize == kib:
				refused++
			default:
				t.Errorf("made with %d KiB, opened with room: %v", kib, err)
			}
		}
		files, err := filepath.Glob(path + "*")
		if err != nil || len(files) == 0 {
			t.Fatal("no file was made:", err)
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if refused == 0 {
		t.Error("every disk had room")
	}
}

// A full disk makes the store unavailable: no cap can be checked, and no provider is to blame. Once there is space,
// the accounts are correct.
func TestAFullDiskIsTheStores(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := mountSmallDisk(t, "size=2m")
	path := filepath.Join(dir, "s.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	shared := store.Share(s, path, nil)
	ledger := shared.Ledger(step.Caps{RunUSD: 1})
	before, err := ledger.Reserve(t.Context(), &sdk.Query{Run: "r"}, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, bytes.Repeat([]byte("x"), 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal("the disk is not full:", err)
	}
	// What is in the write-ahead log already leaves room for a few more.
	refused := false
	for i := 0; i < 500 && !refused; i++ {
		_, err = ledger.Reserve(t.Context(), &sdk.Query{Run: fmt.Sprint("other", i)}, 0.5)
		refused = err != nil
	}
	if !errors.Is(err, sdk.ErrStoreUnavailable) || errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("a full disk gives %v", err)
	}
	if err := shared.Ready(t.Context()); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("ready: %v", err)
	}
	if err := before.Settle(t.Context(), 0.25); err != nil && !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Error(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	want := int64(0.25 * store.NanoUSD)
	var got store.Balance
	for until := time.Now().Add(20 * time.Second); got.Spent != want && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		list, err := shared.Balances(t.Context(), store.RunAccount("", "r"), 0)
		if err == nil && len(list) > 0 {
			got = list[0]
		}
	}
	if got.Spent != want || got.Reserved != 0 {
		t.Errorf("%+v, want %d spent and nothing reserved", got, want)
	}
	if err := shared.Close(); err != nil {
		t.Error(err)
	}
}
