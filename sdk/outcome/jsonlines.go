package outcome

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

// readJSON reads one JSON object per line, each a row of outcomes or a trace, or the SWE-bench
// leaderboards, which are a single object.
func (b *builder) readJSON(r *bufio.Reader, name string) error {
	start, _ := r.Peek(r.Size())
	if found := bytes.Contains(start, []byte(`"per_instance_details"`)); found || bytes.Contains(start, []byte(`"leaderboards"`)) {
		return b.readLeaderboards(r, name)
	}
	traces, rows := false, false
	var early []int // lines that are neither a row nor a trace, before the first that is
	var first error // the first error of these
	err := eachLine(r, name, func(row int, line []byte) error {
		isTraced, invalid, f := b.addLine(line)
		switch {
		case f != nil:
			return &Error{File: name, Row: row, Column: f.column, Err: f.err}
		case invalid == nil && isTraced:
			for _, row := range early {
				b.reportLeftOut(name, row)
			}
			traces, early, first = true, nil, nil
		case invalid == nil:
			rows = true
		case traces && b.reportLeftOut != nil:
			b.reportLeftOut(name, row)
		default:
			early, first = append(early, row), cmp.Or[error](first, &Error{File: name, Row: row, Column: invalid.column, Err: invalid.err})
		}
		if rows || b.reportLeftOut == nil {
			return first
		}
		return nil
	})
	if err = cmp.Or(err, first); err != nil {
		return err
	}
	return b.checkVerdicts(name)
}

// addLine adds a line and reports whether it is a trace. invalid says why it is neither a trace nor a row
// of outcomes.
func (b *builder) addLine(line []byte) (isTraced bool, invalid, f *fault) {
	raw, err := readObject(line)
	if err != nil {
		return false, &fault{"", err}, nil
	}
	if isTrace(raw) {
		t, invalid := readTrace(line)
		if invalid != nil {
			return true, invalid, nil
		}
		b.convertCosts(t)
		return true, nil, b.addSteps(t)
	}
	if name := duplicateMember(line); name != "" {
		return false, &fault{name, errors.New("named twice")}, nil
	}
	c, invalid := cellOf(raw)
	if invalid != nil {
		return false, invalid, nil
	}
	return false, nil, b.add(c)
}

// readObject reads a JSON object; white space around the names of its members is ignored, as in CSV.
func readObject(line []byte) (map[string]any, error) {
	raw := map[string]any{}
	err := json.Unmarshal(line, &raw)
	if _, isOther := errors.AsType[*json.UnmarshalTypeError](err); isOther || err == nil && raw == nil {
		return nil, errors.New(`no JSON object: want one on each line, such as {"query_id": "q1", ...}`)
	}
	if err != nil {
		return nil, fmt.Errorf("no JSON object, which must end on the line that it begins on: %w", err)
	}
	for name, value := range raw {
		if trimmed := strings.TrimSpace(name); trimmed != name {
			delete(raw, name)
			raw[trimmed] = value
		}
	}
	return raw, nil
}

// duplicateMember returns the name of a member that a JSON object has twice, or "".
func duplicateMember(object []byte) string {
	in := json.NewDecoder(bytes.NewReader(object))
	if _, err := in.Token(); err != nil {
		return ""
	}
	seen := map[string]bool{}
	for in.More() {
		key, err := in.Token()
		name, ok := key.(string)
		var value json.RawMessage
		if err != nil || !ok || in.Decode(&value) != nil {
			return "" // it was read before
		}
		if name = strings.TrimSpace(name); seen[name] {
			return name
		}
		seen[name] = true
	}
	return ""
}

func cellOf(fields map[string]any) (*cell, *fault) {
	c := &cell{numbers: map[string]float64{}}
	for column, value := range fields {
		set := c.setNumbers
		if target := c.text(column); target != nil {
			set = func(_ string, value any) *fault { return setText(target, column, value) }
		}
		if f := set(column, value); f != nil {
			return nil, f
		}
	}
	_, hasQuality := fields[colQuality]
	if _, hasTruth := fields[colTruth]; !hasQuality && !hasTruth {
		return nil, &fault{colQuality, errors.New("missing")}
	}
	if f := c.addVerdict(fields[colJudged]); f != nil {
		return nil, f
	}
	return c, nil
}

func setText(to *string, column string, value any) *fault {
	switch v := value.(type) {
	case nil:
	case string:
		*to = v
	case float64, bool:
		*to = fmt.Sprint(v)
	default:
		return &fault{column, fmt.Errorf("%s where a string is wanted", kindOf(value))}
	}
	return nil
}

// setNumbers sets a column of numbers, log-probabilities or signals; other columns are ignored.
func (c *cell) setNumbers(column string, value any) *fault {
	list, isList := value.([]any)
	members, isObject := value.(map[string]any)
	switch v := value.(type) {
	case nil:
		if isVerdict(column) {
			c.numbers[column] = math.NaN()
		}
		return nil
	case float64:
		c.numbers[column] = v
		return nil
	case bool:
		c.numbers[column] = oneIf(v)
		return nil
	}
	switch {
	case isList && column == colLogProb:
		return addLogProbs(c, list)
	case isObject && column == colSignals:
		for name, x := range members {
			number, ok := x.(float64)
			if !ok || isColumn(name) {
				return &fault{colSignals, fmt.Errorf("%q: %v is no number of a signal", name, x)}
			}
			c.numbers[name] = number
		}
		return nil
	case isNumeric(column), column == colTruth:
		return &fault{column, fmt.Errorf("%s where a number is wanted", kindOf(value))}
	}
	return nil
}

func kindOf(value any) string {
	switch value.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a string"
}

// addVerdict adds the cost of the verdict on an answer. If the truth is known too, that is the quality, and
// the verdict is that of a fallible judge.
func (c *cell) addVerdict(verdict any) *fault {
	v, _ := verdict.(map[string]any)
	if usd, ok := v["cost_usd"].(float64); ok {
		c.numbers[colVerdictsUSD] = usd
	}
	truth, known := c.numbers[colTruth]
	if !known {
		return nil
	}
	judge, _ := v["verifier"].(string)
	word, _ := v["outcome"].(string)
	verdicts := map[string]float64{"passed": 1, "failed": 0, "inconclusive": math.NaN()}
	said, isVerdict := verdicts[word]
	switch {
	case !(truth >= 0 && truth <= 1):
		return &fault{colTruth, fmt.Errorf("%v is not between 0 and 1", truth)}
	case judge == "":
		return &fault{colJudged, errors.New("a truth next to a verdict without a verifier: name it, or write the truth as quality where there is none")}
	case !isVerdict:
		return &fault{colJudged, fmt.Errorf("outcome %q: want \"passed\", \"failed\" or \"inconclusive\"", word)}
	}
	delete(c.numbers, colTruth)
	if c.numbers[colQuality] = truth; !math.IsNaN(said) {
		c.numbers[colVerdict+judge] = said
	}
	return nil
}

// addLogProbs turns the log-probabilities of an answer's tokens into the signals of
// package feature that need no alternatives to the tokens.
func addLogProbs(c *cell, values []any) *fault {
	if len(values) == 0 {
		return nil
	}
	tokens := make([]sdk.TokenLogProb, len(values))
	for i, v := range values {
		x, ok := v.(float64)
		if !ok || !(x <= 1e-6) {
			return &fault{colLogProb, fmt.Errorf("entry %d, %v, is not a log-probability", i, v)}
		}
		tokens[i].LogProb = x
	}
	features, ok := feature.OfTokens(tokens)
	if !ok {
		return &fault{colLogProb, errors.New("not log-probabilities")}
	}
	for i, v := range features.Values(nil) {
		switch name := feature.Names()[i]; name {
		case "mean_entropy", "mean_top_prob", "mean_margin": // these need the alternatives
		default:
			c.numbers[name] = v
		}
	}
	return nil
}

// readPrompts reads prompts and groups, for queries that are in the table.
func (b *builder) readPrompts(r *bufio.Reader, name string) error {
	isKnown := false
	err := eachLine(r, name, func(row int, line []byte) error {
		fields, err := readObject(line)
		if err != nil {
			return &Error{File: name, Row: row, Err: err}
		}
		var c cell
		for _, column := range []string{colQuery, colGroup, colPrompt} {
			if f := setText(c.text(column), column, fields[column]); f != nil {
				return &Error{File: name, Row: row, Column: f.column, Err: f.err}
			}
		}
		if c.trim(); c.query == "" {
			return &Error{File: name, Row: row, Column: colQuery, Err: errors.New("missing")}
		}
		if _, known := b.queries[c.query]; known {
			b.query(c.query, c.group, c.prompt)
			isKnown = true
		}
		return nil
	})
	if err == nil && !isKnown {
		err = &Error{File: name, Err: fmt.Errorf("no prompt of a query that has outcomes: want their names under %s", colQuery)}
	}
	return err
}

// eachLine calls f with every line that is not blank; lines may be long.
func eachLine(r *bufio.Reader, name string, f func(row int, line []byte) error) error {
	for row := 1; ; row++ {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return &Error{File: name, Row: row, Err: err}
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := f(row, line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}
