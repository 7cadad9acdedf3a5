package pgtest

import (
	"sync"
	"testing"
)

// Shared is a server that the tests of a package share: making one takes longer than
// most of them. The first that asks for a database starts it, and TestMain closes it.
type Shared struct {
	// Options are settings of the server, as "max_connections=20".
	Options []string

	once    sync.Once
	cluster *Cluster
	err     error
}

// Database makes an empty database and returns its address, or skips the test where
// there is no server.
func (s *Shared) Database(t testing.TB) string {
	t.Helper()
	bin := Find()
	if bin == "" {
		t.Skip("PostgreSQL is not installed")
	}
	s.once.Do(func() { s.cluster, s.err = New(bin, s.Options...) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster.Database(t)
}

// Close stops the server, where there is one, and removes its data.
func (s *Shared) Close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}
