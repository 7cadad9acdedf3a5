package logprob_test

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/logprob"
	"github.com/stepfall/stepfall/adapters/scripted"
)

// The client knows nothing of log-probabilities; the tap below it asks for them and
// keeps them for the caller.
func Example() {
	server, err := scripted.Start(scripted.Options{Respond: func(context.Context, *scripted.Request) scripted.Reply {
		return scripted.Reply{Text: "positive", Confidence: 0.9}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	model, err := openai.New(
		openai.WithBaseURL(server.URL()), openai.WithToken("none"), openai.WithModel("small"),
		openai.WithHTTPClient(&http.Client{Transport: &logprob.Transport{}}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, capture := logprob.WithCapture(context.Background(), logprob.Options{TopLogProbs: 2})
	answer, err := llms.GenerateFromSinglePrompt(ctx, model, "Positive or negative? I loved every minute.")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer, "by", capture.ServedModel())
	for _, token := range capture.Choices()[0].LogProbs {
		fmt.Printf("%s with probability %.2f\n", token.Token, math.Exp(token.LogProb))
	}
	// Output:
	// positive by small
	// positive with probability 0.98
}
