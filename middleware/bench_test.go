//go:build unix

package middleware_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// instant answers at once with one shared response.
type instant struct{ resp *llms.ContentResponse }

func (m instant) GenerateContent(_ context.Context, _ []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	return m.resp, nil
}

func (m instant) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// benchModel returns a Model of n candidates that report promptTokens, as servers do: a prompt that is reported too
// short is counted again.
func benchModel(tb testing.TB, strategy string, n, promptTokens int) *middleware.Model {
	tb.Helper()
	resp := text("a plain answer of some length, as models give")
	resp.Choices[0].GenerationInfo["PromptTokens"] = promptTokens
	models := make([]middleware.Candidate, n)
	for i := range models {
		models[i] = middleware.Candidate{
			LLM:     instant{resp},
			Quality: sdk.Estimate{Mean: 0.5 + 0.04*float64(i), StdDev: 0.2},
			Model:   sdk.Model{Name: fmt.Sprint("model-", i), Price: sdk.Price{Input: 0.1 * float64(i+1), Output: 0.4 * float64(i+1)}, MaxOutputTokens: 4096, Capabilities: able},
		}
	}
	s, err := cascade.New(strategy, cascade.Params{Lambdas: []float64{100}})
	if err != nil {
		tb.Fatal(err)
	}
	var steps atomic.Int64
	m, err := middleware.New(middleware.Config{Models: models, Step: step.Config{Strategy: s, Traces: func(context.Context, *sdk.Trace) { steps.Add(1) }}})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// BenchmarkStep is one whole step at 11 models with tracing on, less than a
// microsecond of which is the call itself (BenchmarkBareCall).
func BenchmarkStep(b *testing.B) {
	for _, strategy := range []string{cascade.NameRoute, cascade.NameIndex, cascade.NameThreshold, cascade.NameCascadeRoute} {
		for _, size := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("%s/prompt=%d", strategy, size), func(b *testing.B) {
				m := benchModel(b, strategy, 11, size/4)
				messages := human(strings.Repeat("x", size))
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					if _, err := m.GenerateContent(b.Context(), messages, llms.WithTemperature(0.2)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// cpuTime is the processor time of the process so far, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func BenchmarkBareCall(b *testing.B) {
	m := instant{text("a plain answer of some length, as models give")}
	messages := human("x")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.GenerateContent(b.Context(), messages, llms.WithTemperature(0.2)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStepParallel is the throughput on all cores.
func BenchmarkStepParallel(b *testing.B) {
	m := benchModel(b, cascade.NameIndex, 11, 250)
	messages := human(strings.Repeat("x", 1000))
	b.ReportAllocs()
	before := cpuTime(b)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := m.GenerateContent(b.Context(), messages, llms.WithTemperature(0.2)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
	// Processor time per step, including garbage collection. On a machine with other load it is more
	// reliable than steps/s.
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}
