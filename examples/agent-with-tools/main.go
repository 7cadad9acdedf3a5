// Command agent-with-tools runs an unmodified langchaingo agent on a cascade.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/tools"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	stop, err := scripted.WithoutKey(answer)
	if err != nil {
		return err
	}
	defer stop()

	model, err := full.Open(ctx, "policy.hcl", full.Options{})
	if err != nil {
		return err
	}
	defer model.Close()

	agent := agents.NewOneShotAgent(model, []tools.Tool{tools.Calculator{}}, agents.WithMaxIterations(4))
	ctx, report := middleware.WithReport(middleware.WithInfo(ctx, middleware.Info{Run: "run-1"}))
	text, err := chains.Run(ctx, agents.NewExecutor(agent), "A crate holds 12 bottles. How many bottles are in 17 crates?")
	if err != nil {
		return err
	}
	fmt.Println(text)
	for i, step := range report.Steps() {
		var asked []string
		for _, call := range step.Calls {
			asked = append(asked, call.Model)
		}
		fmt.Printf("step %d: %s\n", i+1, strings.Join(asked, ", then "))
	}
	return nil
}

// answer returns the scripted models' answers: the small one forgets the format at the end, the most
// common way in which small models break agents.
func answer(_ context.Context, req *scripted.Request) scripted.Reply {
	switch {
	case !strings.Contains(req.LastUser(), "Observation: 204"):
		return scripted.Reply{Text: "I should multiply.\nAction: calculator\nAction Input: 12 * 17"}
	case req.Model == "gpt-4o-mini":
		return scripted.Reply{Text: "Now I know it! There are 204 bottles."}
	}
	return scripted.Reply{Text: "I now know the final answer.\nFinal Answer: 204 bottles"}
}
