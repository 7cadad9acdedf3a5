package verify_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// BenchmarkVerify measures a verification, after the pre-flight, with tests that take no time (/bin/true; BenchmarkBare
// measures that), on a tree of that many files.
func BenchmarkVerify(b *testing.B) {
	for _, files := range []int{30, 2000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			tree := map[string]string{"answer.txt": "wrong\n"}
			for i := range files {
				tree[fmt.Sprintf("dir%d/file%d.txt", i%50, i)] = fmt.Sprintf("some text of file %d\n", i)
			}
			dir := write(b, tree)
			j, err := jail.Open(b.Context(), jail.Options{Temp: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			v := verify.New(withDefaults(verify.Config{Command: []string{"/bin/true"}, CacheDir: b.TempDir()}), j)
			req := &sdk.VerifyRequest{Query: &sdk.Query{WorkDir: dir}, Answer: &sdk.Answer{Text: "```text path=answer.txt\nright\n```\n"}}
			for b.Loop() {
				verdict, err := v.Verify(b.Context(), req)
				if err != nil || verdict.Outcome != sdk.Passed {
					b.Fatal(verdict, err)
				}
			}
		})
	}
}

// BenchmarkBare measures the command alone.
func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
