package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/policies"
)

// errPrices says why the exit code is 2.
var errPrices = errors.New("the price map differs from the catalogue")

// catalogFlags are the flags of stepfall catalog.
type catalogFlags struct {
	from, out, asOf string
	add             []string
	detailed        bool
}

func newCatalogCommand(s Streams) *cobra.Command {
	var f catalogFlags
	cmd := &cobra.Command{
		Use:   "catalog [MODEL...] | --from FILE",
		Short: "What do models cost, and what can they do? Print the catalogue, or compare it with a price map",
		Long: `What do models cost, and what can they do? Prints what the catalogue knows of models:
limits, capabilities, prices, with day and source.

Models are named as openai/gpt-4o, or by a beginning as anthropic/; without a name all
are printed, as blocks that may stand in a policy. Prices of batch requests are for the
record: stepfall makes none.

With --from, the catalogue is compared with a price map: LiteLLM's,
model_prices_and_context_window.json of github.com/BerriAI/litellm. What it says otherwise
is shown, as policy plan shows a change: "~" for what changes, "+" for a model that --add
names. Nothing is fetched, and nothing is changed without --out: that writes catalog
blocks, which a policy's folder holds beside the policy and which count more than those
that ship with stepfall. With --detailed-exitcode the exit code is 0 when nothing differs
and 2 when something does.`,
		Example: `  stepfall catalog openai/gpt-4o
  stepfall catalog anthropic/
  stepfall catalog --from model_prices_and_context_window.json
  stepfall catalog --from prices.json --add openai/gpt-5.1 --out policy/catalog.hcl`,
		Annotations: hasJSON(),
		RunE: func(_ *cobra.Command, names []string) error {
			switch {
			case f.from == "" && (f.out != "" || f.asOf != "" || f.detailed || len(f.add) > 0):
				return usage("--from is missing: the price map")
			case f.from != "" && len(names) > 0:
				return usage("--from compares the whole catalogue: leave out %s", strings.Join(names, " "))
			case f.from != "":
				return f.compare(s)
			}
			list, blocks, err := policies.ShowCatalog(names)
			if err != nil {
				return err
			}
			return s.render(factsOf(list), func(p *printer) { p.raw(string(blocks)) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "the price map to compare with")
	flags.StringVar(&f.out, "out", "", "write the differences as catalog blocks to this file")
	flags.StringVar(&f.asOf, "as-of", "", "the day on which the map was right; the file's own when absent")
	flags.StringArrayVar(&f.add, "add", nil, `a model to add, as openai/gpt-5.1, or "*" for all (may be repeated)`)
	flags.BoolVar(&f.detailed, "detailed-exitcode", false, "exit with 2 when something differs")
	return cmd
}

// compare shows what the price map says otherwise.
func (f *catalogFlags) compare(s Streams) error {
	data, err := os.ReadFile(f.from)
	if err != nil {
		return err
	}
	if f.asOf == "" {
		info, err := os.Stat(f.from)
		if err != nil {
			return err
		}
		f.asOf = info.ModTime().UTC().Format(time.DateOnly)
	}
	if _, err := time.Parse(time.DateOnly, f.asOf); err != nil {
		return usage("--as-of %q is no day: write year, month and day, as 2026-01-31", f.asOf)
	}
	changes, blocks, err := policies.UpdateCatalog(data, f.asOf, "LiteLLM's price map, "+filepath.Base(f.from), f.add)
	if err != nil {
		return fmt.Errorf("%s: %w", f.from, err)
	}
	if err := s.render(changesOf(changes), func(p *printer) { printPriceChanges(p, changes) }); err != nil {
		return err
	}
	if f.out != "" && len(changes) > 0 {
		if blocks, err = policies.Format(f.out, blocks); err != nil {
			return err
		}
		if err := os.WriteFile(f.out, blocks, 0o644); err != nil { //nolint:gosec // prices are no secret
			return err
		}
		if _, err := fmt.Fprintf(s.Err, "\nwritten to %s\n", f.out); err != nil {
			return err
		}
	}
	if f.detailed && len(changes) > 0 {
		return &ExitError{Code: exitChanges, Err: errPrices}
	}
	return nil
}

// factsOf is what `catalog --json` prints, with prices in US dollars per million tokens.
func factsOf(list []policies.Catalog) any {
	type prices struct {
		Input       float64 `json:"input,omitempty"`
		CachedInput float64 `json:"cached_input,omitempty"`
		CacheWrite  float64 `json:"cache_write,omitempty"`
		Output      float64 `json:"output,omitempty"`
		Reasoning   float64 `json:"reasoning,omitempty"`
		BatchInput  float64 `json:"batch_input,omitempty"`
		BatchOutput float64 `json:"batch_output,omitempty"`
	}
	type facts struct {
		Model           string   `json:"model"`
		AsOf            string   `json:"as_of"`
		Source          string   `json:"source"`
		ContextTokens   int      `json:"context_tokens,omitempty"`
		MaxOutputTokens int      `json:"max_output_tokens,omitempty"`
		Capabilities    []string `json:"capabilities,omitempty"`
		Price           prices   `json:"usd_per_million"`
	}
	all := make([]facts, len(list))
	for i := range list {
		c := &list[i]
		all[i] = facts{c.Name, c.AsOf, c.Source, c.ContextTokens, c.MaxOutputTokens, c.Capabilities, prices{
			c.Price.Input, c.Price.CachedInput, c.Price.CacheWrite, c.Price.Output, c.Price.Reasoning, c.Price.BatchInput, c.Price.BatchOutput,
		}}
	}
	return all
}

// changesOf is what `catalog --from --json` prints.
func changesOf(changes []policies.PriceChange) any {
	type change struct {
		Model string `json:"model"`
		Field string `json:"field"`
		Was   string `json:"was,omitempty"`
		Now   string `json:"now"`
	}
	all := []change{}
	for _, c := range changes {
		all = append(all, change{c.Model, c.Field, c.Was, c.Now})
	}
	return all
}

func printPriceChanges(p *printer, changes []policies.PriceChange) {
	if len(changes) == 0 {
		p.f("The catalogue says the same.\n")
		return
	}
	models := 0
	for i, c := range changes {
		if i == 0 || changes[i-1].Model != c.Model {
			models++
			sign := "~"
			if c.Was == "" {
				sign = "+"
			}
			p.f("%s catalog %q\n", sign, c.Model)
		}
		if c.Was == "" {
			p.f("    %-36s %s\n", c.Field, c.Now)
		} else {
			p.f("    %-36s %s -> %s\n", c.Field, c.Was, c.Now)
		}
	}
	p.f("\n%d models differ, in %d facts\n", models, len(changes))
}
