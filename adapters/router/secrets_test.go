package router_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/otel"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

const secretPolicy = `
include = ["more.hcl"]

model "large" {
  provider          = "openai"
  base_url          = "%URL%"
  api_key           = env("KEY")
  max_output_tokens = 100
  price { free = true }
  deployment "spare" {
    base_url = "%URL%"
    api_key  = env("SPARE")
  }
}
plugin "exact" {}
verifier "exact" {
  plugin = "exact"
  config {
    want  = "42"
    token = env("TOKEN")
  }
}
strategy "threshold" { threshold = 0.5 }
retry {
  max_attempts = 1
}
trace {
  file    = "traces.jsonl"
  prompts = true
  answers = true
  explain = true
}
`

const moreSecrets = `
model "small" {
  provider          = "openai"
  base_url          = "%URL%"
  api_key           = env("INCLUDED")
  max_output_tokens = 100
  price { free = true }
}
`

// loose is a plugin that leaks its configuration into evidence and errors.
type loose struct{}

func (loose) Verifier(_, _ string, config map[string]any) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
		switch {
		case strings.Contains(r.Answer.Text, "panic"):
			panic(fmt.Sprint("with ", config["token"]))
		case strings.Contains(r.Answer.Text, "error"):
			return nil, fmt.Errorf("refused with %v", config["token"])
		}
		return &sdk.Verdict{Outcome: sdk.Failed, Evidence: fmt.Sprint("checked with ", config["token"])}, nil
	}), nil
}

func (loose) QualityEstimator(string, string, map[string]any) (sdk.QualityEstimator, error) {
	return nil, errors.New("no estimators here")
}

// Keys of the policy do not leave the router, whatever servers and plugins do with them: not in traces, the trace
// file or the log, and not in the data exported by OpenTelemetry.
func TestPlantedSecretsNeverLeaveTheRouter(t *testing.T) {
	secrets := map[string]string{
		"KEY": "plantedlarge-7f3a", "SPARE": "plantedspare-91bc", "TOKEN": "plantedtoken-55de", "INCLUDED": "plantedsmall-08aa",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		echoed := req.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		for _, say := range []string{"error", "panic", "tell"} {
			if strings.Contains(string(body), "please "+say) {
				fmt.Fprintf(w, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"%s %s"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, say, echoed)
				return
			}
		}
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s","type":"invalid_request_error","code":"invalid_api_key"}}`, echoed)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	var env []string
	for name, v := range secrets {
		env = append(env, name+"="+v)
	}
	for name, text := range map[string]string{"policy.hcl": secretPolicy, "more.hcl": moreSecrets} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "%URL%", server.URL)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen bytes.Buffer
	spans, metrics := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	recorder, err := otel.New(otel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(metrics)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := full.Open(t.Context(), filepath.Join(dir, "policy.hcl"), router.Options{
		Plugins: loose{}, Load: policies.LoadOptions{Env: env},
		Logger: hclog.New(&hclog.LoggerOptions{Output: &seen, Level: hclog.Trace}),
		Traces: func(ctx context.Context, tr *sdk.Trace) {
			fmt.Fprintf(&seen, "%+v\n", tr)
			recorder.Record(ctx, tr)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []string{"refuse", "please error", "please panic", "please tell"} {
		ctx, rep := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Labels: map[string]string{"ask": ask}}))
		_, err := llms.GenerateFromSinglePrompt(ctx, r, ask+", with "+secrets["KEY"])
		fmt.Fprintf(&seen, "%v %+v\n", err, err)
		if provider, ok := errors.AsType[*middleware.ProviderError](err); ok {
			fmt.Fprintf(&seen, "%v %+v %v\n", provider, *provider, provider.Err)
		} else if ask == "refuse" {
			t.Errorf("%s: no provider's error in %v", ask, err)
		}
		if len(rep.Steps()) != 1 || len(rep.Steps()[0].Calls) == 0 {
			t.Errorf("%s: %v, %+v", ask, err, rep.Steps())
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "traces.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(lines), "\n") != 4 {
		t.Errorf("%d traces", strings.Count(string(lines), "\n"))
	}
	seen.Write(lines)
	exported(t, &seen, spans, metrics)
	for name, v := range secrets {
		if at := strings.Index(seen.String(), v); at >= 0 {
			t.Errorf("%s shows: ...%s...", name, seen.String()[max(0, at-200):min(seen.Len(), at+100)])
		}
	}
}

// exported writes the contents of all spans and metrics.
func exported(t *testing.T, out io.Writer, spans *tracetest.SpanRecorder, metrics sdkmetric.Reader) {
	t.Helper()
	ended := spans.Ended()
	if len(ended) < 8 {
		t.Errorf("%d spans of four steps and their calls", len(ended))
	}
	for _, s := range ended {
		fmt.Fprintf(out, "%s %+v\n", s.Name(), s.Status())
		for _, a := range s.Attributes() {
			fmt.Fprintf(out, "%s=%s\n", a.Key, a.Value.String())
		}
		fmt.Fprintf(out, "%+v\n", s.Events())
	}
	var collected metricdata.ResourceMetrics
	if err := metrics.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(collected)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "gen_ai") {
		t.Error("no metrics")
	}
	if _, err := out.Write(text); err != nil {
		t.Fatal(err)
	}
}

func (loose) CostEstimator(string, string, map[string]any) (sdk.CostEstimator, error) {
	return nil, nil
}
