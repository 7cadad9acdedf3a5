package verify_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// A lock file that cargo would rewrite, and cannot as another user, is not the answer's fault.
func TestStaleLockFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("runs as another user are root's")
	}
	find(t, "cargo")
	tree := map[string]string{
		"Cargo.toml": "[package]\nname = \"half\"\nversion = \"0.2.0\"\nedition = \"2021\"\n", "Cargo.lock": "version = 3\n\n[[package]]\nname = \"half\"\nversion = \"0.1.0\"\n",
		"src/lib.rs": "pub fn half(n: u32) -> u32 {\n    n\n}\n", "tests/half.rs": "#[test]\nfn halves() {\n    assert_eq!(half::half(4), 2);\n}\n",
	}
	v := open(t, verify.Config{Command: []string{"cargo", "test", "--offline"}})
	verdict := judge(t, v, &sdk.Query{WorkDir: write(t, tree)}, "```rust path=src/lib.rs\npub fn half(n: u32) -> u32 {\n    n / 2\n}\n```\n")
	if verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "Cargo.lock") {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}
