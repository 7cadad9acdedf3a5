package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/keys"
	"github.com/stepfall/stepfall/adapters/store"
)

// storeVariable names the store where --store does not.
const storeVariable = "STEPFALL_STORE"

const storeUsage = "store that processes share: a SQLite file or a postgres:// URL; $" + storeVariable + " when absent"

// sharedStore opens the store that a flag or the environment names, nil for none. The
// logger hears what cannot be written; nil is nobody.
func sharedStore(ctx context.Context, flag string, logger hclog.Logger) (*store.Shared, error) {
	address := cmp.Or(flag, os.Getenv(storeVariable))
	if address == "" {
		return nil, nil
	}
	return full.OpenStore(ctx, address, logger)
}

type keyFlags struct {
	store          string
	key            store.Key
	expires, grace time.Duration
	by             []string
	tenant, id     string
	since, until   string
	policy, model  string
	withStore      func(ctx context.Context, do func(*store.Shared) error) error
}

func newKeyCommand(s Streams) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, change, list, revoke and rotate the keys of a gateway; see what they spent",
		Long: `Make, change, list, revoke and rotate the keys of a gateway, and see what they spent.

Keys are in a store, by a digest: a secret is shown once. What is changed is in force in
every replica of "stepfall serve --store" within a second.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&f.store, "store", "", storeUsage)
	f.withStore = func(ctx context.Context, do func(*store.Shared) error) error {
		shared, err := sharedStore(ctx, f.store, nil)
		if err == nil && shared == nil {
			return usage("--store is needed, or %s", storeVariable)
		}
		if err != nil {
			return err
		}
		return errors.Join(do(shared), shared.Close())
	}
	cmd.AddCommand(f.create(s), f.set(s), f.list(s), f.revoke(s), f.rotate(s), f.spend(s))
	return cmd
}

func (f *keyFlags) create(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create", Short: "Make a key and print its secret, once", Args: cobra.NoArgs,
		Example: `  stepfall key create --store fleet.db --tenant blue --cap 20 --cap-period 24h --requests 60`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k := &f.key
			if k.Tenant == "" && !k.Operator {
				return usage("--tenant is needed: whose key it is")
			}
			if err := f.check(k); err != nil {
				return err
			}
			return f.withStore(cmd.Context(), func(shared *store.Shared) error {
				secret, err := keys.Create(cmd.Context(), shared, k)
				if err != nil {
					return err
				}
				of := ""
				if k.Tenant != "" {
					of = fmt.Sprintf(" of tenant %q", k.Tenant)
				}
				fmt.Fprintf(s.Err, "key %s%s; its secret is shown this once:\n", k.ID, of)
				fmt.Fprintln(s.Out, secret)
				return nil
			})
		},
	}
	flags, k := cmd.Flags(), &f.key
	flags.StringVar(&k.ID, "id", "", "name of the key; made up when absent")
	flags.StringVar(&k.Tenant, "tenant", "", "whose key it is")
	flags.BoolVar(&k.Operator, "operator", false, "the key may read the spending of everybody")
	f.limits(flags, k)
	return cmd
}

// limits are the flags of what can be changed of a key.
func (f *keyFlags) limits(flags *pflag.FlagSet, k *store.Key) {
	flags.StringVar(&k.Note, "note", "", "what it is for")
	flags.DurationVar(&f.expires, "expires", 0, "after how long it ends, as 720h; 0 never")
	flags.Float64Var(&k.CapUSD, "cap", 0, "most that it may spend, in US dollars; 0 is no cap")
	flags.DurationVar(&k.CapPeriod, "cap-period", 0, "after how long the cap begins anew; 0 never")
	flags.Int64Var(&k.RequestsPerMinute, "requests", 0, "requests a minute; 0 is no limit")
	flags.Int64Var(&k.TokensPerMinute, "tokens", 0, "tokens a minute; 0 is no limit")
	flags.Int64Var(&k.Streams, "streams", 0, "requests under way at once, streamed or not; 0 is no limit")
}

// check refuses limits that are none, and sets when the key ends.
func (f *keyFlags) check(k *store.Key) error {
	if !(k.CapUSD >= 0) || math.IsInf(k.CapUSD, 0) || k.RequestsPerMinute < 0 || k.TokensPerMinute < 0 || k.Streams < 0 || f.expires < 0 || k.CapPeriod < 0 {
		return usage("limits must be numbers that are not negative")
	}
	if k.Expires = (time.Time{}); f.expires > 0 {
		k.Expires = time.Now().Add(f.expires).UTC().Truncate(time.Second)
	}
	return nil
}

// set changes the limits of a key that are given, and releases what it holds.
func (f *keyFlags) set(s Streams) *cobra.Command {
	var to store.Key
	var release bool
	cmd := &cobra.Command{
		Use: "set KEY", Short: "Change a key's limits or note, or release what killed processes hold of its cap", Args: cobra.ExactArgs(1),
		Annotations: hasJSON(),
		Long: `Change the limits or the note of a key; what is not given stays.

What a killed process had leased of a key's cap comes back by itself after a minute, but
for what it may have spent: that counts as spent. With --release it does not, where you
know that nothing more was billed. A bill that comes after all is booked all the same.`,
		Example: `  stepfall key set agents --cap 50 --requests 120
  stepfall key set agents --release`,
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := false
			cmd.LocalNonPersistentFlags().VisitAll(func(own *pflag.Flag) { changed = changed || own.Changed })
			if !changed {
				return usage("nothing is to be changed: give a limit, --note or --release")
			}
			if err := f.check(&to); err != nil {
				return err
			}
			return f.withStore(cmd.Context(), func(shared *store.Shared) error {
				k, err := keys.Change(cmd.Context(), shared, args[0], func(k *store.Key) {
					for name, change := range map[string]func(){
						"note": func() { k.Note = to.Note }, "expires": func() { k.Expires = to.Expires }, "cap": func() { k.CapUSD = to.CapUSD },
						"cap-period": func() { k.CapPeriod = to.CapPeriod }, "requests": func() { k.RequestsPerMinute = to.RequestsPerMinute },
						"tokens": func() { k.TokensPerMinute = to.TokensPerMinute }, "streams": func() { k.Streams = to.Streams },
					} {
						if cmd.Flags().Changed(name) {
							change()
						}
					}
				})
				if err == nil && release {
					err = shared.Release(cmd.Context(), store.KeyAccount(k.ID))
				}
				if err != nil {
					return err
				}
				return s.render([]store.Key{*k}, func(p *printer) { p.keys([]store.Key{*k}) })
			})
		},
	}
	f.limits(cmd.Flags(), &to)
	cmd.Flags().BoolVar(&release, "release", false, "what was set aside and never settled of the key's cap counts as not spent")
	return cmd
}

func (f *keyFlags) list(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the keys", Args: cobra.NoArgs, Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.withStore(cmd.Context(), func(shared *store.Shared) error {
				list, err := shared.ListKeys(cmd.Context(), "")
				if err != nil {
					return err
				}
				return s.render(list, func(p *printer) { p.keys(list) })
			})
		},
	}
	return cmd
}

func (p *printer) keys(list []store.Key) {
	t := p.table(column{name: "key"}, column{name: "tenant"}, column{name: "state"}, column{name: "cap USD", number: true},
		column{name: "requests/min", number: true}, column{name: "tokens/min", number: true}, column{name: "at once", number: true}, column{name: "note"})
	for i := range list {
		k := &list[i]
		t.row(k.ID, k.Tenant, stateOf(k), limitOf(k.CapUSD), limitOf(float64(k.RequestsPerMinute)),
			limitOf(float64(k.TokensPerMinute)), limitOf(float64(k.Streams)), k.Note)
	}
	t.print()
}

func stateOf(k *store.Key) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Valid(time.Now()):
		return "expired"
	case !k.Expires.IsZero():
		return "until " + k.Expires.Format(time.DateTime)
	}
	return "valid"
}

func limitOf(x float64) string {
	if x == 0 {
		return "none"
	}
	return fmt.Sprintf("%g", x)
}

func (f *keyFlags) revoke(s Streams) *cobra.Command {
	return &cobra.Command{
		Use: "revoke KEY", Short: "End a key", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.withStore(cmd.Context(), func(shared *store.Shared) error {
				if err := keys.Revoke(cmd.Context(), shared, args[0]); err != nil {
					return err
				}
				fmt.Fprintf(s.Out, "key %s is revoked\n", args[0])
				return nil
			})
		},
	}
}

func (f *keyFlags) rotate(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate KEY", Short: "Give a key a new secret and print it, once", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.grace < 0 {
				return usage("--grace is negative")
			}
			return f.withStore(cmd.Context(), func(shared *store.Shared) error {
				secret, err := keys.Rotate(cmd.Context(), shared, args[0], f.grace)
				if err != nil {
					return err
				}
				fmt.Fprintf(s.Err, "the secret before ends in %v; the new one is shown this once:\n", f.grace)
				fmt.Fprintln(s.Out, secret)
				return nil
			})
		},
	}
	cmd.Flags().DurationVar(&f.grace, "grace", time.Hour, "for how long the secret before goes on")
	return cmd
}

func (f *keyFlags) spend(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "spend", Short: "Show what was spent, by key, tenant, policy, model and day", Args: cobra.NoArgs, Annotations: hasJSON(),
		Example: `  stepfall key spend --store fleet.db --by day,model --tenant blue --since 2026-11-01`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			by, filter, err := keys.Question(url.Values{
				"by": {strings.Join(f.by, ",")}, "since": {f.since}, "until": {f.until}, "tenant": {f.tenant}, "key": {f.id}, "policy": {f.policy}, "model": {f.model},
			})
			if err != nil {
				return usage("%v", err)
			}
			return f.withStore(cmd.Context(), func(shared *store.Shared) error {
				rows, err := shared.Sums(cmd.Context(), by, filter)
				if err != nil {
					return err
				}
				return s.render(rows, func(p *printer) { p.spend(by, rows) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.by, "by", []string{"key"}, "a row for each day, tenant, key, policy, model, or several of them")
	flags.StringVar(&f.tenant, "tenant", "", "only this tenant")
	flags.StringVar(&f.id, "key", "", "only this key")
	flags.StringVar(&f.policy, "policy", "", "only this policy")
	flags.StringVar(&f.model, "model", "", "only this model")
	flags.StringVar(&f.since, "since", "", "from this day on, as 2026-11-21 (UTC)")
	flags.StringVar(&f.until, "until", "", "before this day")
	return cmd
}

func (p *printer) spend(by []store.Dimension, rows []store.Sum) {
	var columns []column
	for _, dim := range by {
		columns = append(columns, column{name: string(dim)})
	}
	t := p.table(append(columns, column{name: "steps", number: true}, column{name: "calls", number: true}, column{name: "in", number: true},
		column{name: "out", number: true}, column{name: "USD", number: true})...)
	for i := range rows {
		r := &rows[i]
		var cells []any
		for _, dim := range by {
			cells = append(cells, map[store.Dimension]string{
				store.ByDay: r.Day, store.ByTenant: r.Tenant, store.ByKey: r.Key, store.ByPolicy: r.Policy, store.ByModel: r.Model,
			}[dim])
		}
		t.row(append(cells, r.Steps, r.Calls, r.InputTokens, r.OutputTokens, usd(r.CostUSD))...)
	}
	t.print()
}
