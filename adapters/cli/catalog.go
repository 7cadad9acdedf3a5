package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/policies"
)

// errPrices is the error behind exit code 2.
var errPrices = errors.New("the price map differs from the catalogue")

type catalogFlags struct {
	from, out string
	add       []string
	detailed  bool
}

func newCatalogCommand(s Streams) *cobra.Command {
	var f catalogFlags
	cmd := &cobra.Command{
		Use:   "catalog [MODEL...] | --from FILE",
		Short: "What do models cost, and what can they do? Print the catalogue, or compare it with a price map",
		Long: `Print what the catalogue knows about models: limits, capabilities and prices, with
date and source.

Name models as openai/gpt-4o, or by a prefix such as anthropic/. Without a name all are
printed. The output is in catalog blocks that a policy can contain.

With --from, compare the catalogue with LiteLLM's price map, which is taken as correct on
the date of its file. Nothing is changed unless --out is given: it writes the differences
as catalog blocks. Put that file into the policy's folder; it overrides the built-in
catalogue.`,
		Example: `  stepfall catalog openai/gpt-4o
  stepfall catalog anthropic/
  stepfall catalog --from model_prices_and_context_window.json
  stepfall catalog --from prices.json --add openai/gpt-5.1 --out policy/catalog.hcl`,
		Annotations: hasJSON(),
		RunE: func(_ *cobra.Command, names []string) error {
			if f.from != "" && len(names) > 0 {
				return usage("--from compares the whole catalogue: leave out %s", strings.Join(names, " "))
			}
			if f.from != "" {
				return f.compare(s)
			}
			if f.out != "" || f.detailed || len(f.add) > 0 {
				return usage("--from is required: the price map")
			}
			list, blocks, err := policies.ShowCatalog(names)
			if err != nil {
				return err
			}
			return s.render(list, func(p *printer) { p.raw(string(blocks)) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "price map to compare with")
	flags.StringVar(&f.out, "out", "", "write the differences as catalog blocks to this file")
	flags.StringArrayVar(&f.add, "add", nil, `model of the price map to add, such as openai/gpt-5.1, or "*" for all (may be repeated)`)
	flags.BoolVar(&f.detailed, "detailed-exitcode", false, "exit with 2 if something differs")
	return cmd
}

func (f *catalogFlags) compare(s Streams) error {
	data, err := os.ReadFile(f.from)
	if err != nil {
		return err
	}
	info, err := os.Stat(f.from)
	if err != nil {
		return err
	}
	changes, blocks, err := policies.UpdateCatalog(data, info.ModTime().UTC().Format(time.DateOnly), "LiteLLM's price map, "+filepath.Base(f.from), f.add)
	if err != nil {
		return fmt.Errorf("%s: %w", f.from, err)
	}
	if err := s.render(slices.Concat([]policies.PriceChange{}, changes), func(p *printer) { printPriceChanges(p, changes) }); err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	if f.out != "" {
		if blocks, err = policies.Format(f.out, blocks); err == nil {
			err = os.WriteFile(f.out, blocks, 0o644) //nolint:gosec // prices are no secret
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "\nwritten to %s\n", f.out)
	}
	if f.detailed {
		return &exitError{Code: exitChanges, Err: errPrices}
	}
	return nil
}

func printPriceChanges(p *printer, changes []policies.PriceChange) {
	if len(changes) == 0 {
		p.f("No differences.\n")
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
	p.f("\n%d models differ, in %d values\n", models, len(changes))
}
