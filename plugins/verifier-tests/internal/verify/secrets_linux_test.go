package verify_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// TestSecretsStayOutside: what the tests print is part of the evidence, so a leaked secret would show there.
func TestSecretsStayOutside(t *testing.T) {
	const treasure = "stepfall-treasure"
	t.Setenv("STEPFALL_TEST_KEY", treasure)
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range []string{".netrc", ".git-credentials", ".cargo/credentials.toml", ".local/share/keys"} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(treasure+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(home, ".cargo", "bin")+":"+filepath.Join(home, ".local", "bin")+":"+os.Getenv("PATH"))
	dir := write(t, map[string]string{"run.sh": "exit 0\n"})
	for link, target := range map[string]string{"link": filepath.Join(home, ".netrc"), "out": home} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	script := "exec 2>/dev/null; env; cat link out/.netrc " + home + "/.netrc ~/.netrc " + home + "/.git-credentials " + home + "/.cargo/credentials.toml " + home + "/.local/share/keys\n" +
		"cat /proc/[0-9]*/environ /proc/[0-9]*/root" + home + "/.netrc /proc/[0-9]*/cwd/../.netrc; echo tried; exit 1\n"
	for name, options := range map[string]jail.Options{"namespaces": {}, "none": {NoNamespaces: true}} {
		t.Run(name, func(t *testing.T) {
			options.Temp = t.TempDir()
			j, err := jail.Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			layers, _ := j.Layers()
			if len(jail.Lacks([]string{"filesystem"}, layers)) > 0 {
				t.Skip("files cannot be confined here")
			}
			v := verify.New(withDefaults(verify.Config{Command: []string{"sh", "run.sh"}, AllowTestEdits: true, Reruns: -1}), j)
			verdict := judge(t, v, &sdk.Query{WorkDir: dir}, "```sh path=run.sh\n"+script+"```\n")
			if verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "tried") || strings.Contains(verdict.Evidence, treasure) {
				t.Errorf("%+v", verdict)
			}
			verdict = judge(t, v, &sdk.Query{WorkDir: dir}, "```sh path=out/evil\nx\n```\n")
			if _, err := os.Stat(filepath.Join(home, "evil")); verdict.Outcome != sdk.Failed || err == nil {
				t.Errorf("an answer wrote by a link: %+v", verdict)
			}
		})
	}
}

// TestAttackSecretsOfTheTree: files that look like secrets are not in the view of the tree, so no evidence can contain
// them; an answer can add a file of such a name itself.
func TestAttackSecretsOfTheTree(t *testing.T) {
	files := map[string]string{".env": "KEY=planted-key\n", "sub/id_rsa": "planted-key", "answer.txt": "wrong\n"}
	config := verify.Config{Command: []string{"sh", "-c", "cat .env sub/*; grep right answer.txt"}, Reruns: -1}
	answer := "```text path=answer.txt\nright\n```\n"
	query := &sdk.Query{WorkDir: write(t, files)}
	if verdict := judge(t, open(t, config), query, "```text path=answer.txt\nstill wrong\n```\n"); strings.Contains(verdict.Evidence, "planted-key") || verdict.Outcome != sdk.Failed {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
	if verdict := judge(t, open(t, config), query, answer); verdict.Outcome != sdk.Passed {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
	config.Command[2] = "grep planted .env && grep right answer.txt"
	if verdict := judge(t, open(t, config), query, answer); verdict.Outcome != sdk.Failed {
		t.Errorf("the tests see .env: %s", verdict.Evidence)
	}
	config.ShowSecrets = true
	if verdict := judge(t, open(t, config), query, answer); verdict.Outcome != sdk.Passed {
		t.Errorf("the tests may see .env and do not: %s", verdict.Evidence)
	}
}
