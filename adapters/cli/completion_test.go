package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// Programs that run the command get its completion script on their own stream.
func TestCompletionIsWrittenToTheStream(t *testing.T) {
	var out, err bytes.Buffer
	if code := Run(context.Background(), []string{"completion", "bash"}, Streams{Out: &out, Err: &err}); code != 0 || !strings.Contains(out.String(), "__start_stepfall") {
		t.Errorf("exit code %d, %d bytes, %s", code, out.Len(), err.String())
	}
}
