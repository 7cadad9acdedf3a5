package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/policies"
)

func newPolicyInitCommand(s Streams) *cobra.Command {
	var out string
	var force bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first policy from the models that the environment offers",
		Long: `Write a first policy, with comments, from the models that the environment offers:
OPENAI_API_KEY (with OPENAI_BASE_URL for a compatible server), ANTHROPIC_API_KEY,
MISTRAL_API_KEY, and OLLAMA_HOST, which is asked for the models that it has. Keys
are named in the policy, never written into it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := firstPolicy(cmd.Context(), os.Getenv)
			if err != nil {
				return err
			}
			p, err := policies.Parse(out, text, policies.LoadOptions{})
			if err != nil {
				return fmt.Errorf("the policy that was to be written is wrong, which is a fault of stepfall: %w", err)
			}
			if out == "-" {
				_, err := s.Out.Write(text)
				return err
			}
			mode := os.O_CREATE | os.O_WRONLY | os.O_EXCL
			if force {
				mode = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
			}
			file, err := os.OpenFile(out, mode, 0o644)
			if errors.Is(err, os.ErrExist) {
				return fmt.Errorf("%s is there already: --force writes over it, --out names another", out)
			}
			if err != nil {
				return err
			}
			_, err = file.Write(text)
			if err := errors.Join(err, file.Close()); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "%s: %s\nnext: stepfall policy plan %s\n", out, count(len(p.Models), "model"), out)
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "policy.hcl", "file to write; - is standard output")
	cmd.Flags().BoolVar(&force, "force", false, "write over a file that is there")
	return cmd
}

// offer is a model that the environment offers.
type offer struct {
	name, provider, served, key, url, note string
	free                                   bool
	mean                                   float64
}

// offers returns the models that the environment offers, cheap to dear for each
// provider.
func offers(ctx context.Context, getenv func(string) string) []offer {
	var list []offer
	if host := getenv("OLLAMA_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		for _, name := range ollamaModels(ctx, host) {
			list = append(list, offer{name: name, provider: "ollama", served: name, url: host, free: true, mean: 0.5})
		}
	}
	if getenv("OPENAI_API_KEY") != "" {
		url := getenv("OPENAI_BASE_URL")
		note := ""
		if url != "" {
			note = "served by OPENAI_BASE_URL: put in the names that this server has, and its prices"
		}
		list = append(list,
			offer{name: "gpt-small", provider: "openai", served: "gpt-4.1-mini", key: "OPENAI_API_KEY", url: url, note: note, mean: 0.6},
			offer{name: "gpt-large", provider: "openai", served: "gpt-4.1", key: "OPENAI_API_KEY", url: url, note: note, mean: 0.75})
	}
	if getenv("ANTHROPIC_API_KEY") != "" {
		list = append(list,
			offer{name: "claude-small", provider: "anthropic", served: "claude-haiku-4-5", key: "ANTHROPIC_API_KEY", mean: 0.65},
			offer{name: "claude-large", provider: "anthropic", served: "claude-sonnet-4-5", key: "ANTHROPIC_API_KEY", mean: 0.8})
	}
	if getenv("MISTRAL_API_KEY") != "" {
		list = append(list,
			offer{name: "mistral-small", provider: "mistral", served: "mistral-small-latest", key: "MISTRAL_API_KEY", mean: 0.5},
			offer{name: "mistral-large", provider: "mistral", served: "mistral-large-latest", key: "MISTRAL_API_KEY", mean: 0.65})
	}
	return list
}

// ollamaModels asks an Ollama server which models it has; none when it is silent.
func ollamaModels(ctx context.Context, host string) []string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(host, "/")+"/api/tags", nil)
	if err != nil {
		return nil
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var body struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<20)).Decode(&body) != nil {
		return nil
	}
	var names []string
	for _, m := range body.Models {
		if len(names) < 3 {
			names = append(names, m.Name)
		}
	}
	return names
}

// firstPolicy returns the policy that init writes.
func firstPolicy(ctx context.Context, getenv func(string) string) ([]byte, error) {
	list := offers(ctx, getenv)
	var b strings.Builder
	b.WriteString("# What stepfall may ask, in what order it may try, and what may be spent.\n" +
		"# The language: docs/policies.md, or stepfall policy docs.\n\n")
	if len(list) == 0 {
		b.WriteString("# The environment offers no model: set OPENAI_API_KEY, ANTHROPIC_API_KEY,\n" +
			"# MISTRAL_API_KEY or OLLAMA_HOST and run init again, or change these two.\n\n")
		list = []offer{
			{name: "small", provider: "openai", served: "gpt-4.1-mini", key: "OPENAI_API_KEY", mean: 0.6},
			{name: "large", provider: "openai", served: "gpt-4.1", key: "OPENAI_API_KEY", mean: 0.75},
		}
	}
	for _, o := range list {
		o.write(&b)
	}
	b.WriteString(`# How to choose. lambda is the price of a dollar in quality: 20 means that five
# cents more must be worth one more right answer. stepfall fit finds it for a
# budget from recorded outcomes.
strategy "cascade_route" {
  lambda = 20
}

# Hard caps: nothing is called that might exceed one.
# budget {
#   step_usd = 0.5
#   run_usd  = 5
# }

# Unit tests that decide whether an answer is right.
# verifier "tests" {
#   plugin = "verifier-tests"
#   config {
#     command = ["go", "test", "-json", "./..."]
#   }
# }

# The record of each step, for stepfall trace and stepfall policy plan --traces.
trace {
  file = "traces.jsonl"
}
`)
	return policies.Format("policy.hcl", []byte(b.String()))
}

func (o offer) write(b *strings.Builder) {
	if o.note != "" {
		fmt.Fprintf(b, "# %s\n", o.note)
	}
	fmt.Fprintf(b, "model %q {\n  provider = %q\n  served = %q\n", o.name, o.provider, o.served)
	if o.url != "" {
		fmt.Fprintf(b, "  base_url = %q\n", o.url)
	}
	if o.key != "" {
		fmt.Fprintf(b, "  api_key = env(%q)\n", o.key)
	}
	if o.free {
		b.WriteString("  price {\n    free = true # it runs on a machine of yours\n  }\n  capabilities = [\"json_mode\"]\n")
	}
	fmt.Fprintf(b, "  quality { # a guess, until stepfall fit has seen outcomes\n    mean = %v\n    std_dev = 0.25\n  }\n}\n\n", o.mean)
}
