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

// Data is a table with the words that say where it comes from.
type Data struct {
	Table *outcome.Table
	// Name is the file's name and Hash its SHA-256.
	Name, Hash string
}

// String names the data, its size and its hash, as pages show them.
func (d *Data) String() string {
	return fmt.Sprintf("%s (%d queries, %d models, sha256 %.12s)", d.Name, len(d.Table.Queries), len(d.Table.Models), d.Hash)
}

// Env is what presets run on.
type Env struct {
	// Verified are outcomes that a check judged (SWE-bench); Questions are outcomes
	// with answers (ZeroEval); Own, when set, are the user's copies of the paper's
	// data, which presets prefer.
	Verified, Questions *Data
	// Agents are runs of agents that a check judged, Verified among them.
	Agents []*Data
	Own    []*Data
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

// Written reports whether dir has the page of an experiment with this stamp.
func Written(dir, name, stamp string) bool {
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
	// Verified and Questions say which tables it cannot do without.
	Verified, Questions, Agents bool
	// Any says that it runs on whichever tables there are, and wants one.
	Any bool
	// Own says that it is only run on tables of one's own.
	Own bool
	Run func(ctx context.Context, e *Env) (*Page, error)
	// Pieces returns how many pieces of work Run tells Env.Progress of.
	Pieces func(e *Env) int
}

// Presets returns all experiments, in the order of the documentation.
func Presets() []Preset {
	return []Preset{
		{Name: "routerbench", Title: "RouterBench: models and noise", Questions: true, Run: routerbench, Pieces: routerbenchPieces},
		{Name: "heatmap", Title: "Noise heat maps", Questions: true, Run: heatmap, Pieces: heatmapPieces},
		{Name: "agents", Title: "Agents judged by tests", Agents: true, Run: agents, Pieces: agentsPieces},
		{Name: "promises", Title: "Promises of quality, kept or broken", Any: true, Run: promises, Pieces: promisesPieces},
		{Name: "pacing", Title: "Budgets held on queries to come, in any order", Questions: true, Run: pacing, Pieces: pacingPieces},
		{Name: "drift", Title: "When estimates no longer hold", Questions: true, Run: drift, Pieces: driftPieces},
		{Name: "looks", Title: "Several signals of one answer, and what they cost", Questions: true, Run: looks, Pieces: looksPieces},
		{Name: "searches", Title: "Different lambdas at different depths", Verified: true, Questions: true, Run: searches, Pieces: searchesPieces},
		{Name: "repeats", Title: "Asking a model again", Own: true, Run: repeats, Pieces: repeatsPieces},
		{Name: "swebench", Title: "SWE-bench: tests that decide", Verified: true, Run: swebench, Pieces: swebenchPieces},
		{Name: "verifiers", Title: "Imperfect verifiers, and calls in place of money", Verified: true, Run: verifiers, Pieces: verifiersPieces},
		{Name: "mathcode", Title: "Mathematics and code", Questions: true, Run: mathcode, Pieces: mathcodePieces},
		{Name: "classification", Title: "Answers that can be compared", Questions: true, Run: classification, Pieces: familyPieces},
		{Name: "openform", Title: "Open-form answers", Questions: true, Run: openform, Pieces: familyPieces},
		{Name: "ablation", Title: "Ablation: pruning, looking ahead, expecting", Questions: true, Run: ablation, Pieces: ablationPieces},
		{Name: "runtime", Title: "Time of a decision by number of models", Run: runtimes, Pieces: runtimePieces},
		{Name: "curves", Title: "Cost-quality curves", Verified: true, Questions: true, Run: curves, Pieces: curvesPieces},
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
	switch {
	case p.Agents && len(e.Agents) == 0 && len(e.Own) == 0:
		return fmt.Errorf("%s needs runs of agents (swebench_verified.csv, openhands_swe.csv, openhands_swt.csv) or your own tables", p.Name)
	case p.Any && len(e.Agents) == 0 && e.Questions == nil && len(e.Own) == 0:
		return fmt.Errorf("%s needs runs of agents, outcomes of questions or your own tables", p.Name)
	case p.Own && len(e.Own) == 0:
		return fmt.Errorf("%s needs a table of your own (--outcomes)", p.Name)
	case p.Verified && e.Verified == nil && len(e.Own) == 0:
		return fmt.Errorf("%s needs verified outcomes (swebench_verified.csv) or your own table", p.Name)
	case p.Questions && e.Questions == nil && len(e.Own) == 0:
		return fmt.Errorf("%s needs outcomes of questions (zeroeval.csv) or your own table", p.Name)
	}
	return nil
}

// halves splits a table at random.
func halves(t *outcome.Table, share float64, seed uint64) (*eval.Halves, error) {
	train, test := t.Split(share, seed)
	return eval.NewHalves(train, test, false)
}
