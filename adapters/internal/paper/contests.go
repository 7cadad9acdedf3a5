package paper

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

type method struct{ row, title string }

var methods = []method{
	{"picked_single", "best single model of the train half"},
	{"linear_interpolation", "linear mix of single models (hindsight)"},
	{cascade.NameRoute, "router, the paper's"},
	{"route_knn", "router, nearest neighbours"},
	{"route_gbt", "router, boosted trees"},
	{cascade.NameThreshold, "threshold cascade"},
	{"pruned", "cheapest first, pruned greedily"},
	{"passes_per_dollar", "most passes per dollar first"},
	{"pairs", "best cascade of two models"},
	{"draft_and_verify", "cascadeflow's rule: draft, verify"},
	{"gated_ladder", "Firstpass' rule: ladder with gates"},
	{"cascade_published", "paper's cascade, published"},
	{"cascade_route_published", "cascade routing, published"},
	{cascade.NameCascadeRoute, "cascade routing, mended"},
	{cascade.NameIndex, "index"},
}

// contest is a table of the board: a file, how it is prepared, and which signals methods see.
type contest struct {
	key, title, file string
	verified         bool
	// change, when not nil, prepares the table; seed selects one of several runs.
	change func(t *outcome.Table, seed uint64) (*outcome.Table, error)
	study  eval.Study
	note   string
}

func contests() []contest {
	judged := eval.Study{Signals: eval.SignalsVerdict}
	features := eval.Study{Signals: eval.SignalsFeatures}
	list := []contest{
		{"SWE", "SWE-bench Verified, mini-SWE-agent", "swebench_verified.csv", true, nil, judged, "The tests judge every answer."},
		{"OH-SWE", "SWE-bench Verified, OpenHands", "openhands_swe.csv", true, nil, judged, "The tests judge every answer."},
		{"OH-SWT", "SWT-bench, OpenHands", "openhands_swt.csv", true, nil, judged, "The check judges every answer."},
		{"OH-MM", "SWE-bench Multimodal, OpenHands", "openhands_swemm.csv", true, withoutSignals, judged, "The tests judge every answer; 35 issues only."},
		{"MCP", "MCPMark, every effort an arm", "mcpmark.csv", true, oneRun, judged, "The check judges every answer. Of up to four runs of each arm one is drawn for each pair of halves; costs are means."},
		{"MCP-1", "MCPMark, one arm a model", "mcpmark.csv", true, oneArm, judged, "As above, with the middle effort of each model."},
		{"MBPP", "Firstpass' MBPP", "firstpass_mbpp3.csv", false, applyGate, eval.Study{Signals: eval.SignalsFeatures, Estimator: estimate.KindLatent}, "A real gate judges every answer, and lets wrong ones pass; the truth is measured."},
		{"BFCL", "BFCL, eleven models", "bfcl_calls.csv.gz", false, callers, features, "Nothing judges: calls that agree support one another. One call in two."},
		{"Llama", "MMLU-Pro, Llama 2 to 3.1", "mmlu_pro_open.csv.gz", false, family(12, "Llama"), features, "Nothing judges: letters that agree do. Costs are parameters met times tokens (characters over four). One question in twelve."},
		{"Mistral", "MMLU-Pro, Mistral and Mixtral", "mmlu_pro_open.csv.gz", false, family(12, mistrals...), features, "As above."},
		{"ZE-5", "ZeroEval, 5 models, features", "zeroeval.csv", false, subset("5", 3), features, "Nothing judges: lengths, and answers that agree. One question in three."},
		{"ZE-24", "ZeroEval, 24 models, features", "zeroeval.csv", false, subset("all", 6), features, "As above, one question in six."},
	}
	for _, level := range levels {
		list = append(list, contest{"ZE-" + level, "ZeroEval, 11 models, " + level + " noise", "zeroeval.csv", false, subset("11", 3), eval.Study{Noise: noiseOf(level)}, "Estimates are the truth plus noise, as in the paper's RouterBench. One question in three."})
	}
	return append(list, contest{"TB", "Terminal-Bench, seconds for a cost", "terminal_bench_mean.csv", true, inSeconds, judged, "The tests judge every answer; one of five runs is drawn. 40 tasks."})
}

func withoutSignals(t *outcome.Table, _ uint64) (*outcome.Table, error) {
	c := *t
	c.Signals, c.InputTokens, c.OutputTokens = nil, nil, nil
	return &c, nil
}

// oneRun draws one of the runs whose mean a quality is.
func oneRun(t *outcome.Table, seed uint64) (*outcome.Table, error) {
	c := *t
	c.Quality, c.Signals, c.InputTokens, c.OutputTokens = nil, nil, nil, nil
	rng := rand.New(rand.NewPCG(seed, 0xb1))
	for _, row := range t.Quality {
		drawn := make([]float64, len(row))
		for m, v := range row {
			drawn[m] = float64(btoi(rng.Float64() < v))
		}
		c.Quality = append(c.Quality, drawn)
	}
	return &c, nil
}

// oneArm keeps one effort of each model: medium, else none, high, low.
func oneArm(t *outcome.Table, seed uint64) (*outcome.Table, error) {
	var models []string
	rank := func(name, model string) int {
		return slices.Index([]string{"-low", "-high", "", "-medium"}, name[len(model):])
	}
	base := regexp.MustCompile(`-(low|medium|high)$`)
	for _, name := range t.Models {
		model := base.ReplaceAllString(name, "")
		i := slices.IndexFunc(models, func(m string) bool { return base.ReplaceAllString(m, "") == model })
		if i < 0 {
			models = append(models, name)
		} else if rank(name, model) > rank(models[i], model) {
			models[i] = name
		}
	}
	c, err := t.Select(models...)
	if err != nil {
		return nil, err
	}
	return oneRun(c, seed)
}

func applyGate(t *outcome.Table, _ uint64) (*outcome.Table, error) {
	c := *t
	c.Verdicts, c.Signals = map[string][][]float64{"gate": t.Signals["gate_pass"]}, nil
	return &c, nil
}

func callers(t *outcome.Table, _ uint64) (*outcome.Table, error) {
	c := *t
	c.Signals = nil
	return thin(&c, 2).Select("gpt-4o-mini-2024-07-18-FC", "gpt-4o-mini-2024-07-18", "gemini-1.5-flash-preview-0514", "open-mistral-nemo-2407-FC-Auto", "gpt-3.5-turbo-0125-FC", "claude-3-haiku-20240307",
		"gemini-1.5-pro-preview-0514", "gpt-4o-2024-08-06-FC", "gpt-4o-2024-05-13-FC", "claude-3-5-sonnet-20240620", "gpt-4-turbo-2024-04-09")
}

// mistrals are substrings of the names of Mistral's models.
var mistrals = []string{"istral", "Mixtral", "mathstral"}

// billions matches the number of active parameters, in billions, in a name.
var billions = regexp.MustCompile(`-(\d+)[bB]`)

// family selects the models whose names contain one of words, with costs by size and length, on one question in n.
func family(n int, words ...string) func(*outcome.Table, uint64) (*outcome.Table, error) {
	return func(t *outcome.Table, _ uint64) (*outcome.Table, error) {
		c, err := t.Select(slices.DeleteFunc(slices.Clone(t.Models), func(name string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
		})...)
		if err != nil {
			return nil, err
		}
		c = thin(c, n)
		c.CostUSD, c.OutputTokens = nil, nil
		for q := range c.Queries {
			var cost, output []float64
			for m, name := range c.Models {
				size := 13.0 // two active experts of a Mixtral
				if found := billions.FindStringSubmatch(name); found != nil {
					size, _ = strconv.ParseFloat(found[1], 64)
				}
				input, out := c.Signals["input_chars"][q][m]/4, c.Signals["output_chars"][q][m]/4
				cost, output = append(cost, size*(input+out)/1e6), append(output, out)
			}
			c.CostUSD, c.OutputTokens = append(c.CostUSD, cost), append(c.OutputTokens, output)
		}
		c.Signals = nil
		return c, nil
	}
}

// thin keeps one query in n, so that the board takes minutes.
func thin(t *outcome.Table, n int) *outcome.Table {
	var rows []int
	for q := 0; q < len(t.Queries); q += n {
		rows = append(rows, q)
	}
	return t.Rows(rows)
}

// subset selects a set of models on one query in n.
func subset(name string, n int) func(*outcome.Table, uint64) (*outcome.Table, error) {
	return func(t *outcome.Table, _ uint64) (*outcome.Table, error) { return thin(t, n).Subset(name) }
}

// inSeconds uses seconds as costs, on the arms that have them.
func inSeconds(t *outcome.Table, seed uint64) (*outcome.Table, error) {
	c := *t
	c.CostUSD = t.Signals["agent_seconds"]
	var models []string
	for m, name := range t.Models {
		if !math.IsNaN(c.CostUSD[0][m]) {
			models = append(models, name)
		}
	}
	timed, err := c.Select(models...)
	if err != nil {
		return nil, err
	}
	return oneRun(timed, seed)
}
