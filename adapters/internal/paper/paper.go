package paper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Env is what presets run on.
type Env struct {
	// Verified are outcomes that a check judged (SWE-bench); Questions are outcomes
	// with answers (ZeroEval); Own, when set, are the user's copies of the paper's
	// data, which presets prefer.
	Verified, Questions *Data
	// Agents are runs of agents that a check judged, Verified among them.
	Agents []*Data
	Own    []*Data
	// Folders are where the board looks for its tables.
	Folders Folders
	// TrainShare overrides the preset's share of the train half; 0 leaves it.
	TrainShare float64
	// Splits is how many random splits the small tables are averaged over, and how
	// often times are measured; 0 means 5.
	Splits int
	// Bootstrap is the number of resamples; Seed decides splits, noise and resamples.
	Bootstrap int
	Seed      uint64
	// Progress, when not nil, is told the label of each piece of work as it starts.
	Progress func(label string)
}

func (e *Env) startingf(format string, args ...any) {
	if e.Progress != nil {
		e.Progress(fmt.Sprintf(format, args...))
	}
}

func (e *Env) splits() int {
	if e.Splits > 0 {
		return e.Splits
	}
	return 5
}

func (e *Env) share(preset float64) float64 {
	if e.TrainShare > 0 {
		return e.TrainShare
	}
	return preset
}

// Page is the result of a preset: text in Markdown with its figures.
type Page struct {
	Name, Title string
	Body        strings.Builder
	Figures     []*eval.Figure
}

func newPage(name, title string) *Page { return &Page{Name: name, Title: title} }

func (p *Page) printf(format string, args ...any) { fmt.Fprintf(&p.Body, format, args...) }

func (p *Page) section(title string) { p.printf("\n## %s\n\n", title) }

func (p *Page) table(t *eval.Table) { p.printf("%s\n", t.Markdown()) }

func (p *Page) figure(f *eval.Figure, caption string) {
	p.Figures = append(p.Figures, f)
	p.printf("![%s](figures/%s.svg)\n\n", caption, f.Name)
}

// Write writes the page and its figures under dir, stamped with what they were made
// from.
func (p *Page) Write(dir, stamp string) error {
	for _, f := range p.Figures {
		if err := f.Save(filepath.Join(dir, "figures")); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("# %s\n\n%s\n\n%s\n", p.Title, strings.TrimSpace(p.Body.String()), comment(stamp))
	return os.WriteFile(filepath.Join(dir, p.Name+".md"), []byte(text), 0o644)
}

// IsCurrent reports whether dir has the page of an experiment with this stamp.
func IsCurrent(dir, name, stamp string) bool {
	text, err := os.ReadFile(filepath.Join(dir, name+".md"))
	return err == nil && strings.HasSuffix(strings.TrimSpace(string(text)), comment(stamp))
}

func comment(stamp string) string { return "<!-- " + stamp + " -->" }

// Stamp says what the pages of e are made from: data and settings.
func (e *Env) Stamp() string {
	var data []string
	for i, d := range slices.Concat([]*Data{e.Verified, e.Questions}, e.Agents, e.Own) {
		if d != nil && (i == 0 || d != e.Verified) {
			data = append(data, fmt.Sprintf("%s %.12s", d.Name, d.Hash))
		}
	}
	return fmt.Sprintf("data: %s; seed %d, splits %d, resamples %d, train share %v", strings.Join(data, ", "), e.Seed, e.splits(), e.Bootstrap, e.TrainShare)
}

// Preset is one experiment.
type Preset struct {
	// Name is the word on the command line, Title what it is.
	Name, Title string
	// Apart says that it is no part of "all".
	Apart bool
	// needs are the tables that it cannot do without, unless there are the user's own.
	needs []tableKind
	Run   func(ctx context.Context, e *Env) (*Page, error)
}

// tableKind is a kind of table.
type tableKind int

const (
	verifiedTable tableKind = iota
	questionTable
	anyTable
)

// Presets returns all experiments, in the order of the documentation.
func Presets() []Preset {
	verified, questions := []tableKind{verifiedTable}, []tableKind{questionTable}
	return []Preset{
		{"routerbench", "RouterBench: models and noise", false, questions, routerbench},
		{"heatmap", "Noise heat maps", false, questions, heatmap},
		{"promises", "Promises of quality, kept or broken", false, []tableKind{anyTable}, promises},
		{"pacing", "Budgets held on queries to come, in any order", false, questions, pacing},
		{"swebench", "SWE-bench: tests that decide", false, verified, swebench},
		{"mathcode", "Mathematics and code", false, questions, mathcode},
		{"classification", "Answers that can be compared", false, questions, classification},
		{"openform", "Open-form answers", false, questions, openform},
		{"ablation", "Ablation: pruning, looking ahead, expecting", false, questions, ablation},
		{"runtime", "Time of a decision by number of models", false, nil, runtimes},
		{"board", "The board: every method on every table", true, nil, board},
		{"curves", "Cost-quality curves", false, []tableKind{verifiedTable, questionTable}, curves},
	}
}

// Find returns the preset of a name.
func Find(name string) (Preset, error) {
	presets := Presets()
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		names := make([]string, len(presets))
		for k, p := range presets {
			names[k] = p.Name
		}
		return Preset{}, fmt.Errorf("unknown experiment %q; there are %s, and all", name, strings.Join(names, ", "))
	}
	return presets[i], nil
}

// Check reports the table that the preset lacks.
func (p *Preset) Check(e *Env) error {
	if len(e.Own) > 0 {
		return nil
	}
	for _, n := range p.needs {
		lacks := ""
		switch {
		case n == anyTable && len(e.Agents) == 0 && e.Questions == nil:
			lacks = "runs of agents, outcomes of questions or your own tables"
		case n == verifiedTable && e.Verified == nil:
			lacks = "verified outcomes (swebench_verified.csv) or your own table"
		case n == questionTable && e.Questions == nil:
			lacks = "outcomes of questions (zeroeval.csv) or your own table"
		}
		if lacks != "" {
			return fmt.Errorf("%s needs %s", p.Name, lacks)
		}
	}
	return nil
}

func halves(t *outcome.Table, share float64, seed uint64) (*eval.Halves, error) {
	train, test := t.Split(share, seed)
	return eval.NewHalves(train, test, false)
}
