package estimate

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk/feature"
)

// textBuckets is the number of buckets of the hashed n-grams.
const textBuckets = 1 << 12

// textModel predicts a number from the words of a prompt by ridge regression on hashed
// n-grams. It has a few thousand weights, and needs no network and no language model.
type textModel struct {
	// Weights has one little-endian float32 per bucket, in base64.
	Weights   string  `json:"weights"`
	Intercept float64 `json:"intercept"`

	weights []float64
}

func (m *textModel) encode() {
	raw := make([]byte, 0, 4*len(m.weights))
	for i, w := range m.weights {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(w)))
		m.weights[i] = float64(float32(w))
	}
	m.Weights = base64.StdEncoding.EncodeToString(raw)
}

// decode decodes the weights. A nil model has none.
func (m *textModel) decode() error {
	if m == nil {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(m.Weights)
	if err != nil || len(raw) != 4*textBuckets {
		return fmt.Errorf("text weights: want %d of them in base64", textBuckets)
	}
	m.weights = make([]float64, textBuckets)
	for i := range m.weights {
		m.weights[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return nil
}

// sparse is a row of a sparse matrix of textBuckets columns.
type sparse struct {
	at    []uint16
	value []float64
}

// onto adds the inner product with x to sum, term by term.
func (r *sparse) onto(sum float64, x *[textBuckets]float64) float64 {
	value := r.value[:len(r.at)]
	for i, b := range r.at {
		sum += value[i] * x[b%textBuckets]
	}
	return sum
}

// addTo adds the row times by to x.
func (r *sparse) addTo(x *[textBuckets]float64, by float64) {
	value := r.value[:len(r.at)]
	for i, b := range r.at {
		x[b%textBuckets] += value[i] * by
	}
}

// textRows are the prompts of a table as features.
type textRows []sparse

func newTextRows(prompts []string) textRows {
	rows := make(textRows, len(prompts))
	counts := make([]float64, textBuckets)
	for q, prompt := range prompts {
		if prompt == "" {
			continue
		}
		norm := math.Sqrt(float64(max(feature.NGrams(prompt, counts), 1)))
		for b, c := range counts {
			if c != 0 {
				rows[q].at = append(rows[q].at, uint16(b))
				rows[q].value = append(rows[q].value, c/norm)
			}
		}
	}
	return rows
}

// fit regresses y on the rows for which use returns true (nil: all) by conjugate
// gradients, starting from the weights of another fit (nil: zeros). Both sides are
// centred, so that words that all prompts share do not count.
func (rows textRows) fit(y []float64, use func(int) bool, precision float64, start *textModel) *textModel {
	var used []sparse
	var targets []float64
	center := 0.0
	mean := new([textBuckets]float64)
	for q, r := range rows {
		if len(r.at) > 0 && !math.IsNaN(y[q]) && (use == nil || use(q)) {
			used, targets = append(used, r), append(targets, y[q])
			center += y[q]
			r.addTo(mean, 1)
		}
	}
	w := new([textBuckets]float64)
	m := &textModel{weights: w[:]}
	if len(used) == 0 {
		return m
	}
	n := float64(len(used))
	center /= n
	for b := range mean {
		mean[b] /= n
	}
	// The matrix is X'X + precision.
	product := new([textBuckets]float64)
	times := func(direction *[textBuckets]float64) {
		shared := dot(mean[:], direction[:])
		clear(product[:])
		sum := 0.0
		for i := range used {
			v := used[i].onto(-shared, direction)
			sum += v
			used[i].addTo(product, v)
		}
		for b := range product {
			product[b] += precision*direction[b] - mean[b]*sum
		}
	}
	// The right-hand side is X'y.
	residual := new([textBuckets]float64)
	for i := range used {
		used[i].addTo(residual, targets[i]-center)
	}
	enough := textTolerance * dot(residual[:], residual[:])
	if start != nil {
		copy(w[:], start.weights)
		times(w)
		for b := range residual {
			residual[b] -= product[b]
		}
	}
	direction := new([textBuckets]float64)
	*direction = *residual
	size := dot(residual[:], residual[:])
	for range textSteps {
		if size <= enough {
			break
		}
		times(direction)
		step := size / dot(direction[:], product[:])
		for b := range w {
			w[b] += step * direction[b]
			residual[b] -= step * product[b]
		}
		next := dot(residual[:], residual[:])
		for b := range direction {
			direction[b] = residual[b] + next/size*direction[b]
		}
		size = next
	}
	m.Intercept = center - dot(mean[:], w[:])
	return m
}

// textFolds is the number of folds for out-of-fold predictions.
const textFolds = 5

// fitText fits a model of y on the prompts, and returns it with the out-of-fold
// prediction for each row, or nil if the text is not informative. The penalty is chosen
// on the folds.
func fitText(prompts []string, y []float64, fold []int) (*textModel, []float64) {
	rows := newTextRows(prompts)
	var best []float64
	var precision float64
	least, plain := math.Inf(1), 0.0
	models := make([]*textModel, textFolds)
	for _, p := range []float64{30, 10, 3, 1, 0.3} {
		out, errors := make([]float64, len(y)), 0.0
		plain = 0
		for f := range textFolds {
			m := rows.fit(y, func(q int) bool { return fold[q] != f }, p, models[f])
			models[f] = m
			for q := range rows {
				if fold[q] != f || len(rows[q].at) == 0 || math.IsNaN(y[q]) {
					continue
				}
				out[q] = rows[q].onto(m.Intercept, (*[textBuckets]float64)(m.weights))
				errors += (y[q] - out[q]) * (y[q] - out[q])
				plain += y[q] * y[q]
			}
		}
		if errors < least {
			least, best, precision = errors, out, p
		}
	}
	if !(least < plain*(1-leastText)) {
		return nil, nil
	}
	m := rows.fit(y, nil, precision, nil)
	m.encode()
	return m, best
}

// leastText is the least share of the variance that a text model must explain.
const leastText = 0.01

// textReader predicts for one prompt at a time and caches the last prediction.
type textReader struct {
	model  *textModel
	counts []float64 // nil before the first prompt
	prompt string
	value  float64
}

func newTextReader(m *textModel) *textReader { return &textReader{model: m} }

// at returns the prediction for a query's prompt, from the query's cache if it is there.
func (r *textReader) at(q *queryFacts) float64 {
	if q.text != nil {
		if bits := q.text.Load(); bits != 0 {
			return math.Float64frombits(bits)
		}
	}
	if q.Prompt != r.prompt {
		if r.counts == nil {
			r.counts = make([]float64, textBuckets)
		}
		r.prompt, r.value = q.Prompt, 0
		if q.Prompt != "" {
			n := feature.NGrams(q.Prompt, r.counts)
			r.value = r.model.Intercept + dot(r.model.weights, r.counts)/math.Sqrt(float64(max(n, 1)))
		}
	}
	if q.text != nil {
		q.text.Store(math.Float64bits(r.value))
	}
	return r.value
}

// Conjugate gradients stop after textSteps, or once the squared residual is at most the
// share textTolerance of that of the right-hand side.
const (
	textSteps     = 40
	textTolerance = 1e-6
)
