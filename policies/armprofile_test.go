package policies

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A profile is checked against the candidates, which include arms and further samples.
func TestProfilesOfArms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	_, err := Parse("p.hcl", []byte(`
model "m" {
  provider = "openai"
  samples  = 2
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1
  }
  arm "low" { reasoning_effort = "low" }
  arm "high" { reasoning_effort = "high" }
}
strategy "index" {}
fit { profile = "`+filepath.ToSlash(path)+`" }
`), LoadOptions{WithoutSecrets: true, CheckProfile: func(_ string, p *Policy) ([]string, error) {
		for _, m := range p.SDKModels() {
			names = append(names, m.Name)
		}
		return nil, nil
	}})
	if want := []string{"m@low", "m@low#2", "m@high", "m@high#2"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v; want %v", names, err, want)
	}
}
