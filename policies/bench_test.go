//go:build unix

package policies_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stepfall/stepfall/policies"
)

// long is a policy of 200 lines.
func long(tb testing.TB) string {
	tb.Helper()
	var b strings.Builder
	b.WriteString(sample)
	for i := 0; strings.Count(b.String(), "\n") < 186; i++ {
		name := "m" + string(rune('a'+i))
		b.WriteString("model \"" + name + "\" {\n  provider = \"openai\"\n  served = \"gpt-4o\"\n  api_key = env(\"OPENAI_API_KEY\")\n  price {\n    input_usd_per_million = 1 + 0.5\n    output_usd_per_million = 4\n  }\n  quality {\n    mean = 0.7\n    std_dev = 0.2\n  }\n}\n")
	}
	for n := strings.Count(b.String(), "\n"); n < 200; n++ {
		b.WriteString("# a comment\n")
	}
	return b.String()
}

// BenchmarkLoad200Lines loads and validates a policy of 200 lines from a file. It also reports the processor time of
// all threads, which does not depend on the load of the machine.
func BenchmarkLoad200Lines(b *testing.B) {
	text := long(b)
	if lines := strings.Count(text, "\n"); lines < 200 || lines > 215 {
		b.Fatalf("%d lines", lines)
	}
	file := filepath.Join(b.TempDir(), "policy.hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		if _, err := policies.Load(file, policies.LoadOptions{Env: withKey}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) int64 {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}
