// Command genkit connects a flow on Firebase's Genkit to a cascade with one option of its OpenAI plugin, without a
// server: each turn of the tool loop is routed separately.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/firebase/genkit/go/plugins/compat_oai"
	"github.com/openai/openai-go/option"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/scripted"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	stop, err := scripted.WithoutKey(scripted.Weather)
	if err != nil {
		return err
	}
	defer stop()

	model, err := full.Open(ctx, "policy.hcl", full.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	cascade, err := gateway.New(gateway.Options{Model: model, Observe: func(x *gateway.Exchange) {
		for _, step := range x.Steps {
			fmt.Printf("  %s, after %d of 2 models\n", step.Chosen, len(step.Calls))
		}
	}})
	if err != nil {
		return err
	}

	plugin := &compat_oai.OpenAICompatible{
		Provider: "stepfall", BaseURL: "http://cascade/v1", APIKey: "none",
		Opts: []option.RequestOption{option.WithHTTPClient(&http.Client{Transport: cascade})}, // the only change
	}
	g := genkit.Init(ctx, genkit.WithPlugins(plugin))
	chat := plugin.DefineModel("stepfall", "stepfall", ai.ModelOptions{Label: "stepfall", Supports: &compat_oai.BasicText})
	weather := genkit.DefineTool(g, "weather", "The weather of a city now.", func(_ *ai.ToolContext, in place) (string, error) {
		return "18 degrees and sunny in " + in.City, nil
	})
	said, err := genkit.Generate(ctx, g, ai.WithModel(chat), ai.WithTools(weather), ai.WithMaxTurns(5),
		ai.WithPrompt("Which city is warmest: Sydney, Hobart or Canberra?"))
	if err != nil {
		return err
	}
	fmt.Println(said.Text())
	return nil
}

type place struct {
	City string `json:"city" jsonschema:"description=its name"`
}
