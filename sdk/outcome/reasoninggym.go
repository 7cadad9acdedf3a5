package outcome

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// gymFile is a file of reasoning-gym's published evaluations, MODEL_DATE_TIME/CATEGORY/
// TASK.json: every model answered every question several times.
type gymFile struct {
	Name     string `json:"name"`
	Category string `json:"category"`
	System   string `json:"system_prompt"`
	Results  []struct {
		Question    string `json:"question"`
		Completions []struct {
			Answer *string `json:"model_answer"`
			Text   string  `json:"full_model_response"`
			// Score is 1 for a right answer; partial credit counts as wrong.
			Score *float64 `json:"score"`
		} `json:"completions"`
	} `json:"results"`
}

// gymPrices are in US dollars per million tokens of prompt and answer. The files have no
// costs: these are assumed, about what hosts asked for such models in 2025, and were not
// checked against a source. Models that reason before they answer are left out: what
// they thought, and were paid for, is not recorded.
var gymPrices = map[string][2]float64{
	"anthropic_claude-3.5-sonnet": {3, 15}, "anthropic_claude-sonnet-4": {3, 15},
	"google_gemma-3-27b-it": {0.1, 0.2}, "meta-llama_llama-3.3-70b-instruct": {0.12, 0.3},
	"meta-llama_llama-4-maverick": {0.2, 0.6}, "meta-llama_llama-4-scout": {0.08, 0.3},
	"mistralai_mistral-small-3.1-24b-instruct": {0.1, 0.3},
}

var gymFolder = regexp.MustCompile(`^(.+)_\d{8}_\d{6}$`)

// gymRight is the least score of a right answer.
const gymRight = 0.99

// readGym reads the files that a pattern with several stars names.
func (b *builder) readGym(pattern string) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("reading outcomes %s: %w", pattern, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("reading outcomes %s: %w", pattern, os.ErrNotExist)
	}
	slices.Sort(paths)
	taken := 0
	for _, path := range paths {
		folder := gymFolder.FindStringSubmatch(filepath.Base(filepath.Dir(filepath.Dir(path))))
		if folder == nil {
			return &Error{File: path, Err: errors.New("is not in a folder MODEL_DATE_TIME/CATEGORY of reasoning-gym's evaluations")}
		}
		price, known := gymPrices[folder[1]]
		if !known {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading outcomes: %w", err)
		}
		var file gymFile
		if err := json.Unmarshal(data, &file); err != nil {
			return &Error{File: path, Err: err}
		}
		_, model, _ := strings.Cut(folder[1], "_")
		if f := b.addGym(&file, model, price); f != nil {
			return &Error{File: path, Column: f.column, Err: f.err}
		}
		taken++
	}
	if taken == 0 {
		return &Error{File: pattern, Err: errors.New("none of the models has a known price")}
	}
	return nil
}

// addGym takes in the answers of one model to the questions of one task.
func (b *builder) addGym(file *gymFile, model string, price [2]float64) *fault {
	asked := map[string]bool{}
	for _, r := range file.Results {
		if asked[r.Question] {
			continue // some questions come twice
		}
		asked[r.Question] = true
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(r.Question)) // never fails
		input := gymTokens(file.System + r.Question)
		for k, answer := range r.Completions {
			output := gymTokens(answer.Text)
			c := cell{
				query: fmt.Sprintf("%s/%s/%016x", file.Category, file.Name, hash.Sum64()), group: file.Category, prompt: r.Question, model: model,
				numbers: map[string]float64{
					colSample: float64(k + 1), colQuality: 0, colInput: input, colOutput: output,
					colCost: (input*price[0] + output*price[1]) / 1e6,
				},
			}
			if answer.Score != nil && *answer.Score >= gymRight {
				c.numbers[colQuality] = 1
			}
			if answer.Answer != nil {
				c.answer = *answer.Answer
			}
			if f := b.add(&c); f != nil {
				return f
			}
		}
	}
	return nil
}

// gymTokens counts four bytes to a token.
func gymTokens(text string) float64 { return math.Ceil(float64(len(text)) / 4) }
