package swe

import (
	"errors"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A record that a full disk truncated does not corrupt the next one.
func TestJournalGoesOnAfterAPartialWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	paid := func(name string) error { return j.write(record{Paid: &PaidRecord{InstanceID: name, USD: 1}}) }
	if err := paid("first"); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 200, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	err = paid(strings.Repeat("long", 100))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("writing more than there is room for: %v", err)
	}
	if err := errors.Join(paid("last"), j.Close()); err != nil {
		t.Fatal(err)
	}
	if j, err = OpenJournal(path); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if j.SpentUSD() != 2 {
		t.Errorf("%v USD, want 2", j.SpentUSD())
	}
}
