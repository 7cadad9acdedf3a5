package paper

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/figure"
	"github.com/stepfall/stepfall/sdk/eval"
)

// Env is the data and settings of presets.
type Env struct {
	// Verified holds outcomes judged by a check (SWE-bench); Questions holds outcomes with answers (ZeroEval).
	Verified, Questions *Data
	// Agents holds runs of agents judged by a check, including Verified. Own, when not empty, holds the user's copies
	// of the paper's data, which presets prefer.
	Agents []*Data
	Own    []*Data
	// Folders are searched for the board's tables.
	Folders Folders
	// TrainShare overrides the preset's train share; 0 keeps it.
	TrainShare float64
	// Splits is how many random splits the small tables are averaged over, and how often times are measured; 0 means
	// 5.
	Splits int
	// Bootstrap is the number of resamples; Seed seeds splits, noise and resamples.
	Bootstrap int
	Seed      uint64
	// Progress, when not nil, is called with the label of each piece of work as it starts.
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

// Page is the result of a preset: Markdown text with figures.
type Page struct {
	Name, Title string
	Body        strings.Builder
	Figures     []*figure.Figure
}

func (p *Page) printf(format string, args ...any) { fmt.Fprintf(&p.Body, format, args...) }

func (p *Page) section(title string) { p.printf("\n## %s\n\n", title) }

func (p *Page) table(t *eval.Table) { p.printf("%s\n", t.Markdown()) }

func (p *Page) figure(f *figure.Figure, caption string) {
	p.Figures = append(p.Figures, f)
	p.printf("![%s](figures/%s.svg)\n\n", caption, f.Name)
}

// Write writes the page and its figures under dir, stamped with their inputs.
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

// Stamp describes the inputs of pages: data and settings.
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
	// Name is the name on the command line.
	Name, Title string
	// Apart excludes the preset from "all".
	Apart bool
	// reads lists the tables that it requires.
	reads []source
	write func(ctx context.Context, e *Env, p *Page) error
}

// source is a kind of table.
type source struct {
	name string
	list func(e *Env) []*Data
}

// data returns the tables of the kind: the user's, or else the project's.
func (s *source) data(e *Env) []*Data {
	if len(e.Own) > 0 {
		return e.Own
	}
	return slices.DeleteFunc(s.list(e), func(d *Data) bool { return d == nil })
}

var (
	verified  = source{"verified outcomes (swebench_verified.csv) or your own table", func(e *Env) []*Data { return []*Data{e.Verified} }}
	questions = source{"outcomes of questions (zeroeval.csv) or your own table", func(e *Env) []*Data { return []*Data{e.Questions} }}
	anyTable  = source{"runs of agents, outcomes of questions or your own tables", func(e *Env) []*Data { return append(slices.Clone(e.Agents), e.Questions) }}
)

// Presets returns all experiments, in the order of the documentation.
func Presets() []Preset {
	return []Preset{
		{"routerbench", "RouterBench: models and noise", false, []source{questions}, routerbench},
		{"heatmap", "Noise heat maps", false, []source{questions}, heatmap},
		{"promises", "Promises of quality, kept or broken", false, []source{anyTable}, promises},
		{"pacing", "Budgets held on queries to come, in any order", false, []source{questions}, pacing},
		{"swebench", "SWE-bench: tests that decide", false, []source{verified}, swebench},
		{"mathcode", "Mathematics and code", false, []source{questions}, mathcode.write},
		{"classification", "Answers that can be compared", false, []source{questions}, classification},
		{"openform", "Open-form answers", false, []source{questions}, openform.write},
		{"ablation", "Ablation: pruning, looking ahead, expecting", false, []source{questions}, ablation},
		{"runtime", "Time of a decision by number of models", false, nil, runtimes},
		{"board", "The board: every method on every table", true, nil, board},
		{"curves", "Cost-quality curves", false, []source{verified, questions}, curves},
	}
}

// Find returns the preset with a name.
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

// Check returns an error for a missing table.
func (p *Preset) Check(e *Env) error {
	for _, s := range p.reads {
		if len(s.data(e)) == 0 {
			return fmt.Errorf("%s needs %s", p.Name, s.name)
		}
	}
	return nil
}

// Run makes the preset's page.
func (p *Preset) Run(ctx context.Context, e *Env) (*Page, error) {
	page := &Page{Name: p.Name, Title: p.Title}
	return page, p.write(ctx, e, page)
}
