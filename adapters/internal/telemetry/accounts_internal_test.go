package telemetry

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/sqlite"
)

// Infrequent scrapes see current accounts, and not those of the previous scrape.
func TestAccountsAfterAPause(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &largestAccounts{}
	if list := l.get(t.Context(), s); len(list) != 0 {
		t.Fatal(list)
	}
	if err := s.Reserve(t.Context(), 1, []store.Charge{{Account: store.TenantAccount("t"), Amount: 5e8}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	l.next = time.Now().Add(-2 * time.Minute)
	if list := l.get(t.Context(), s); len(list) != 1 || list[0].Reserved != 5e8 {
		t.Errorf("%+v", list)
	}
}
