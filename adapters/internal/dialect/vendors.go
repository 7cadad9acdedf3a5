package dialect

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/middleware"
)

//go:embed vendors.json
var vendorTable []byte

// vendorLimits are the limits of a vendor's models. If two rows set the same field, or the same entry of a
// map, the later one counts.
type vendorLimits struct {
	API  []middleware.Dialect
	Host []string // each including its subdomains; nil matches any host
	Rows []limitRow
}

type limitRow struct {
	Model, Not  *regexp.Regexp  // patterns of the model's name
	From, Below float64         // range of a Claude version; never matches an unknown version
	Set         json.RawMessage // fields of Limits
	Source      string
}

var vendors = sync.OnceValue(func() (list []vendorLimits) {
	if err := json.Unmarshal(vendorTable, &list); err != nil {
		panic(fmt.Sprintf("dialect: vendors.json: %s", err))
	}
	return list
})

// LimitsOf returns the limits of a model at a host.
func LimitsOf(api middleware.Dialect, host, model string) (l Limits) {
	for _, v := range vendors() {
		isAt := v.Host == nil || slices.ContainsFunc(v.Host, func(name string) bool { return isHost(host, name) })
		if !isAt || !slices.Contains(v.API, api) {
			continue
		}
		for _, row := range v.Rows {
			if !row.matches(model) {
				continue
			}
			if err := json.Unmarshal(row.Set, &l); err != nil {
				panic(fmt.Sprintf("dialect: vendors.json: %s: %s", row.Set, err))
			}
		}
	}
	return l
}

func (r *limitRow) matches(model string) bool {
	if r.Model != nil && !r.Model.MatchString(model) || r.Not != nil && r.Not.MatchString(model) {
		return false
	}
	if r.From == 0 && r.Below == 0 {
		return true
	}
	version := versionOf(model)
	return version > 0 && version >= r.From && (r.Below == 0 || version < r.Below)
}

var claudeVersion = regexp.MustCompile(`claude-(?:(?:opus|sonnet|haiku|fable)-)?(\d)(?:[-.](\d))?(?:[-.]|$)`)

// versionOf returns the version of a Claude model, 0 for other or unknown models.
func versionOf(model string) float64 {
	found := claudeVersion.FindStringSubmatch(model)
	if found == nil {
		return 0
	}
	version, _ := strconv.ParseFloat(found[1]+"."+found[2]+"0", 64) // cannot fail for digits
	return version
}

// IsOpenAI reports whether a host belongs to OpenAI or Azure.
func IsOpenAI(host string) bool { return isHost(host, "api.openai.com") || isHost(host, "azure.com") }

func isHost(host, name string) bool { return host == name || strings.HasSuffix(host, "."+name) }

// thinkingBudget is the number of tokens for an effort, for Gemini models before 3, which do not accept efforts;
// https://ai.google.dev/gemini-api/docs/openai#thinking
var thinkingBudget = map[string]int{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}

// proBudget is the maximum budget of the Pro models. The maximum of other models is the one for the effort high;
// https://ai.google.dev/gemini-api/docs/thinking#set-budget
const proBudget = 32768

// leastProBudget is the minimum budget of the Pro models: "Budget 0 is invalid. This model only works in thinking
// mode"; https://github.com/vercel/ai/issues/8027. Their only levels are low and high.
const leastProBudget = 128
