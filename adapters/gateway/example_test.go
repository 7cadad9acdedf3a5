package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// A cascade behind OpenAI's chat completions: clients in any language can use it.
func Example() {
	model, err := middleware.New(middleware.Config{
		Models: []middleware.Candidate{
			{Model: sdk.Model{Name: "small", Price: sdk.Price{Input: 0.15, Output: 0.6}}, LLM: says(llms.ContentChoice{Content: "I'm sorry, but I can't help with that."})},
			{Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 2.5, Output: 10}}, LLM: says(llms.ContentChoice{Content: "1,345 metres."})},
		},
		Lambda: 10,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := gateway.New(gateway.Options{Model: model})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(handler)
	defer server.Close()

	resp, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(
		`{"model": "stepfall", "messages": [{"role": "user", "content": "How high is Ben Nevis?"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var completion struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Stepfall struct {
			Model string `json:"model"`
			Calls int    `json:"calls"`
		} `json:"stepfall"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&completion); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(completion.Choices[0].Message.Content)
	fmt.Printf("by %s, after %d calls\n", completion.Stepfall.Model, completion.Stepfall.Calls)
	// Output:
	// 1,345 metres.
	// by large, after 2 calls
}
