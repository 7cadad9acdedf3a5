package process

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// Secrets that become known while a plugin prints are redacted everywhere, even if JSON escapes some of
// their characters.
func TestSecretsAreHiddenWherePluginsPutThem(t *testing.T) {
	const secret = `pass&"word"<1>`
	var out bytes.Buffer
	s := newLogSink(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Trace}), nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			s.cleanText("stray")
		}
	})
	s.addSecrets([]string{secret})
	wg.Wait()
	s.addLine(`{"@message": "at pass&\"word\"<1>", "@level": "warn", "deep": {"list": ["pass&\"word\"<1>"], "pass&\"word\"<1>": 1}}`, "", false)
	s.addLine("plain "+secret, "stdout", false)
	if text := out.String() + strings.Join(s.lastLines(), "\n"); strings.Contains(text, "pass&") || strings.Contains(text, `word`) || strings.Count(text, "[redacted]") < 5 {
		t.Error(text)
	}
}

// A line that is longer than a log line is split into several, and nothing is lost.
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

// A secret at the position where a long line is split appears in no piece.
func TestSecretsAcrossACut(t *testing.T) {
	const secret = "planted-secret-across-a-cut"
	for at := maxLine - len(secret) - 1; at <= maxLine+1; at++ {
		var out bytes.Buffer
		s := newLogSink(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Trace}), []string{secret})
		text := strings.Repeat(".", at) + secret + strings.Repeat(".", 100) + "\n"
		if _, err := s.writer("stdout").Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		s.second = s.second.Add(-2e9)
		pump(strings.NewReader(text), func(line string, cut bool) { s.addLine(line, "stderr", cut) })
		for part := range strings.SplitSeq(secret, "-") {
			if strings.Contains(out.String(), part+"-") {
				t.Fatalf("at %d: %s", at, out.String()[len(out.String())-200:])
			}
		}
	}
}

// TestAttackLogVolume: a flood of lines or bytes is counted, not logged.
func TestAttackLogVolume(t *testing.T) {
	var out bytes.Buffer
	s := newLogSink(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Trace}), nil)
	for range 3000 {
		s.addLine(strings.Repeat("x", maxLine), "", false)
	}
	if out.Len() > 16*maxBytesPerSecond {
		t.Errorf("%d bytes of a flood were logged", out.Len())
	}
}
