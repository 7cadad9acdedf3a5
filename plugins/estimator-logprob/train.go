package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/estimate/classifier"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// train writes a classifier for the outcomes in a file, and on errOut how good it
// is. It returns the exit code.
func train(arguments []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("estimator-logprob train", flag.ContinueOnError)
	flags.SetOutput(errOut)
	signals := flags.String("signals", "", "names of the signals to use, separated by commas; all by default")
	ridge := flags.Float64("ridge", 1, "penalty on squared weights, in answers")
	flags.Usage = func() {
		fmt.Fprintln(errOut, "Usage: estimator-logprob train [flags] OUTCOMES > classifier.json\n\nOUTCOMES is a table of outcomes with a column for each signal; see docs/estimators-and-fit.md.")
		flags.PrintDefaults()
	}
	if err := flags.Parse(arguments); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return 2
	}
	table, err := outcome.Open(flags.Arg(0), outcome.Options{})
	if err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	options := classifier.Options{Ridge: *ridge}
	if *signals != "" {
		options.Signals = strings.Split(*signals, ",")
	}
	trained, err := classifier.Train(table, options)
	if err != nil {
		fmt.Fprintf(errOut, "%s: %v\n", flags.Arg(0), err)
		return 1
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(trained); err != nil {
		fmt.Fprintln(errOut, err)
		return 1
	}
	for _, model := range slices.Sorted(maps.Keys(trained.Models)) {
		r := trained.Models[model]
		fmt.Fprintf(errOut, "%-24s %6d answers   Brier %.4f (%.4f by the mean alone)   AUC %.3f\n", model, r.Rows, r.Brier, r.BaseBrier, r.AUC)
	}
	return 0
}
