package outcome

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// Table holds outcomes by query and model. Matrices are indexed by query, then model;
// NaN means unknown, and a nil matrix has no known values.
type Table struct {
	// Models and Queries are the names, each unique.
	Models  []string
	Queries []string
	// Groups says where each query comes from; "" means unknown.
	Groups []string
	// Prompts are the texts of the queries; "" means unknown.
	Prompts []string

	// Quality is in [0, 1], CostUSD the price of the call.
	Quality, CostUSD [][]float64
	// VerdictsUSD is the total cost of the verdicts on the answer. Signals named
	// JUDGE_cost_usd, which have the cost by judge, take precedence.
	VerdictsUSD [][]float64
	// InputTokens and OutputTokens are the billed tokens.
	InputTokens, OutputTokens [][]float64
	// CachedUSD is how much less the call cost because the provider had part of the prompt in its cache, and Tools names
	// the tools that each query offered, separated by commas: some providers cache only prompts with tools. Both are known
	// of traces only.
	CachedUSD [][]float64
	Tools     []string
	// EstimatedInputTokens is the length of the query's prompt as a router estimates it before any call
	// ([sdk.Query].InputTokens); 0 if it had no estimate. It is the same for each model of a query.
	EstimatedInputTokens [][]float64
	// ToolTroubles counts the tool results that look failed and the repeated calls in the query's run so
	// far ([feature.ToolTroubles]); NaN means none. It is the same for each model of a query.
	ToolTroubles [][]float64
	// LatencySeconds is the time to the complete answer.
	LatencySeconds [][]float64
	// Answers are the answers, in a form in which they can be compared; "" means none or
	// unknown.
	Answers [][]string
	// Ante and Post are ex-ante and post-hoc signals of quality, on any scale.
	Ante, Post [][]float64
	// Propensity is the probability with which a model was called, given the results of the
	// models called before it. It is for outcomes recorded in use, with random exploration;
	// nil if every model was called on every query.
	Propensity [][]float64
	// StepVerdicts has the verdicts of a step's judges on answers whose Quality became known later,
	// from the end of their run: 1 is a pass, 0 a fail, 0.5 none. For other answers it is NaN, and
	// in a Verified table their Quality is itself such a verdict. Nil if no quality came later.
	StepVerdicts [][]float64
	// Runs names the run of an agent that each query is a step of; "" means unknown. A run is right only if
	// all its steps are.
	Runs []string
	// RunVerdicts has, at the model whose answer a step's run took, the verdict on that run: the probability
	// that it was right. NaN means none.
	RunVerdicts [][]float64
	// StepsPerRun is the mean number of steps of all recorded runs, including steps that are not in the table; 0 if no
	// query is known to be a step of a run.
	StepsPerRun float64
	// Signals are further post-hoc numbers, by name.
	Signals map[string][][]float64
	// Verdicts are the verdicts of judges that will also judge the models in use, by the
	// judge's name: 1 is a pass, 0 a fail, NaN none. Quality is then the truth, which shows
	// the judges' error rates.
	Verdicts map[string][][]float64
	// Verified says that the quality is the verdict of a check that will also judge the
	// models in use, such as unit tests.
	Verified bool
	// Labels says what the quality is if it is neither the truth nor a verdict:
	// "agreement with MODEL" for steps that a reference model answered too. Such labels
	// serve to choose between models but do not measure quality: the reference errs too,
	// and another answer can be as good.
	Labels string
	// Reference is that model, or "".
	Reference string
}

// Index returns the index of a model, or -1.
func (t *Table) Index(model string) int { return slices.Index(t.Models, model) }

// At returns a value of a matrix, or NaN if the matrix is nil.
func At(matrix [][]float64, query, model int) float64 {
	if matrix == nil {
		return math.NaN()
	}
	return matrix[query][model]
}

// PromptTokens returns the length of a query's prompt as it is known before any model runs: the router's
// estimate. If the table has none, it is the mean of the billed input tokens, which differ by tokenizer and
// include what vendors add, or else one token per four bytes of the prompt, as the middleware counts; 0 if
// all are unknown.
func (t *Table) PromptTokens(query int) int {
	for _, lengths := range [...][][]float64{t.EstimatedInputTokens, t.InputTokens} {
		sum, n := 0.0, 0.0
		for m := range t.Models {
			if v := At(lengths, query, m); !math.IsNaN(v) {
				sum, n = sum+v, n+1
			}
		}
		if n > 0 {
			return int(math.Round(sum / n))
		}
	}
	return (len(t.Prompt(query)) + 3) / 4
}

// Troubles returns the tool troubles of a query's run so far, which are known before any model runs.
func (t *Table) Troubles(query int) (most float64) {
	if t.ToolTroubles != nil {
		for _, v := range t.ToolTroubles[query] {
			if v > most {
				most = v
			}
		}
	}
	return most
}

// Group returns the group of a query, or "" if unknown.
func (t *Table) Group(query int) string { return text(t.Groups, query) }

// Prompt returns the text of a query, or "" if unknown.
func (t *Table) Prompt(query int) string { return text(t.Prompts, query) }

// Answer returns a model's answer, or "" if unknown.
func (t *Table) Answer(query, model int) string {
	if t.Answers == nil {
		return ""
	}
	return t.Answers[query][model]
}

func text(column []string, i int) string {
	if column == nil {
		return ""
	}
	return column[i]
}

// Rows returns the table of the given queries, in the given order; queries can be
// repeated. Values are shared with t.
func (t *Table) Rows(queries []int) *Table {
	return t.derive(
		t.Models,
		func(column []string) []string { return pick(column, queries) },
		func(m [][]float64) [][]float64 { return pick(m, queries) },
		func(m [][]string) [][]string { return pick(m, queries) },
	)
}

// Select returns the table of the given models, in the given order. Values are
// copied.
func (t *Table) Select(models ...string) (*Table, error) {
	columns := make([]int, len(models))
	for i, name := range models {
		columns[i] = t.Index(name)
		if columns[i] < 0 {
			return nil, fmt.Errorf("no outcomes of model %q; the table has %q", name, t.Models)
		}
		if slices.Contains(models[:i], name) {
			return nil, fmt.Errorf("model %q selected twice", name)
		}
	}
	if len(models) == 0 {
		return nil, fmt.Errorf("no models selected")
	}
	return t.derive(
		slices.Clone(models),
		func(column []string) []string { return column },
		func(m [][]float64) [][]float64 { return columnsOf(m, columns) },
		func(m [][]string) [][]string { return columnsOf(m, columns) },
	), nil
}

// Widen returns the table with the given models added, with unknown values, if it does not
// have them yet.
func (t *Table) Widen(models ...string) *Table {
	all := slices.Clone(t.Models)
	for _, name := range models {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	more := len(all) - len(t.Models)
	return t.derive(
		all,
		func(column []string) []string { return column },
		func(m [][]float64) [][]float64 { return widen(m, more, math.NaN()) },
		func(m [][]string) [][]string { return widen(m, more, "") },
	)
}

func widen[T any](matrix [][]T, by int, unknown T) [][]T {
	if matrix == nil {
		return nil
	}
	out := make([][]T, len(matrix))
	for i, row := range matrix {
		out[i] = append(slices.Clone(row), slices.Repeat([]T{unknown}, by)...)
	}
	return out
}

// derive returns a table with the given functions applied to the columns of queries and
// to the matrices. The functions must return nil for nil.
func (t *Table) derive(models []string, column func([]string) []string, numbers func([][]float64) [][]float64, texts func([][]string) [][]string) *Table {
	return &Table{
		Models: models, Queries: column(t.Queries), Groups: column(t.Groups), Prompts: column(t.Prompts), Runs: column(t.Runs), Tools: column(t.Tools), Answers: texts(t.Answers),
		Quality: numbers(t.Quality), CostUSD: numbers(t.CostUSD), VerdictsUSD: numbers(t.VerdictsUSD),
		InputTokens: numbers(t.InputTokens), OutputTokens: numbers(t.OutputTokens), EstimatedInputTokens: numbers(t.EstimatedInputTokens), CachedUSD: numbers(t.CachedUSD), ToolTroubles: numbers(t.ToolTroubles),
		LatencySeconds: numbers(t.LatencySeconds), Ante: numbers(t.Ante), Post: numbers(t.Post), Propensity: numbers(t.Propensity),
		StepVerdicts: numbers(t.StepVerdicts), RunVerdicts: numbers(t.RunVerdicts), StepsPerRun: t.StepsPerRun, Signals: mapMatrices(t.Signals, numbers), Verdicts: mapMatrices(t.Verdicts, numbers),
		Verified: t.Verified, Labels: t.Labels, Reference: t.Reference,
	}
}

func mapMatrices(matrices map[string][][]float64, f func([][]float64) [][]float64) map[string][][]float64 {
	if matrices == nil {
		return nil
	}
	out := make(map[string][][]float64, len(matrices))
	for name, m := range matrices {
		out[name] = f(m)
	}
	return out
}

func pick[T any](values []T, at []int) []T {
	if values == nil {
		return nil
	}
	picked := make([]T, len(at))
	for i, k := range at {
		picked[i] = values[k]
	}
	return picked
}

func columnsOf[T any](matrix [][]T, columns []int) [][]T {
	if matrix == nil {
		return nil
	}
	out := make([][]T, len(matrix))
	cells := make([]T, len(matrix)*len(columns))
	for q, row := range matrix {
		out[q], cells = cells[:len(columns):len(columns)], cells[len(columns):]
		for i, c := range columns {
			out[q][i] = row[c]
		}
	}
	return out
}

// Complete returns the table of the queries on which the quality and the cost of
// every model are known.
func (t *Table) Complete() *Table {
	var keep []int
	for q := range t.Queries {
		if !slices.ContainsFunc(t.Quality[q], math.IsNaN) && t.CostUSD != nil && !slices.ContainsFunc(t.CostUSD[q], math.IsNaN) {
			keep = append(keep, q)
		}
	}
	return t.Rows(keep)
}

// MeanCosts returns the mean cost of each model in US dollars over the queries on
// which it is known, or NaN if there are none.
func (t *Table) MeanCosts() []float64 { return columnMeans(t.CostUSD, len(t.Models)) }

// MeanQualities returns the mean quality of each model, like [Table.MeanCosts].
func (t *Table) MeanQualities() []float64 { return columnMeans(t.Quality, len(t.Models)) }

func columnMeans(matrix [][]float64, columns int) []float64 {
	means, counts := make([]float64, columns), make([]float64, columns)
	for _, row := range matrix {
		for m, v := range row {
			if !math.IsNaN(v) {
				means[m] += v
				counts[m]++
			}
		}
	}
	for m := range means {
		means[m] /= counts[m]
	}
	return means
}

// SignalNames returns the names of the signals, sorted.
func (t *Table) SignalNames() []string { return slices.Sorted(maps.Keys(t.Signals)) }

// VerdictCosts returns the cost of the judges' verdicts on each answer, or nil if none has a price. An
// answer without a price gets the mean of its model. VerdictsUSD, the sum over all judges, is used only if
// none of these judges has prices of its own.
func (t *Table) VerdictCosts(judges ...string) [][]float64 {
	var prices [][][]float64
	for _, judge := range slices.Compact(slices.Sorted(slices.Values(judges))) {
		if own := t.Signals[judge+sdk.SignalCostUSD]; own != nil {
			prices = append(prices, own)
		}
	}
	if prices == nil && t.VerdictsUSD != nil {
		prices = append(prices, t.VerdictsUSD)
	}
	if prices == nil {
		return nil
	}
	costs := make([][]float64, len(t.Queries))
	for q := range costs {
		costs[q] = make([]float64, len(t.Models))
	}
	for _, matrix := range prices {
		means := columnMeans(matrix, len(t.Models))
		for q, row := range matrix {
			for m, usd := range row {
				if math.IsNaN(usd) {
					usd = means[m]
				}
				if usd > 0 {
					costs[q][m] += usd
				}
			}
		}
	}
	return costs
}

// Judges returns the sorted names of the judges in Verdicts.
func (t *Table) Judges() []string { return slices.Sorted(maps.Keys(t.Verdicts)) }

// Judged reports whether answers will also be judged in use: by a check that is always
// right, or by fallible judges.
func (t *Table) Judged() bool { return t.Verified || len(t.Verdicts) > 0 }
