package router_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
)

// A policy file in, a langchaingo model out. The models are scripted here; the
// small one refuses, which the free checks see.
func ExampleOpen() {
	server, err := scripted.Start(scripted.Options{Respond: func(_ context.Context, req *scripted.Request) scripted.Reply {
		if req.Model == "small" {
			return scripted.Reply{Text: "I'm sorry, but I can't help with that."}
		}
		return scripted.Reply{Text: "Canberra."}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	dir, err := os.MkdirTemp("", "router")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "policy.hcl")
	text := fmt.Sprintf(`
model "small" {
  provider = "openai"
  base_url = %[1]q
  price {
    input_usd_per_million  = 0.1
    output_usd_per_million = 0.4
  }
}
model "large" {
  provider = "openai"
  base_url = %[1]q
  price {
    input_usd_per_million  = 2
    output_usd_per_million = 8
  }
}
strategy "cascade_route" {
  lambda = 10
}
`, server.URL())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	model, err := router.Open(context.Background(), file, router.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	ctx, report := middleware.WithReport(context.Background())
	answer, err := llms.GenerateFromSinglePrompt(ctx, model, "What is the capital of Australia?")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer)
	for _, call := range report.Steps()[0].Calls {
		fmt.Println(call.Model)
	}
	// Output:
	// Canberra.
	// small
	// large
}
