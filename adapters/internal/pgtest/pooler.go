package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Pooler starts PgBouncer in transaction mode in front of the server, or skips the test where it is not installed. It
// returns what to append to a database's address.
func (c *Cluster) Pooler(t testing.TB) string {
	t.Helper()
	bouncer, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("PgBouncer is not installed")
	}
	config := filepath.Join(c.dir, "pgbouncer.ini")
	if err := os.WriteFile(config, []byte(`[databases]
* = host=`+c.dir+` user=stepfall
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = `+c.dir+`
auth_type = any
pool_mode = transaction
default_pool_size = 5
`), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := c.Command(bouncer, "-q", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGKILL); _ = cmd.Wait() })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(c.dir, ".s.PGSQL.6432")); err == nil {
			return "&port=6432"
		}
		if time.Now().After(deadline) {
			t.Fatal("PgBouncer does not start")
		}
	}
}
