package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// The names of columns and fields in the long formats.
const (
	colQuery   = "query_id"
	colGroup   = "group"
	colModel   = "model"
	colQuality = "quality"
	colCost    = "cost_usd"
	// colVerdictsUSD is the total cost of the verdicts on an answer.
	colVerdictsUSD = "verdicts_cost_usd"
	colInput       = "input_tokens"
	// colEstimated is the router's estimate of the prompt's length, the same for each model. Its name differs
	// from prompt_tokens, the billed tokens of OpenAI's API.
	colEstimated = "estimated_input_tokens"
	colOutput    = "output_tokens"
	colLatency   = "latency_seconds"
	// colTroubles counts earlier tool troubles of the query's run; it is the same for each model.
	colTroubles = "tool_troubles"
	colAnswer   = "answer"
	colPrompt   = "prompt"
	colAnte     = "ante"
	colPost     = "post"
	colLogProb  = "log_probs"
	colSignals  = "signals"
	// colVerdict is the prefix of the column with a judge's verdicts.
	colVerdict = "verdict_"
	// colJudged is the verdict from which a collection takes its quality, and colTruth the true quality,
	// if it was added later.
	colJudged = "verdict"
	colTruth  = "truth"
	// colPropensity is the probability with which the model was called.
	colPropensity = "propensity"
	// colSample is the number of the model's answer, from 1; the second of "small" is an
	// outcome of "small#2".
	colSample = "sample"
)

type builder struct {
	queries, models   map[string]int
	queryIDs, names   []string
	groups, prompts   []string
	answers           [][]string
	numbers           map[string][][]float64 // column, query, model
	verdicts          map[string]bool        // columns of verdicts with a value
	seen              [][]bool
	anyGroup, anyText bool
	anyAnswer         bool
	anyCached         bool        // a prompt cache saved something
	cachedUSD         [][]float64 // Table.CachedUSD
	tools             []string    // Table.Tools
	verified          bool        // only verdicts are qualities
	// spreadBlame does not look at verdicts to find the wrong step of a failed run, so that the verdict
	// model of a fit can combine both.
	spreadBlame   bool
	chosen        bool // steps without a choice of models are left out
	reportLeftOut func(file string, line int)
	// prices are those of Options, and converted the models of which a cost was converted.
	prices          map[string]sdk.Price
	converted       []string
	reportConverted func(model string, was sdk.Price)
	// baselines are the calls of models that were called regardless of their estimate, and shadows those
	// that a strategy chose while the baseline's answer was returned.
	baselines, shadows []place
	// pinned are the calls of steps that had no other candidate.
	pinned map[place]bool
	runs   map[string]*run
	// stepVerdicts is Table.StepVerdicts; nil if verdicts are not qualities or no run has a verdict.
	stepVerdicts [][]float64
	// rejected are the answers that a free check rejected: these are wrong, which does not make others
	// right.
	rejected map[place]bool
}

type place struct{ query, model int }

// label sets the quality to agreement with the baseline if no verdicts are known, and returns the
// baseline, or "" if there is none.
func (b *builder) label() string {
	if len(b.baselines) == 0 || !b.anyAnswer || b.numbers[colQuality] != nil {
		return ""
	}
	reference := b.baselines[len(b.baselines)-1].model
	quality := make([][]float64, len(b.queryIDs))
	for _, p := range b.baselines {
		want := cellAt(b.answers, p, "")
		if p.model != reference || b.rejected[p] {
			continue
		}
		for m, answer := range b.answers[p.query] {
			quality = setCell(quality, place{p.query, m}, agreement(answer, want), math.NaN())
		}
	}
	b.numbers[colQuality] = quality
	return b.names[reference]
}

// agreement returns 1 for equal answers, 0 for different ones, and NaN if either is missing.
func agreement(answer, want string) float64 {
	if answer == "" || want == "" {
		return math.NaN()
	}
	return oneIf(answer == want)
}

// failRejected sets the unknown quality of answers that checks rejected to 0, if any answer has a quality.
func (b *builder) failRejected() {
	matrix := b.numbers[colQuality]
	if matrix == nil {
		return
	}
	for p := range b.rejected {
		if math.IsNaN(cellAt(matrix, p, math.NaN())) {
			matrix = setCell(matrix, p, 0, math.NaN())
		}
	}
	b.numbers[colQuality] = matrix
}

// setPropensities sets the propensities of shadows to 1, and those of baselines and of pinned calls to
// just below 1: these count as random, since they are made regardless of the estimate.
func (b *builder) setPropensities(matrix [][]float64) {
	if matrix == nil {
		return
	}
	for _, p := range b.shadows {
		matrix[p.query][p.model] = 1
	}
	for _, p := range b.baselines {
		matrix[p.query][p.model] = math.Nextafter(1, 0)
	}
	for p := range b.pinned {
		if !(matrix[p.query][p.model] < 1) {
			matrix[p.query][p.model] = math.Nextafter(1, 0)
		}
	}
}

// dropPinned returns the table without the queries that lack a model and had no choice of models, if
// propensities are known.
func (b *builder) dropPinned(t *Table) *Table {
	if !b.chosen || t.Propensity == nil {
		return t
	}
	var keep []int
	for q, row := range t.Quality {
		hadChoice := false
		for m, isAsked := range b.seen[q] {
			hadChoice = hadChoice || isAsked && !b.pinned[place{q, m}]
		}
		if hadChoice || !slices.ContainsFunc(row, math.IsNaN) {
			keep = append(keep, q)
		}
	}
	return t.Rows(keep)
}

func newBuilder() *builder {
	return &builder{queries: map[string]int{}, models: map[string]int{}, numbers: map[string][][]float64{}, verdicts: map[string]bool{}, rejected: map[place]bool{}, pinned: map[place]bool{}}
}

// query returns the index of a query, which it adds if it is new.
func (b *builder) query(id, group, prompt string) int {
	q, known := b.queries[id]
	if !known {
		q = len(b.queryIDs)
		b.queries[id] = q
		b.queryIDs = append(b.queryIDs, id)
		b.groups = append(b.groups, "")
		b.prompts = append(b.prompts, "")
		b.answers = append(b.answers, nil)
		b.seen = append(b.seen, nil)
	}
	if group != "" {
		b.groups[q], b.anyGroup = group, true
	}
	if prompt != "" {
		b.prompts[q], b.anyText = prompt, true
	}
	return q
}

func (b *builder) model(name string) int {
	m, known := b.models[name]
	if !known {
		m = len(b.names)
		b.models[name] = m
		b.names = append(b.names, name)
	}
	return m
}

func (b *builder) add(c *cell) *fault {
	if f := c.checkNames(); f != nil {
		return f
	}
	if q, known := b.queries[c.query]; known && c.group != "" && c.group != cmp.Or(b.groups[q], c.group) {
		return &fault{colGroup, fmt.Errorf("query %.100q is of group %.100q here and of %.100q before: two queries of one name", c.query, c.group, b.groups[q])}
	}
	p := place{b.query(c.query, c.group, c.prompt), b.model(c.model)}
	if cellAt(b.seen, p, false) {
		return &fault{colModel, fmt.Errorf("second outcome of model %.100q for query %.100q", c.model, c.query)}
	}
	b.seen = setCell(b.seen, p, true, false)
	if c.answer != "" {
		b.answers, b.anyAnswer = setCell(b.answers, p, c.answer, ""), true
	}
	for column, v := range c.numbers {
		if isVerdict(column) {
			b.verdicts[column] = true
		}
		if math.IsNaN(v) {
			continue
		}
		if err := check(column, v); err != nil {
			return &fault{column, err}
		}
		b.numbers[column] = setCell(b.numbers[column], p, v, math.NaN())
	}
	return nil
}

func grow[T any](row []T, i int, empty T) []T {
	for len(row) <= i {
		row = append(row, empty)
	}
	return row
}

// setCell sets the value at a place of a matrix, which grows with empty values.
func setCell[T any](matrix [][]T, p place, v, empty T) [][]T {
	matrix = grow(matrix, p.query, nil)
	matrix[p.query] = grow(matrix[p.query], p.model, empty)
	matrix[p.query][p.model] = v
	return matrix
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// matrix returns the values of a column, or nil if there are none.
func (b *builder) matrix(column string) [][]float64 {
	m, known := b.numbers[column]
	if !known {
		return nil
	}
	return b.complete(m)
}

// complete fills a matrix up with unknown values.
func (b *builder) complete(m [][]float64) [][]float64 {
	m = grow(m, len(b.queryIDs)-1, nil)
	for q := range m {
		m[q] = grow(m[q], len(b.names)-1, math.NaN())
	}
	return m
}

// setLabels sets qualities that no row states, and returns what they are (see Table.Labels) and the
// reference model.
func (b *builder) setLabels() (labels, reference string) {
	if !b.verified {
		reference = b.label()
	}
	if reference != "" {
		labels = "agreement with " + reference
	}
	if b.creditRuns(reference == "" && b.numbers[colQuality] != nil) && !b.verified {
		labels = strings.TrimSuffix("verdicts on runs, else "+labels, ", else ")
	}
	b.failRejected()
	return labels, reference
}

func (b *builder) table(file string) (*Table, error) {
	if len(b.queryIDs) == 0 || len(b.names) == 0 {
		return nil, &Error{File: file, Err: errors.New("no outcomes")}
	}
	t := b.columns()
	if t.Quality == nil {
		return nil, &Error{File: file, Column: colQuality, Err: errors.New("no row has a value")}
	}
	return b.dropPinned(t), nil
}

// columns returns the table with all queries, whose quality can be unknown.
func (b *builder) columns() *Table {
	labels, reference := b.setLabels()
	t := &Table{
		Labels: labels, Reference: reference, Models: b.names, Queries: b.queryIDs,
		Quality: b.matrix(colQuality), CostUSD: b.matrix(colCost), VerdictsUSD: b.matrix(colVerdictsUSD),
		InputTokens: b.matrix(colInput), OutputTokens: b.matrix(colOutput), EstimatedInputTokens: b.matrix(colEstimated), LatencySeconds: b.matrix(colLatency), ToolTroubles: b.matrix(colTroubles),
		Ante: b.matrix(colAnte), Post: b.matrix(colPost), Propensity: b.matrix(colPropensity),
		StepVerdicts: b.stepVerdicts,
	}
	b.setRuns(t)
	b.setPropensities(t.Propensity)
	if b.anyCached {
		t.CachedUSD, t.Tools = b.complete(b.cachedUSD), grow(b.tools, len(b.queryIDs)-1, "")
	}
	if b.anyGroup {
		t.Groups = b.groups
	}
	if b.anyText {
		t.Prompts = b.prompts
	}
	if b.anyAnswer {
		for q := range b.answers {
			b.answers[q] = grow(b.answers[q], len(b.names)-1, "")
		}
		t.Answers = b.answers
	}
	t.Signals, t.Verdicts = b.signals()
	return t
}

// signals returns the columns of signals and of the judges' verdicts by name, or nil if there are none.
func (b *builder) signals() (signals, verdicts map[string][][]float64) {
	for column := range b.numbers {
		if isColumn(column) {
			continue
		}
		into, name := &signals, column
		if isVerdict(column) {
			into, name = &verdicts, strings.TrimPrefix(column, colVerdict)
		}
		if *into == nil {
			*into = map[string][][]float64{}
		}
		(*into)[name] = b.matrix(column)
	}
	return signals, verdicts
}

// isColumn reports whether a column has a meaning of its own.
func isColumn(column string) bool {
	switch column {
	case colQuery, colGroup, colModel, colQuality, colCost, colVerdictsUSD, colInput, colOutput, colEstimated, colLatency, colTroubles,
		colAnswer, colPrompt, colAnte, colPost, colLogProb, colPropensity, colSample:
		return true
	}
	return false
}

// isNumeric reports whether a column must have numbers: one with a meaning of its own, a judge's verdicts,
// or the cost of a signal or a judge.
func isNumeric(column string) bool {
	return isColumn(column) || isVerdict(column) || strings.HasSuffix(column, sdk.SignalCostUSD)
}

func isVerdict(column string) bool {
	return len(column) > len(colVerdict) && strings.HasPrefix(column, colVerdict)
}
