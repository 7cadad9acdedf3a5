package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/policies"
)

// What a first policy is for. auto is what the sources in the folder tell.
const (
	programAuto    = "auto"
	programChat    = "chat"
	programAgent   = "agent"
	programPatches = "patches"
)

var programKinds = []string{programAuto, programChat, programAgent, programPatches}

// agentSigns are what the source of a program with tools has.
var agentSigns = regexp.MustCompile(`llms\.WithTools|llms\.WithFunctions|langchaingo/agents|bind_tools|create_react_agent|AgentExecutor|function_call|tool_calls|\btools\s*[=:]\s*[\[A-Za-z]|"tools"|mcp\.`)

// sourceFiles are the names of sources that are looked at, and maxSources how many of them.
var sourceFiles = regexp.MustCompile(`\.(go|py|ts|tsx|js|mjs|rb|java|kt|rs)$`)

const (
	maxSources = 400
	maxSource  = 1 << 20
)

// programOf tells a program with tools from a chat by the sources below a folder, and names
// the file that told; "" where none did.
func programOf(dir string) (program, file string) {
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read tells nothing
		}
		if d.IsDir() {
			if name := d.Name(); path != dir && (strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "vendor", "testdata", "dist", "build"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !sourceFiles.MatchString(path) {
			return nil
		}
		if n++; n > maxSources {
			return filepath.SkipAll
		}
		info, err := d.Info()
		if err != nil || info.Size() > maxSource {
			return nil //nolint:nilerr // it went away: it tells nothing
		}
		text, err := os.ReadFile(path)
		if err == nil && agentSigns.Match(text) {
			file = path
			return filepath.SkipAll
		}
		return nil
	})
	if err == nil && file != "" {
		return programAgent, file
	}
	return programChat, ""
}

// Of recorded function calls (BFCL, 1,700 calls), two cheap models of different makers agree on
// this share, and are then right as often as the large one.
const agreeShare = 0.73

// runSteps is how many steps a run is taken to have.
const runSteps = 5

// cascadeCost is what the cascade of a pair that costs such a share of the large model is
// expected to cost, as a share of it: both and, where they differ, the large model, until
// they differ for the first time in a run, and the large model alone after that.
func cascadeCost(pair float64) float64 {
	together := (1 - math.Pow(agreeShare, runSteps)) / (1 - agreeShare) / runSteps
	return together*(pair+1-agreeShare) + 1 - together
}

// leastSaving is the expected share that is worth a cascade.
const leastSaving = 0.15

// trio is two cheap models of different makers before a large one.
type trio struct {
	cheap [2]offer
	large offer
	// cost is what is expected of the cascade, as a share of always asking the large model.
	cost float64
}

// trioOf returns the two cheap models of different makers, before the dearest of all, that are
// expected to cost least, or the reason why there are none. Prices are those of the catalogue.
// Models that cost nothing are left out: nothing says how far they are below the large one.
func trioOf(list []offer) (trio, error) {
	if len(list) == 0 {
		return trio{}, errors.New("the environment offers none: set two of " + otherKeys(nil))
	}
	prices, err := pricesOf(list)
	if err != nil {
		return trio{}, err
	}
	perStep := func(o offer) float64 { // a prompt is some five times as long as a call
		p := prices[o.name]
		return 5*p.Input + p.Output
	}
	paid := slices.DeleteFunc(slices.Clone(list), func(o offer) bool { return o.free || perStep(o) == 0 })
	if len(paid) == 0 {
		return trio{}, errors.New("no model that costs anything is at hand")
	}
	slices.SortStableFunc(paid, func(a, b offer) int { return compareFloat(perStep(a), perStep(b)) })
	best := trio{large: paid[len(paid)-1], cost: 2}
	for i, a := range paid[:len(paid)-1] {
		for _, b := range paid[i+1 : len(paid)-1] {
			if a.maker() == b.maker() {
				continue
			}
			if cost := cascadeCost((perStep(a) + perStep(b)) / perStep(best.large)); cost < best.cost {
				best.cheap, best.cost = [2]offer{a, b}, cost
			}
		}
	}
	switch {
	case best.cost == 2:
		return trio{}, errors.New("that takes two cheap models of different makers before a large one: another key would do, of " + otherKeys(list))
	case best.cost > 1-leastSaving:
		return trio{}, fmt.Errorf("%s and %s are not cheap enough beside %s: %.0f %% of its cost is expected; a cheaper model of each maker would do",
			best.cheap[0].served, best.cheap[1].served, best.large.served, 100*best.cost)
	}
	return best, nil
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// maker tells who made a model: who serves it, and where.
func (o offer) maker() string { return o.provider + " " + o.url }

// otherKeys names the keys of makers that offer nothing yet.
func otherKeys(list []offer) string {
	var keys []string
	for _, key := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY"} {
		if !slices.ContainsFunc(list, func(o offer) bool { return o.key == key }) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return "a third maker"
	}
	return strings.Join(keys, ", ")
}

// pricesOf returns what models cost, by name, as the catalogue has it.
func pricesOf(list []offer) (map[string]policies.Price, error) {
	var b strings.Builder
	for _, o := range list {
		o.write(&b)
	}
	p, err := policies.Parse("models.hcl", []byte(b.String()+"strategy \"route\" {\n  worth_usd = 1\n}\n"), policies.LoadOptions{WithoutSecrets: true})
	if err != nil {
		return nil, err
	}
	prices := map[string]policies.Price{}
	for i := range p.Models {
		prices[p.Models[i].Name] = p.Models[i].Price
	}
	return prices, nil
}

// headline is the first line of a policy for an agent: what it is expected to save, and on
// what that rests.
func (t *trio) headline() string {
	return fmt.Sprintf("Expected: about %.0f %% saved of always asking %s. It rests on their prices, and on 1,700 recorded function calls where such models agreed on %.0f %% "+
		"and were then right as often as the large one, in runs of %d steps; the holdout measures it on yours.", 100*(1-t.cost), t.large.served, 100*agreeShare, runSteps)
}

// blocks are what the policy has besides the models.
func (t *trio) blocks() string {
	return fmt.Sprintf(`# Whether the answers of the two cheap models say the same: tool calls are compared by their
# arguments. Both are asked at once; where they agree the step ends, else the large model is asked.
estimator "agreement" {
  plugin = "agreement"
}
strategy "threshold" {
  order     = [%[1]q, %[2]q, %[3]q]
  threshold = 0.9
  parallel  = true
}

# After a step whose answers differed, or two errors of tools or repeated calls, a run is a hard
# one: the large model does the rest of it.
match "hard" {
  models = [%[3]q]
  when {
    setbacks = 1
  }
  strategy "route" {
    worth_usd = 1
  }
}

# One run in twenty asks the large model alone, so that savings are measured: name runs in
# middleware.Info.Run, and tell how they ended by Router.Report.
baseline = %[3]q
holdout {
  share = 0.05
}

`, t.cheap[0].name, t.cheap[1].name, t.large.name)
}
