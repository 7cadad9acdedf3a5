package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/sdk"
)

// Requests that the gateway itself rejects are observed with the reason each time, and logged once a second for each
// key, without the key.
func TestRefusalsAreCountedAndLoggedOnceASecond(t *testing.T) {
	spent := &llms.Error{Code: llms.ErrCodeQuotaExceeded, Message: "no room", Cause: fmt.Errorf("tenant: %w", sdk.ErrBudgetExhausted)}
	away := &llms.Error{Code: llms.ErrCodeProviderUnavailable, Message: "no store", Cause: sdk.ErrStoreUnavailable}
	upstream := &llms.Error{Code: llms.ErrCodeRateLimit, Message: "slower"}
	known := func(_ context.Context, key string) (gateway.Client, error) {
		switch key {
		case "good-secret":
			return gateway.Client{Tenant: "blue", Key: "blue-1"}, nil
		case "busy-secret":
			return gateway.Client{}, dialect.Refuse(http.StatusTooManyRequests, "rate_limit_exceeded", "too many")
		}
		return gateway.Client{}, gateway.ErrUnknownKey
	}
	for name, c := range map[string]struct {
		model          *recorder
		key            string
		reason, logged string
		status         int
	}{
		"key":      {fails(spent), "bad-secret", "unknown_key", "reason=unknown_key", 401},
		"limit":    {fails(spent), "busy-secret", gateway.ReasonRateLimit, "reason=rate_limit", 429},
		"cap":      {fails(spent), "good-secret", "budget", "reason=budget key=blue-1", 429},
		"store":    {fails(away), "good-secret", gateway.ReasonStore, "reason=store_unavailable key=blue-1", 503},
		"upstream": {fails(upstream), "good-secret", "", "", 429},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				reasons := map[string]int{}
				h := newGateway(t, gateway.Options{
					Model: c.model, Authenticate: known, Logger: logTo(&log),
					Observe: func(x *gateway.Exchange) { reasons[x.Refused.Reason]++ },
				})
				ask := func(n int) {
					for range n {
						if got := post(h, chatPath, hello, "Authorization", "Bearer "+c.key).Code; got != c.status {
							t.Errorf("status %d, want %d", got, c.status)
						}
					}
				}
				ask(5)
				if c.reason == "" {
					if n := strings.Count(log.String(), "a request failed"); n != 5 {
						t.Errorf("an upstream's refusals are %d lines, want all 5", n)
					}
					return
				}
				if n := strings.Count(log.String(), c.logged); n != 1 || strings.Contains(log.String(), "left_out") {
					t.Errorf("%d lines in the first second, want 1:\n%s", n, &log)
				}
				time.Sleep(time.Second)
				ask(2)
				if n := strings.Count(log.String(), c.logged); n != 2 || strings.Count(log.String(), "left_out=4") != 1 {
					t.Errorf("the second line does not say that 4 were left out:\n%s", &log)
				}
				if reasons[c.reason] != 7 {
					t.Errorf("observed %v", reasons)
				}
				if strings.Contains(log.String(), "secret") {
					t.Errorf("the log has a key:\n%s", &log)
				}
			})
		})
	}
}

// Many unknown keys do not flood the log.
func TestManyUnknownKeysShareALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		keys, err := gateway.Keys(map[string]string{"k": "blue"})
		if err != nil {
			t.Fatal(err)
		}
		h := newGateway(t, gateway.Options{Model: says(llms.ContentChoice{}), Authenticate: keys, Logger: logTo(&log)})
		for i := range 3000 {
			post(h, chatPath, hello, "Authorization", fmt.Sprint("Bearer guess", i))
		}
		if n := strings.Count(log.String(), "\n"); n > 1001 {
			t.Errorf("3000 keys are %d lines", n)
		}
		time.Sleep(time.Second)
		post(h, chatPath, hello, "Authorization", "Bearer guess")
		if !strings.Contains(log.String(), "left_out=1999") {
			t.Error("the next line does not say that 1999 were left out")
		}
	})
}

// The cost of a failed request does not depend on the number of secrets to redact, and a swapped policy's secrets
// take effect.
func TestSecretsAreReadOnce(t *testing.T) {
	var log strings.Builder
	secrets := []string{"hunter2hunter2"}
	h := newGateway(t, gateway.Options{
		Model: fails(&llms.Error{Code: llms.ErrCodeProviderUnavailable, Message: "hunter2hunter2 or swordfish-swordfish"}), Logger: logTo(&log),
		Secrets: func() []string { return secrets },
	})
	ask := func() {
		log.Reset()
		post(h, chatPath, hello)
	}
	few := testing.AllocsPerRun(20, ask)
	if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "swordfish") {
		t.Errorf("logged %s", text)
	}
	for i := range 50 {
		secrets = append(secrets, fmt.Sprintf("%d-of-the-secrets-of-a-policy", i))
	}
	secrets[0] = "swordfish-swordfish"
	if many := testing.AllocsPerRun(20, ask); many > few+100 {
		t.Errorf("with 51 secrets a failed request allocates %v times, with one %v times", many, few)
	}
	if text := log.String(); strings.Contains(text, "swordfish") || !strings.Contains(text, "hunter2") {
		t.Errorf("logged after the swap: %s", text)
	}
}
