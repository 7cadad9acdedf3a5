package outcome

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// maxName bounds the names of models and groups, in bytes.
const maxName = 4096

// cell is one row of a long table. Numbers are by column, NaN or absent if unknown.
type cell struct {
	query, group, prompt string
	model, answer        string
	numbers              map[string]float64
	usage                *sdk.Usage // of a trace's call; nil if unknown
	usd                  float64    // what that call cost
	isRejected           bool       // by a free check
}

var errEmpty = errors.New("empty")

type fault struct {
	column string
	err    error
}

func (c *cell) trim() {
	c.query, c.group, c.model = strings.TrimSpace(c.query), strings.TrimSpace(c.group), strings.TrimSpace(c.model)
}

// checkNames also appends the sample number to the model's name, for samples after the first.
func (c *cell) checkNames() *fault {
	c.trim()
	switch {
	case c.query == "":
		return &fault{colQuery, errEmpty}
	case c.model == "":
		return &fault{colModel, errEmpty}
	case len(c.model) > maxName:
		return &fault{colModel, fmt.Errorf("a name of %d bytes, more than %d", len(c.model), maxName)}
	case len(c.group) > maxName:
		return &fault{colGroup, fmt.Errorf("a name of %d bytes, more than %d", len(c.group), maxName)}
	}
	n, given := c.numbers[colSample]
	delete(c.numbers, colSample)
	switch {
	case !given || math.IsNaN(n) || n == 1:
		return nil
	case n != math.Trunc(n) || n < 1 || n > 1000:
		return &fault{colSample, fmt.Errorf("%v is not the number of an answer, from 1", n)}
	}
	c.model = fmt.Sprintf("%s#%d", c.model, int(n))
	return nil
}

// most bounds all numbers, so that sums of their squares stay finite.
const most = 1e12

func check(column string, v float64) error {
	if strings.HasSuffix(column, sdk.SignalCostUSD) {
		column = colCost
	}
	switch column {
	case colPropensity:
		return checkWithin(v, math.SmallestNonzeroFloat64, 1, "a probability above 0")
	case colQuality:
		return checkWithin(v, 0, 1, "in [0, 1]")
	case colCost, colVerdictsUSD, colInput, colOutput, colEstimated, colLatency, colTroubles:
		err := checkWithin(v, 0, math.MaxFloat64, "a finite number of at least 0")
		if err == nil && v > most {
			err = fmt.Errorf("%v is more than %v", v, float64(most))
		}
		return err
	case colVerdict:
		return errors.New("names no judge: want verdict_NAME")
	}
	switch {
	case isVerdict(column) && v != 0 && v != 1:
		return fmt.Errorf("%v is no verdict: 1 is a pass, 0 a fail", v)
	case math.Abs(v) > most:
		return fmt.Errorf("%v is not finite, or beyond %v", v, float64(most))
	}
	return nil
}

func checkWithin(v, low, high float64, want string) error {
	if v >= low && v <= high {
		return nil
	}
	return fmt.Errorf("%v is not %s", v, want)
}

// number reads a number; empty text and the usual words for a missing value are NaN.
func number(s string) (float64, error) {
	switch s {
	case "", "NaN", "nan", "NA", "null", "None":
		return math.NaN(), nil
	case "true", "True":
		return 1, nil
	case "false", "False":
		return 0, nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%.100q is not a number", s)
	}
	return v, nil
}
