//go:build unix

package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/cli"
)

// A reader that ends early, such as head, ends the command too, which would otherwise wait for it forever.
func TestOutcomesEndWithTheirReader(t *testing.T) {
	t.Chdir(t.TempDir())
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	rows := "query_id,model,quality,cost_usd,prompt\n"
	for q := range 5000 { // more than a pipe holds
		rows += fmt.Sprintf("q%d,small,1,0.001,%s\n", q, strings.Repeat("x", 100))
	}
	if err := os.WriteFile("runs.csv", []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if reader, err := os.Open(pipe); err == nil {
			_, _ = reader.Read(make([]byte, 10))
			_ = reader.Close()
		}
	}()
	ended := make(chan int, 1)
	go func() {
		var out bytes.Buffer
		ended <- cli.Run(t.Context(), []string{"outcomes", "runs.csv", "--out", pipe}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	}()
	select {
	case code := <-ended:
		if code == 0 {
			t.Error("an incomplete file passed for a complete one")
		}
	case <-time.After(time.Minute):
		t.Fatal("the command still waits for a reader that has ended")
	}
}
