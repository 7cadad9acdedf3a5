package plugin_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin"
)

// Config is what a policy writes in the plugin's config block.
type Config struct {
	Words int `stepfall:"words,min=1,default=5" doc:"Words that a good answer has at least."`
}

// verifierLength is a complete plugin; its main function is plugin.Main(verifierLength()).
func verifierLength() plugin.Plugin {
	newVerifier := func(_ context.Context, config Config) (sdk.Verifier, error) {
		return sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
			if len(strings.Fields(req.Answer.Text)) < config.Words {
				return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "too short"}, nil
			}
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
		}), nil
	}
	return plugin.Plugin{
		Name: "verifier-length", Version: "1.0.0", Doc: "Counts words.",
		Roles: []plugin.Role{plugin.Verifier(newVerifier)},
	}
}

// The arguments of a plugin follow from its config struct; `verifier-length docs` prints them.
func ExampleDocs() {
	server, closeAll, err := plugin.NewServer(verifierLength(), slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(plugin.Docs(server.Info)) {
		if strings.HasPrefix(line, "|") {
			fmt.Print(line)
		}
	}
	if err := closeAll(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// | argument | type | default | meaning |
	// | --- | --- | --- | --- |
	// | `words` | integer | `5` | Words that a good answer has at least. At least 1. |
}
