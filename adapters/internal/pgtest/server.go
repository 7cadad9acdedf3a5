package pgtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Server is one that the tests of a package share: making one takes longer than most of
// them. The first that asks for a database starts it, and TestMain calls [Server.Main].
type Server struct {
	// Options are settings of the server, as "max_connections=20".
	Options []string

	once    sync.Once
	cluster *Cluster
	err     error
}

// Database makes an empty database and returns its address, or skips the test where
// there is no server.
func (s *Server) Database(t testing.TB) string {
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

// Main runs the tests of a package, stops the server where there is one, removes its data
// and ends the program.
func (s *Server) Main(m *testing.M) {
	code := m.Run()
	if s.cluster != nil {
		if err := s.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
