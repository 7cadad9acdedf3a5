// Command mutants changes the code of a package in many small ways and counts what the
// package's own tests notice, those that -short leaves out apart:
//
//	go run ./adapters/internal/mutants ./sdk/step
//
// A mutant is the code with one change: < for <=, < for >=, == for !=, + for -, * for /,
// % for *, ++ for --, -x for x, and each the other way round. These are those that
// gremlins makes by default. It is covered when a test evaluates the changed expression,
// killed when a test fails or does not end, and lives otherwise. Constants are changed
// where they are expressions of a type with a name of the language; declared constants
// are not.
//
// gremlins was used before, and its figures were wrong here. The time that it allows a
// mutant comes from a run that go answers from its cache, so that whatever had to be
// compiled and passed was out of time and left out of the ratio: every package had 100 %.
// A mutant that does not compile counted as killed. It builds and links the tests anew
// for each mutant, which takes twenty times as long as running them. Here all mutants of
// a package are compiled into one binary of its tests, and a variable of the environment
// says which one is on; a change that does not compile is no mutant.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sort"
	"sync"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "mutants [flags] PACKAGE")
		flags.PrintDefaults()
	}
	sample := flags.Int("sample", 0, "try so many of the covered mutants, drawn at random; 0 tries all")
	seed := flags.Uint64("seed", 1, "the seed of the draw")
	all := flags.Bool("all", false, "run also the tests that -short leaves out: for coverage, and where a mutant lives through the others")
	workers := flags.Int("workers", 2, "how many mutants are tried at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return flag.ErrHelp
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	p, err := load(ctx, flags.Arg(0))
	if err != nil {
		return err
	}
	tests, err := build(ctx, p, tmp)
	if err != nil {
		return err
	}
	tests.all = *all
	covered, err := tests.baseline(ctx)
	if err != nil {
		return err
	}
	var reached []*mutant
	for _, m := range tests.mutants {
		if covered[m.id] {
			reached = append(reached, m)
		} else {
			fmt.Fprintf(out, "%s: not covered\n", m)
		}
	}
	if len(reached) == 0 {
		return fmt.Errorf("the tests of %s reach none of its %d mutants", p.ImportPath, len(tests.mutants))
	}
	drawn := draw(reached, *sample, *seed)
	drawn = tests.try(ctx, drawn, *workers) // what has been tried when it is interrupted
	if len(drawn) == 0 {
		return ctx.Err()
	}
	killed, late := 0, 0
	for _, m := range drawn {
		switch m.end {
		case lives:
			fmt.Fprintf(out, "%s: lives\n", m)
		case outOfTime:
			late++
		case fails:
			killed++
		}
	}
	fmt.Fprintf(out, "%s: %d mutants, %d covered (%.1f %%), %d tried, %d killed (%.1f %%; %d of them did not end), %d live\n",
		flags.Arg(0), len(tests.mutants), len(reached), percent(len(reached), len(tests.mutants)),
		len(drawn), killed+late, percent(killed+late, len(drawn)), late, len(drawn)-killed-late)
	return ctx.Err()
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

// draw returns n of the mutants in their order, all of them where n is 0 or more than
// there are.
func draw(all []*mutant, n int, seed uint64) []*mutant {
	if n <= 0 || n >= len(all) {
		return all
	}
	at := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:n]
	sort.Ints(at)
	drawn := make([]*mutant, n)
	for k, i := range at {
		drawn[k] = all[i]
	}
	return drawn
}

// each calls f for every mutant, with so many of them at once, until ctx ends.
func each(ctx context.Context, list []*mutant, workers int, f func(*mutant)) {
	var wg sync.WaitGroup
	next := make(chan *mutant)
	for range max(workers, 1) {
		wg.Go(func() {
			for m := range next {
				f(m)
			}
		})
	}
	for _, m := range list {
		if ctx.Err() != nil {
			break
		}
		next <- m
	}
	close(next)
	wg.Wait()
}
