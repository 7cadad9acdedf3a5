// Command budgets-and-tenants lets two tenants spend until a hard cap stops one of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
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

	for _, tenant := range []struct {
		name   string
		capUSD float64 // as in the policy
	}{{"bronze", 0.03}, {"gold", 1}} {
		ctx, report := middleware.WithReport(middleware.WithInfo(ctx, middleware.Info{Tenant: tenant.name}))
		var refused atomic.Int32
		var wg sync.WaitGroup
		for range 50 { // all at once
			wg.Go(func() {
				_, err := llms.GenerateFromSinglePrompt(ctx, model, "Write a page about the sea.", llms.WithMaxTokens(1000))
				if errors.Is(err, sdk.ErrBudgetExhausted) {
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		fmt.Printf("%s: steps refused %v, cap held %v\n", tenant.name, refused.Load() > 0, report.CostUSD() <= tenant.capUSD)
	}
	return nil
}

// answer returns the scripted models' answers: a page of a thousand tokens.
func answer(context.Context, *scripted.Request) scripted.Reply {
	return scripted.Reply{Text: strings.Repeat("waves ", 500)}
}
