package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

type conformanceFlags struct {
	config string
}

func (f *conformanceFlags) run(ctx context.Context, s Streams, args []string) error {
	o := plugintest.Options{Path: args[0], Args: args[1:], Log: s.logger("plugin", hclog.Off)}
	if f.config != "" {
		var err error
		if o.Config, err = readConfigs(f.config); err != nil {
			return err
		}
	}
	checks := newListing[checkResult](s)
	o.Progress = func(r plugintest.Result) {
		line := fmt.Sprintf("%-7s %s", r.Status, r.Name)
		if r.Message != "" {
			line += ": " + r.Message
		}
		checks.add(checkResult{r.Name, r.Status, r.Message, r.Duration.Seconds()}, line)
	}
	begun := time.Now()
	report, err := plugintest.Run(ctx, o)
	if err != nil {
		return err
	}
	err = s.render(struct {
		Plugin   string        `json:"plugin"`
		Version  string        `json:"version"`
		Conforms bool          `json:"conforms"`
		Checks   []checkResult `json:"checks"`
	}{report.Plugin, report.Version, report.OK(), checks.rows}, func(p *printer) {
		p.f("%s %s: %d passed, %d failed, %d skipped in %.1f s\n", report.Plugin, report.Version,
			report.Count(plugintest.Passed), report.Count(plugintest.Failed), report.Count(plugintest.Skipped), time.Since(begun).Seconds())
	})
	if err == nil && !report.OK() {
		err = fmt.Errorf("%s does not conform", report.Plugin)
	}
	return err
}

// checkResult is one check of `plugin check --conformance --json`.
type checkResult struct {
	Name    string            `json:"name"`
	Status  plugintest.Status `json:"status"`
	Message string            `json:"message,omitempty"`
	Seconds float64           `json:"seconds"`
}

func readConfigs(path string) (map[wire.Role]map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("config %s: %w", path, err)
	}
	roles := []wire.Role{wire.QualityEstimator, wire.CostEstimator, wire.Verifier}
	out := map[wire.Role]map[string]any{}
	for _, role := range roles {
		if c, ok := config[string(role)].(map[string]any); ok {
			out[role] = c
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, role := range roles {
		out[role] = config
	}
	return out, nil
}
