package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/scripted"
)

// Serve starts the scripted models.
func (s *Suite) Serve() (*scripted.Server, error) {
	return scripted.Start(scripted.Options{Models: tasks.Models(), Respond: s.Script()})
}

// policy returns a policy for the suite: models of a scripted server at url, a verifier for each language, and a
// strategy block.
func (s *Suite) policy(url, strategy string) string {
	var b strings.Builder
	for i, name := range tasks.Models() {
		fmt.Fprintf(&b, `model %q {
  provider = "openai"
  base_url = %q
  price {
    input_usd_per_million  = %g
    output_usd_per_million = %g
  }
  context_tokens    = 128000
  max_output_tokens = 16384
  capabilities      = ["tools"]
  quality {
    mean    = %g
    std_dev = 0.3
  }
}

`, name, url, []float64{0.1, 0.4, 2}[i], []float64{0.4, 1.6, 8}[i], []float64{0.3, 0.7, 0.9}[i])
	}
	groups := map[string][]string{}
	for name, repo := range s.Repos {
		groups[repo.Language] = append(groups[repo.Language], fmt.Sprintf("%q", name))
	}
	for _, v := range []struct{ language, command string }{
		{"go", `["go", "test", "-vet=off", "-timeout=8s", "./..."]`},
		{"python", `["python3", "-m", "unittest"]`},
		{"javascript", `["node", "--test"]`},
	} {
		fmt.Fprintf(&b, `verifier %q {
  plugin = "verifier-tests"
  config {
    command = %s
    timeout = "60s"
    reruns  = 2
  }
  on_unavailable = "fail"
  when {
    checks = true
    groups = [%s]
  }
}

`, "tests-"+v.language, v.command, strings.Join(groups[v.language], ", "))
	}
	b.WriteString(strategy)
	return b.String()
}

// strategies are the strategy blocks of the policies that Export writes, by file name.
var strategies = map[string]string{
	"small.hcl":     "strategy \"threshold\" {\n  threshold = 0\n  order     = [\"small\"]\n}\n",
	"large.hcl":     "strategy \"threshold\" {\n  threshold = 0\n  order     = [\"large\"]\n}\n",
	"threshold.hcl": "strategy \"threshold\" {\n  threshold = 0.5\n}\n",
	"policy.hcl":    "strategy \"cascade_route\" {\n  lambda = 5 # a solved task is worth 20 cents\n}\n",
}

// Export writes the repositories, the file tasks.jsonl and policies for models at url into dir,
// and returns the tasks.
func (s *Suite) Export(ctx context.Context, dir, url string) ([]swe.Task, error) {
	list, err := s.Materialise(ctx, filepath.Join(dir, "repos"))
	if err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return nil, err
		}
	}
	err = os.WriteFile(filepath.Join(dir, "tasks.jsonl"), lines.Bytes(), 0o600)
	for name, strategy := range strategies {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(s.policy(url, strategy)), 0o600))
	}
	return list, err
}
