package pgtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Server is shared by the tests of a package, since starting one takes longer than most tests. The first Database
// call starts it, and TestMain calls [Server.Main].
type Server struct {
	// Options are settings of the server, such as "max_connections=20".
	Options []string

	once    sync.Once
	cluster *Cluster
	err     error
}

// Database creates an empty database and returns its address, or skips the test where PostgreSQL is not installed.
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

// Main runs the tests of a package, stops the server if it was started, removes its data and exits.
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
