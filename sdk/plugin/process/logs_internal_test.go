package process

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// Secrets that become known while a plugin prints are hidden wherever they stand,
// also where JSON escapes some of their characters.
func TestSecretsAreHiddenWherePluginsPutThem(t *testing.T) {
	const secret = `pass&"word"<1>`
	var out bytes.Buffer
	s := newLogSink(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Trace}), nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			s.show("stray")
		}
	})
	s.hide([]string{secret})
	wg.Wait()
	s.line(`{"@message": "at pass&\"word\"<1>", "@level": "warn", "deep": {"list": ["pass&\"word\"<1>"], "pass&\"word\"<1>": 1}}`, "")
	s.line("plain "+secret, "stdout")
	if text := out.String() + strings.Join(s.lastLines(), "\n"); strings.Contains(text, "pass&") || strings.Contains(text, `word`) || strings.Count(text, "[redacted]") < 5 {
		t.Error(text)
	}
}

// What is longer than a line of the log goes into several, and none of it is lost.
func TestLongOutputIsKept(t *testing.T) {
	var out bytes.Buffer
	s := newLogSink(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Trace}), nil)
	w := s.writer("stdout")
	for range 2 * maxLine / 8 {
		if _, err := w.Write([]byte("abcdefgh")); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "abcdefgh"); n != 2*maxLine/8 {
		t.Errorf("%d of %d pieces", n, 2*maxLine/8)
	}
}
