package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
)

// listen serves a gateway on the loopback interface until the test ends, and then checks that it leaks
// nothing.
func listen(t *testing.T, o gateway.Options) (addr string) {
	t.Helper()
	before := runtime.NumGoroutine()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	g := newGateway(t, o)
	go func() { served <- g.Serve(ctx, l, gateway.Serving{Grace: 2 * time.Second}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
		for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines before, %d after\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
	return l.Addr().String()
}

// speak sends raw bytes and returns the first n responses with their bodies.
func speak(t *testing.T, addr, text string, n int) (list []*http.Response, bodies []string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	go func() { _, _ = io.WriteString(conn, text) }()
	from := bufio.NewReader(conn)
	for range n {
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatalf("%d responses, then %v", len(list), err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		list, bodies = append(list, resp), append(bodies, string(body))
	}
	return list, bodies
}

func request(path, body string, headers ...string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n" + body
}

// A document or search result that cannot be parsed is a fault of the request, cited or not.
func TestDocumentsOfAWrongType(t *testing.T) {
	addr := listen(t, gateway.Options{Model: says(llms.ContentChoice{Content: "hi", StopReason: "stop"})})
	const at = "messages[0].content[0]."
	for block, want := range map[string]string{
		`"type":"document","source":7`: at + "source.type",
		`"type":"document","source":{"type":"text","media_type":"text/plain","data":7}`:                 at + "source.data",
		`"type":"document","source":{"type":"text","media_type":7,"data":"a"}`:                          at + "source.media_type",
		`"type":"document","source":{"type":"base64","media_type":"application/pdf","data":7}`:          at + "source.data",
		`"type":"document","source":{"type":"url","url":7}`:                                             at + "source.url",
		`"type":"document","source":{"type":"content","content":7}`:                                     at + "source.content",
		`"type":"document","source":{"type":"content","content":[7]}`:                                   at + "source.content[0].type",
		`"type":"document","title":7,"source":{"type":"text","media_type":"text/plain","data":"a"}`:     at + "title",
		`"type":"search_result","source":"s","title":"t","content":7`:                                   at + "content",
		`"type":"search_result","source":7,"title":"t","content":[{"type":"text","text":"a"}]`:          at + "source",
		`"type":"document","source":{"type":"text","media_type":"text/plain","data":"a"}`:               "",
		`"type":"document","source":{"type":"content","content":"a"}`:                                   "",
		`"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"}]}`:          "",
		`"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"a"}]`:        "",
		`"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}`: "",
	} {
		for _, cited := range []string{"", `,"citations":{"enabled":true}`} {
			resp, bodies := speak(t, addr, request(messagesPath, `{"max_tokens":9,"messages":[{"role":"user","content":[{`+block+cited+`}]}]}`), 1)
			if isRefused := resp[0].StatusCode == http.StatusBadRequest; isRefused != (want != "") || isRefused && !strings.HasPrefix(gjson.Get(bodies[0], "error.message").Str, want+":") {
				t.Errorf("%s%s: %d %s", block, cited, resp[0].StatusCode, bodies[0])
			}
		}
	}
}

// Nested blocks are limited, because the time to read them grows with both depth and size.
func TestAttackNestedBlocks(t *testing.T) {
	addr := listen(t, gateway.Options{Model: says(llms.ContentChoice{Content: "hi", StopReason: "stop"})})
	for depth, want := range map[int]int{6: http.StatusOK, 80: http.StatusBadRequest} {
		for _, block := range []string{`{"type":"tool_result","tool_use_id":"a","content":[%]}`, `{"type":"document","source":{"type":"content","content":[%]}}`, `{"type":"search_result","source":"s","title":"t","content":[%]}`} {
			before, after, _ := strings.Cut(block, "%")
			text := strings.Repeat(before, depth) + `{"type":"text","text":"a"}` + strings.Repeat(after, depth)
			resp, bodies := speak(t, addr, request(messagesPath, `{"max_tokens":9,"messages":[{"role":"user","content":[`+text+`]}]}`), 1)
			if resp[0].StatusCode != want || want != http.StatusOK && !strings.Contains(bodies[0], "nested") {
				t.Errorf("%d of %s: %d %s", depth, block, resp[0].StatusCode, bodies[0])
			}
		}
	}
}

// A hostile request gets a response in the form of its API, with a status that describes the fault, and a request
// id.
func TestHostileRequests(t *testing.T) {
	addr := listen(t, gateway.Options{Model: says(llms.ContentChoice{Content: "hi", StopReason: "stop"}), MaxBody: 1 << 20})
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	for name, c := range map[string]struct {
		body   string
		status int
		param  string
	}{
		"nothing":            {"", 400, ""},
		"null":               {"null", 400, ""},
		"a list":             {"[]", 400, ""},
		"cut off":            {`{"messages": [`, 400, ""},
		"deep":               {deep, 400, ""},
		"deep, not closed":   {strings.Repeat("[", 500_000), 400, ""},
		"not UTF-8":          {`{"messages": [{"role": "user", "content": "` + "\xff\xfe" + `"}]}`, 400, ""},
		"NUL":                {"{\"messages\x00\": []}", 400, ""},
		"no messages":        {`{"messages": [], "input": [], "max_tokens": 9}`, 400, "*"},
		"messages of null":   {`{"messages": null, "input": null, "max_tokens": 9}`, 400, "*"},
		"model of a number":  {`{"model": 5, "messages": [{"role": "user", "content": "a"}], "input": "a", "max_tokens": 9}`, 400, "model"},
		"temperature of inf": {`{"temperature": 1e999, "messages": [{"role": "user", "content": "a"}], "input": "a", "max_tokens": 9}`, 400, "temperature"},
		"too large":          {`{"a": "` + strings.Repeat("x", 2<<20) + `"}`, 413, ""},
	} {
		for path := range asked {
			resp, bodies := speak(t, addr, request(path, c.body, "Connection: close"), 1)
			if resp[0].StatusCode != c.status {
				t.Errorf("%s, %s: status %d: %.200s", name, path, resp[0].StatusCode, bodies[0])
				continue
			}
			if resp[0].Header.Get("X-Request-ID") == "" || resp[0].Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %s: headers %v", name, path, resp[0].Header)
			}
			checkError(t, path, []byte(bodies[0]))
			if got := gjson.Get(bodies[0], "error.param").Str; path != messagesPath && c.param != "*" && got != c.param {
				t.Errorf("%s, %s: param %q, want %q", name, path, got, c.param)
			}
		}
	}
	for field, value := range map[string]string{
		"max_tokens": "-1", "max_completion_tokens": "1e30", "n": "1000000", "top_logprobs": `"many"`, "seed": "1.5", "logit_bias": `{"1": 1e999}`, "stop": "5", "stream": `"yes"`, "tools": "{}",
	} {
		resp, bodies := speak(t, addr, request(chatPath, `{"messages": [{"role": "user", "content": "a"}], "`+field+`": `+value+`}`), 1)
		if got := gjson.Get(bodies[0], "error.param").Str; resp[0].StatusCode != http.StatusBadRequest || !strings.HasPrefix(got, field) {
			t.Errorf("%s of %s: %d %s", field, value, resp[0].StatusCode, bodies[0])
		}
	}
	resp, bodies := speak(t, addr, request(chatPath, hello, gateway.HeaderRun+": "+strings.Repeat("r", 2000)), 1)
	if resp[0].StatusCode != http.StatusBadRequest || gjson.Get(bodies[0], "error.param").Str != gateway.HeaderRun {
		t.Errorf("a long run: %d %s", resp[0].StatusCode, bodies[0])
	}
	for _, path := range []string{chatPath, messagesPath} {
		resp, bodies := speak(t, addr, request(path, hello, "X-Fill: "+strings.Repeat("x", 1<<17), "Connection: close"), 1)
		if resp[0].StatusCode != http.StatusRequestHeaderFieldsTooLarge || resp[0].Header["X-Request-Id"] == nil {
			t.Errorf("%s: %v", path, resp[0].Status)
		}
		checkError(t, path, []byte(bodies[0]))
	}
	// An even larger header is not read.
	if resp, _ := speak(t, addr, request(chatPath, hello, "X-Fill: "+strings.Repeat("x", 1<<19), "Connection: close"), 1); resp[0].StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(resp[0].Status)
	}
	// After all of this, the gateway still answers.
	if resp, bodies := speak(t, addr, request(chatPath, hello), 1); resp[0].StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d %s", resp[0].StatusCode, bodies[0])
	}
}

func TestOddRequestsThatMeanWell(t *testing.T) {
	model := says(llms.ContentChoice{Content: "hi", StopReason: "stop"})
	addr := listen(t, gateway.Options{Model: model})

	// Requests can be pipelined.
	list, bodies := speak(t, addr, request(chatPath, hello, "X-Request-Id: one")+request(messagesPath, `{"max_tokens": 0}`, "X-Request-Id: two")+request(chatPath, hello, "X-Request-Id: three"), 3)
	for i, want := range []struct {
		status int
		id     string
	}{{200, "one"}, {400, "two"}, {200, "three"}} {
		if list[i].StatusCode != want.status || list[i].Header.Get("X-Request-ID") != want.id {
			t.Errorf("response %d: %d %v %s", i, list[i].StatusCode, list[i].Header, bodies[i])
		}
	}
	// A client's request id is on both of its responses, whose answers have different ids.
	for _, path := range []string{chatPath, messagesPath, responsesPath} {
		body := map[string]string{chatPath: hello, messagesPath: `{"model": "stepfall", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}`, responsesPath: `{"input": "hi"}`}[path]
		list, bodies := speak(t, addr, request(path, body, "X-Request-Id: same")+request(path, body, "X-Request-Id: same"), 2)
		first, second := gjson.Get(bodies[0], "id").Str, gjson.Get(bodies[len(bodies)-1], "id").Str
		if first == second || first == "" || strings.Contains(first+second, "same") || list[1].Header.Get("X-Request-ID") != "same" {
			t.Errorf("%s: answers %q and %q: %.500s", path, first, second, bodies[0])
		}
	}
	// Of two fields with the same name the later one counts.
	if _, bodies := speak(t, addr, request(chatPath, `{"n": 0, "user": "a", "messages": [], "n": 1, "user": "b", "messages": [{"role": "user", "content": "hi"}]}`), 1); model.params.User != "" && model.params.User != "b" || !strings.Contains(bodies[0], "n: ") {
		t.Errorf("a field that is wrong and then right: %s", bodies[0])
	}
	if list, bodies := speak(t, addr, request(chatPath, `{"user": "a", "user": "b", "messages": [{"role": "user", "content": "hi"}]}`), 1); list[0].StatusCode != http.StatusOK || model.params.User != "b" {
		t.Errorf("a field twice: %d %s, user %q", list[0].StatusCode, bodies[0], model.params.User)
	}
	// A long conversation is not an attack.
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `,{"role": %q, "content": "message %d"}`, []string{"user", "assistant"}[i%2], i)
	}
	began := time.Now()
	for path, body := range map[string]string{
		chatPath: `{"messages": [` + b.String()[1:] + `]}`, messagesPath: `{"max_tokens": 9, "messages": [` + b.String()[1:] + `]}`, responsesPath: `{"input": [` + b.String()[1:] + `]}`,
	} {
		if list, bodies := speak(t, addr, request(path, body), 1); list[0].StatusCode != http.StatusOK || len(model.messages) != 10_000 {
			t.Errorf("%s: %d, %d messages: %.200s", path, list[0].StatusCode, len(model.messages), bodies[0])
		}
	}
	if took := time.Since(began); took > time.Minute && !testing.Short() {
		t.Errorf("three conversations of 10,000 messages took %v", took)
	}
	for _, path := range []string{"//v1/chat/completions", "/v1/chat/completions/", "/v1/../v1/chat/completions", "/V1/CHAT/COMPLETIONS"} {
		if list, bodies := speak(t, addr, request(path, hello), 1); list[0].StatusCode != http.StatusNotFound || gjson.Get(bodies[0], "error.message").Str == "" {
			t.Errorf("%s: %d %s", path, list[0].StatusCode, bodies[0])
		}
	}
}

// A client that disconnects in the middle of a stream ends its step, and nothing leaks.
func TestClientsThatGo(t *testing.T) {
	const clients = 20
	ended := make(chan error, clients)
	model := &recorder{answer: func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error) {
		for {
			if err := p.OnDelta(ctx, &middleware.Delta{Text: "more "}); err != nil {
				ended <- err
				return nil, err
			}
			select {
			case <-ctx.Done():
				ended <- ctx.Err()
				return nil, ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
	}}
	// The model's own fields must not be used concurrently.
	shared := &struct{ llms.Model }{callable(model.answer)}
	addr := listen(t, gateway.Options{Model: shared})
	for i := range clients {
		path := []string{chatPath, responsesPath, messagesPath}[i%3]
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request(path, fmt.Sprintf(asked[path], true))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 600)); err != nil { // the head and some of the text
			t.Fatal(err)
		}
		conn.Close()
	}
	for range clients {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("a step goes on for a client that has gone")
		}
	}
}

// callable is a function as a model.
type callable func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error)

func (c callable) GenerateContent(ctx context.Context, _ []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	_, p := middleware.Resolve(options...)
	return c(ctx, &p)
}

func (c callable) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, c, prompt, options...)
}

// Over TLS the gateway also serves HTTP/2, including errors and streams.
func TestHTTP2(t *testing.T) {
	g := newGateway(t, gateway.Options{Model: streams(llms.ContentChoice{Content: "hi there", StopReason: "stop"}, middleware.Delta{Text: "hi "}, middleware.Delta{Text: "there"})})
	made := httptest.NewTLSServer(nil) // for its certificate
	defer made.Close()
	addr, stop := serve(t, g, gateway.Serving{TLS: &tls.Config{Certificates: made.TLS.Certificates}, Grace: time.Second})
	transport := made.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		hello: {200, "hi there"},
		`{"stream": true, "messages": [{"role": "user", "content": "hi"}]}`: {200, "data: [DONE]"},
		`{"n": 0}`: {400, `"param":"n"`},
		"{":        {400, "not JSON"},
	} {
		resp, err := client.Post("https://"+addr+chatPath, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != want.status || !strings.Contains(string(text), want.text) || resp.Header.Get("X-Request-ID") == "" {
			t.Errorf("%s: %v HTTP/%d %d %s", body, err, resp.ProtoMajor, resp.StatusCode, text)
		}
	}
	client.CloseIdleConnections()
	stop()
}

// serve serves a gateway on a loopback address until stop is called, which checks how serving ended.
func serve(t *testing.T, g *gateway.Gateway, s gateway.Serving) (addr string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, l, s) }()
	return l.Addr().String(), func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// Proxies that end TLS can continue with HTTP/2, without an upgrade.
func TestHTTP2WithoutTLS(t *testing.T) {
	addr, stop := serve(t, newGateway(t, gateway.Options{Model: says(llms.ContentChoice{Content: "hi"})}), gateway.Serving{Grace: time.Second})
	for major, set := range map[int]func(*http.Protocols){
		1: func(p *http.Protocols) { p.SetHTTP1(true) }, 2: func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		set(transport.Protocols)
		resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Post("http://"+addr+chatPath, "application/json", strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.ProtoMajor != major || resp.StatusCode != http.StatusOK {
			t.Errorf("HTTP/%d, status %d; want HTTP/%d", resp.ProtoMajor, resp.StatusCode, major)
		}
		transport.CloseIdleConnections()
	}
	stop()
}

// Names that are not UTF-8 are rejected from any client, because they would become labels of metrics and spans.
func TestNamesThatAreNotUTF8(t *testing.T) {
	keys, err := gateway.Keys(map[string]string{"k-blue": "blue"})
	if err != nil {
		t.Fatal(err)
	}
	for _, authenticate := range []func(context.Context, string) (gateway.Client, error){nil, keys} {
		for _, name := range []string{gateway.HeaderRun, gateway.HeaderSession, gateway.HeaderTenant, gateway.HeaderGroup, gateway.HeaderQuery} {
			var log strings.Builder
			model := says(llms.ContentChoice{Content: "hi"})
			h := newGateway(t, gateway.Options{Model: model, Authenticate: authenticate, Logger: logTo(&log)})
			w := post(h, chatPath, hello, "X-Api-Key", "k-blue", name, "a\xffb")
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), name) || len(model.messages) > 0 {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
			if w := post(h, chatPath, hello, "X-Api-Key", "k-blue", name, "\u00e9"); w.Code != http.StatusOK {
				t.Errorf("%s of a letter: %d %s", name, w.Code, w.Body)
			}
			if post(h, "/v1/nothing/%ff", "", "X-Api-Key", "k-blue"); !strings.Contains(log.String(), "nothing") || !utf8.ValidString(log.String()) {
				t.Errorf("the log is %q", log.String())
			}
		}
	}
}

// An unpaired surrogate in a JSON string is replaced where it becomes a name.
func TestHalfACharacterInJSON(t *testing.T) {
	model := says(llms.ContentChoice{Content: "hi"})
	h := newGateway(t, gateway.Options{Model: model})
	w := post(h, chatPath, `{"model": "stepfall", "messages": [{"role": "user", "content": "\ud800", "name": "\ud800"}], "user": "\ud800", "metadata": {"\ud800": "\udfff"}, "tools": [
		{"type": "function", "function": {"name": "\ud800", "parameters": {"type": "object"}}}], "\ud800": 1}`)
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	p := model.params
	for _, text := range []string{p.User, fmt.Sprint(p.Metadata), fmt.Sprint(model.messages), fmt.Sprint(slices.Collect(maps.Keys(p.Extra))), model.options.Tools[0].Function.Name} {
		if !utf8.ValidString(text) || !strings.Contains(text, "\ufffd") {
			t.Errorf("%q", text)
		}
	}
}
