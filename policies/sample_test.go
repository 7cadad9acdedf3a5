package policies_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/policies"
)

const sampled = `
model "small" {
  provider           = "go"
  samples            = 3
  sample_temperature = 0.7
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 2
  }
  quality {
    mean = 0.6
  }
}
model "large" {
  provider = "go"
  price {
    input_usd_per_million  = 5
    output_usd_per_million = 9
  }
}
verifier "tests" {
  plugin = "verifier-tests"
  models = ["small"]
}
strategy "threshold" {
  threshold = 0.9
  order     = ["small", "large"]
}
match "code" {
  models = ["small"]
  when {
    groups = ["code"]
  }
  strategy "index" {
    worth_usd = 1
  }
}
`

func loadText(t *testing.T, text string) (*policies.Policy, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return policies.Load(path, policies.LoadOptions{Env: []string{}})
}

func TestFurtherAnswersAreCandidates(t *testing.T) {
	p, err := loadText(t, sampled)
	if err != nil {
		t.Fatal(err)
	}
	var models []string
	for i := range p.Models {
		m := &p.Models[i]
		models = append(models, fmt.Sprintf("%s %.2f %v %s", m.Name, m.Quality.Mean, m.IsFurtherSample(), m.Served))
	}
	if got, want := strings.Join(models, ", "), "small 0.60 false small, small#2 0.30 true small, small#3 0.20 true small, large 0.50 false large"; got != want {
		t.Errorf("candidates %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(p.Strategy.Order, p.Verifiers[0].Models, p.Matches[0].Models), "[small small#2 small#3 large] [small small#2 small#3] [small small#2 small#3]"; got != want {
		t.Errorf("named in %s, want %s", got, want)
	}
	var shown bytes.Buffer
	if err := p.Show(&shown, policies.ShowOptions{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(shown.String(), "#2") || !strings.Contains(shown.String(), "samples            = 3") {
		t.Errorf("shown as\n%s", &shown)
	}
	again, err := loadText(t, shown.String())
	if err != nil || len(again.Models) != len(p.Models) {
		t.Errorf("what is shown loads to %v with %v", again, err)
	}
}

func TestSamplesThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(sampled, "samples            = 3", "samples            = 9", 1):   "samples",
		strings.Replace(sampled, "sample_temperature = 0.7", "sample_temperature = 0", 1): "sample_temperature",
	} {
		if _, err := loadText(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

const armed = `
baseline = "large"
model "large" {
  provider = "go"
  samples  = 2
  effort   = "arm"
  price {
    input_usd_per_million  = 5
    output_usd_per_million = 9
  }
  arm "low" {
    reasoning_effort       = "low"
    expected_output_tokens = 300
    quality                = 0.6
  }
  arm "high" {
    reasoning_effort = "high"
  }
}
model "small" {
  provider = "go"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 2
  }
}
verifier "tests" {
  plugin = "verifier-tests"
  models = ["large@high"]
}
strategy "threshold" {
  threshold = 0.9
  order     = ["large@low", "small", "large@high"]
}
`

func TestArmsAreCandidates(t *testing.T) {
	p, err := loadText(t, armed)
	if err != nil {
		t.Fatal(err)
	}
	var models []string
	for i := range p.Models {
		m := &p.Models[i]
		models = append(models, fmt.Sprintf("%s %s %.2f %d %v %v", m.Name, m.ReasoningEffort(), m.Quality.Mean, m.ExpectedOutputTokens, m.SharesServers(), m.Price.Input))
	}
	if got, want := strings.Join(models, ", "), "large@low low 0.60 300 false 5, large@low#2 low 0.30 300 true 5, "+
		"large@high high 0.50 500 true 5, large@high#2 high 0.25 500 true 5, small  0.50 500 false 1"; got != want {
		t.Errorf("candidates %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(p.Baseline, " ", p.Strategy.Order, p.Verifiers[0].Models), "large@high [large@low large@low#2 small large@high large@high#2] [large@high large@high#2]"; got != want {
		t.Errorf("named in %s, want %s", got, want)
	}
}

func TestArmsThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(armed, `reasoning_effort = "high"`, `reasoning_effort = "hard"`, 1): "reasoning_effort",
		strings.Replace(armed, `    reasoning_effort = "high"`, "", 1):                      "reasoning_effort",
		strings.Replace(armed, `"large@low", "small"`, `"large@lo", "small"`, 1):            `there is no model "large@lo"`,
	} {
		if _, err := loadText(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
