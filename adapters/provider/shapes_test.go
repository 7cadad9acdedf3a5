package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
)

var member = regexp.MustCompile(`"[a-zA-Z_]+":`)

// odd returns the text with each of its values replaced in turn.
func odd(text string, value string) (list []string) {
	for _, at := range member.FindAllStringIndex(text, -1) {
		d := json.NewDecoder(strings.NewReader(text[at[1]:]))
		var old json.RawMessage
		if d.Decode(&old) == nil {
			list = append(list, text[:at[1]]+value+text[at[1]+int(d.InputOffset()):])
		}
	}
	return list
}

// Whatever value replaces a documented one, the call returns an answer, or an error that blames the provider and may be
// billed.
func TestAnswersOfAnyShape(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			u := d.serve(t)
			m := u.model(t)
			for _, value := range []string{"null", "7", `"x"`, "[[]]", "{}", "-1e300"} {
				for _, streamed := range []bool{false, true} {
					text, mime, option := d.whole, "application/json", llms.CallOption(nil)
					if streamed {
						text, mime, option = d.stream, d.mime, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })
					}
					for _, answer := range odd(text, value) {
						u.answer = func(w http.ResponseWriter, _ *http.Request) {
							w.Header().Set("Content-Type", mime)
							fmt.Fprint(w, answer)
						}
						err := func() (err error) {
							defer func() {
								if p := recover(); p != nil {
									err = fmt.Errorf("panic: %v", p)
								}
							}()
							_, err = m.GenerateContent(t.Context(), human("hi"), option)
							return err
						}()
						if e, ok := errors.AsType[*middleware.ProviderError](err); err != nil && (!ok || !e.Billed) {
							t.Errorf("%s: %v", answer, err)
						}
					}
				}
			}
		})
	}
}

var tokens = regexp.MustCompile(`("(?:[a-z_]+_tokens|prompt_eval_count|eval_count|[a-zA-Z]+TokenCount)":\s*)(\d+)`)

// Proxies write token counts as decimal numbers.
func TestTokensMayHavePoints(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			u := d.serve(t)
			text := tokens.ReplaceAllString(d.whole, `${1}${2}.0`)
			if text == d.whole {
				t.Fatal("no numbers of tokens were found")
			}
			u.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, text)
			}
			resp, err := u.model(t).GenerateContent(t.Context(), human("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d.usage, middleware.ExtraOf(resp.Choices[0]).Usage); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type pathSeen struct{ path string }

func (p *pathSeen) RoundTrip(r *http.Request) (*http.Response, error) {
	p.path = r.URL.Path
	return nil, io.EOF
}

// A base URL of Google's is accepted with and without the version of the API.
func TestAddressesOfGemini(t *testing.T) {
	for _, base := range []string{"http://gemini", "http://gemini/v1beta", "http://gemini/v1beta/"} {
		server := &pathSeen{}
		m, err := provider.New(provider.Options{API: middleware.DialectGemini, Model: "m", BaseURL: base, Transport: server})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")})
		if want := "/v1beta/models/m:generateContent"; err == nil || server.path != want {
			t.Errorf("%s: asked at %s, want %s: %v", base, server.path, want, err)
		}
	}
}
