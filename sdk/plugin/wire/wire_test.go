package wire

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
	"github.com/stepfall/stepfall/sdk/redact"
)

// over encodes and decodes a message.
func over[M proto.Message](t *testing.T, in, out M) M {
	t.Helper()
	data, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func fullQuery() *sdk.Query {
	return &sdk.Query{
		ID: "q", Group: "g", MaxOutputTokens: 10, InputTokens: 20, Run: "r", Session: "s", Tenant: "t",
		Labels: map[string]string{"a": "b"}, Features: map[string]float64{"turn": 2}, WorkDir: "/tree",
		Messages: []sdk.Message{{Role: "developer", Parts: []sdk.Part{
			sdk.TextPart("text"),
			{Kind: sdk.PartImageURL, URL: "https://example.org"},
			{Kind: sdk.PartBinary, MIMEType: "image/png", Data: []byte{0, 255}},
			{Kind: sdk.PartToolCall, ToolCall: &sdk.ToolCall{ID: "1", Name: "f", Arguments: "{"}},
			{Kind: sdk.PartToolResult, ToolResult: &sdk.ToolResult{CallID: "1", Name: "f", Content: "c", IsError: true}},
		}}},
		Tools:  []sdk.Tool{{Name: "f", Description: "d", Parameters: []byte("{}")}},
		Format: sdk.ResponseFormat{JSON: true, Schema: []byte("{}")},
		Checks: sdk.Checks{FailToPass: []string{"A"}, PassToPass: []string{"B", "C"}},
	}
}

func fullAnswer() sdk.Answer {
	return sdk.Answer{
		Model: "m", Text: "t", Reasoning: "r", StopReason: "stop", CostUSD: 0.5, Latency: time.Second,
		ToolCalls: []sdk.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}},
		LogProbs:  []sdk.TokenLogProb{{Token: "\xf0\x9f", LogProb: -1, Top: []sdk.TopLogProb{{Token: "\xf0", LogProb: -2}, {Token: "b", LogProb: math.Inf(-1)}}}, {Token: "x"}},
		Usage:     sdk.Usage{InputTokens: 1, CachedInputTokens: 2, CacheWriteTokens: 3, OutputTokens: 4, ReasoningTokens: 5, Estimated: true},
		Signals:   map[string]float64{"perplexity": 2},
	}
}

func TestNothingIsLost(t *testing.T) {
	if diff := cmp.Diff(fullQuery(), fromWire[sdk.Query](over(t, toWire[pb.Query](fullQuery()), &pb.Query{}), keepText)); diff != "" {
		t.Error(diff)
	}
	answer := fullAnswer()
	if diff := cmp.Diff(&answer, fromWire[sdk.Answer](over(t, toWire[pb.Answer](&answer), &pb.Answer{}), keepText)); diff != "" {
		t.Error(diff)
	}
	model := sdk.Model{
		Name: "m", Provider: "p", Served: "s", Price: sdk.Price{Input: 1, CachedInput: 2, CacheWrite: 3, Output: 4, Reasoning: 5},
		ContextTokens: 6, MaxOutputTokens: 7, Capabilities: sdk.Capabilities{Tools: true, JSONSchema: true, Reasoning: true},
	}
	if diff := cmp.Diff(&model, fromWire[sdk.Model](over(t, toWire[pb.Model](&model), &pb.Model{}), keepText)); diff != "" {
		t.Error(diff)
	}
	attempts := []sdk.Attempt{{Answer: answer, Verdict: &sdk.Verdict{
		Verifier: "v", Outcome: sdk.Failed, Score: 0.5, Confidence: 0.9, Evidence: "e", Isolation: []string{"network"},
		IsolationMissing: map[string]string{"cgroup": "none"}, CostUSD: 1, Way: "cases", Altered: 3, Noticed: 2, LeftOut: []string{"calc/add_test.go"}, Duration: time.Minute,
	}}, {}}
	for i := range attempts {
		got := fromWire[sdk.Attempt](over(t, toWire[pb.Attempt](&attempts[i]), &pb.Attempt{}), keepText)
		if diff := cmp.Diff(&attempts[i], got); diff != "" {
			t.Error(diff)
		}
	}
}

// Invalid UTF-8 does not make a request unsendable.
func TestBrokenTextIsSent(t *testing.T) {
	q := &sdk.Query{ID: "\xff", Labels: map[string]string{"\xfe": "\xfd"}, Messages: []sdk.Message{{Role: "\xfc", Parts: []sdk.Part{sdk.TextPart("a\xffb")}}}}
	got := fromWire[sdk.Query](over(t, toWire[pb.Query](q), &pb.Query{}), keepText)
	if text := got.Messages[0].Text(); text != "a\uFFFDb" {
		t.Errorf("got %q", text)
	}
	if q.ID != "\xff" {
		t.Error("the query was modified")
	}
}

// What a plugin may not return becomes an error.
// script is a verifier's end of a stream that sends what it likes.
type script struct {
	grpc.ServerStreamingClient[pb.VerifyResponse]
	events []*pb.VerifyResponse
	end    error // of the stream
}

func (s *script) Verify(context.Context, *pb.VerifyRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.VerifyResponse], error) {
	return s, nil
}

func (s *script) Recv() (*pb.VerifyResponse, error) {
	if len(s.events) == 0 {
		return nil, s.end
	}
	event := s.events[0]
	s.events = s.events[1:]
	return event, nil
}

func TestMalformedStreams(t *testing.T) {
	verdict := &pb.VerifyResponse{Event: &pb.VerifyResponse_Verdict{Verdict: &pb.Verdict{Outcome: 1, Score: 1}}}
	progress := &pb.VerifyResponse{Event: &pb.VerifyResponse_Progress{Progress: &pb.Progress{Done: 1}}}
	for want, events := range map[string][]*pb.VerifyResponse{
		"":                           {progress, {}, verdict},
		"no verdict":                 {progress},
		"an event after the verdict": {verdict, verdict},
	} {
		c := &Client{verify: &script{events: events, end: io.EOF}}
		_, err := c.Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{}, Answer: &sdk.Answer{}})
		var malformed *MalformedError
		if (err == nil) != (want == "") || err != nil && (!errors.As(err, &malformed) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}

// A stream that stays open after its verdict is the plugin's defect, and the message says so.
func TestAVerdictEndsItsStream(t *testing.T) {
	c := &Client{verify: &script{
		events: []*pb.VerifyResponse{{Event: &pb.VerifyResponse_Verdict{Verdict: &pb.Verdict{Outcome: 1}}}},
		end:    status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
	}}
	_, err := c.Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{}, Answer: &sdk.Answer{}})
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "must end after the verdict") {
		t.Errorf("got %v", err)
	}
}

// The client measures a verification if the plugin claims a longer or negative duration.
func TestDurationsThatCannotBe(t *testing.T) {
	for name, claimed := range map[string]time.Duration{"negative": -100 * time.Second, "292 years": math.MaxInt64, "none": 0} {
		c := &Client{verify: &script{events: []*pb.VerifyResponse{{Event: &pb.VerifyResponse_Verdict{Verdict: &pb.Verdict{Outcome: 1, Duration: durationpb.New(claimed)}}}}, end: io.EOF}}
		verdict, err := c.Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{}, Answer: &sdk.Answer{}})
		if err != nil || verdict.Duration <= 0 || verdict.Duration > time.Minute {
			t.Errorf("%s: %+v, %v", name, verdict, err)
		}
	}
}

// question is a plugin's end of the stream for model calls, as the host sees it.
type question struct {
	grpc.BidiStreamingClient[pb.ConnectRequest, pb.ConnectResponse]
	replies chan *pb.ConnectRequest
}

func (q *question) Send(reply *pb.ConnectRequest) error {
	q.replies <- reply
	return nil
}

// A model call with the id of another one in flight is neither made nor paid.
func TestAQuestionWithTheIDOfAnother(t *testing.T) {
	stream := &question{replies: make(chan *pb.ConnectRequest, 3)}
	c, asked, answer := &Client{}, make(chan struct{}, 3), make(chan struct{})
	id, call := c.beginCall(t.Context())
	s := &modelServer{calls: &c.calls, stream: stream, cancels: map[uint64]context.CancelFunc{}, models: ModelCallerFunc(func(context.Context, string, *sdk.Query) (*sdk.Answer, error) {
		asked <- struct{}{}
		<-answer
		return &sdk.Answer{CostUSD: 1}, nil
	})}
	for range 3 {
		s.handle(t.Context(), &pb.ConnectResponse{Id: 7, CallId: id, ModelCall: &pb.ModelCall{}})
	}
	for range 2 {
		if reply := <-stream.replies; reply.GetId() != 7 || !strings.Contains(reply.GetError(), "with this id") {
			t.Errorf("got %v", reply)
		}
	}
	close(answer)
	s.wg.Wait()
	if usd := call.end(); usd != 1 || len(asked) != 1 {
		t.Errorf("%d questions cost %v", len(asked), usd)
	}
}

// endless is a verifier that tells for ever how far it is.
type endless struct {
	pb.UnimplementedVerifierServiceServer
}

func (endless) Verify(_ *pb.VerifyRequest, stream grpc.ServerStreamingServer[pb.VerifyResponse]) error {
	for {
		if err := stream.Send(&pb.VerifyResponse{Event: &pb.VerifyResponse_Log{Log: &pb.LogLine{Text: strings.Repeat("e", 100<<10)}}}); err != nil {
			return err
		}
	}
}

// serve returns a connection to a server with the services that add registers.
func serve(t *testing.T, add func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	g := grpc.NewServer()
	add(g)
	go func() { _ = g.Serve(listener) }() // ends with Stop
	t.Cleanup(g.Stop)
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// leaky is a plugin that has a secret in every text.
type leaky struct {
	pb.UnimplementedPluginServiceServer
	pb.UnimplementedVerifierServiceServer
	said string
}

func (l leaky) GetInfo(context.Context, *pb.GetInfoRequest) (*pb.GetInfoResponse, error) {
	return nil, status.Error(codes.Internal, l.said)
}

func (l leaky) Connect(pb.PluginService_ConnectServer) error {
	return status.Error(codes.Internal, l.said)
}

func (l leaky) Configure(_ context.Context, req *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	if req.GetInstance() == "" {
		return nil, status.Error(codes.Unauthenticated, l.said)
	}
	return &pb.ConfigureResponse{Diagnostics: []*pb.Diagnostic{{Path: []string{l.said}, Summary: l.said, Detail: l.said}}}, nil
}

func (l leaky) Verify(req *pb.VerifyRequest, stream pb.VerifierService_VerifyServer) error {
	if req.GetQuery() == nil {
		return status.Error(codes.Internal, l.said)
	}
	names := []string{l.said}
	return stream.Send(&pb.VerifyResponse{Event: &pb.VerifyResponse_Verdict{Verdict: &pb.Verdict{
		Outcome: 1, Evidence: l.said, Verifier: l.said, Way: l.said, LeftOut: names, Isolation: names, IsolationMissing: map[string]string{"network": l.said},
	}}})
}

// Whatever a plugin returns has no secret, not even a part of one at the end of a text that is cut.
func TestNoSecretIsReturned(t *testing.T) {
	const secret = "tok-5up3r5ecret-abcdefgh"
	for name, said := range map[string]string{
		"in a text": "401 for " + secret, "in base64": base64.StdEncoding.EncodeToString([]byte("the key is " + secret)),
		"cut in names": strings.Repeat(" ", maxName-12) + secret, "cut in messages": strings.Repeat(" ", maxMessage-12) + secret,
		"cut in evidence": strings.Repeat(" ", maxEvidence-12) + secret,
	} {
		t.Run(name, func(t *testing.T) {
			conn := serve(t, func(g *grpc.Server) {
				pb.RegisterPluginServiceServer(g, leaky{said: said})
				pb.RegisterVerifierServiceServer(g, leaky{said: said})
			})
			c := NewClient(conn)
			c.Redact(redact.New(secret))
			ctx := t.Context()
			_, info := c.Info(ctx, "")
			_, connect := c.ServeModels(ctx, nil, ModelLimits{})
			_, configure := c.Configure(ctx, &ConfigureRequest{})
			diagnostics, err := c.Configure(ctx, &ConfigureRequest{Instance: "i"})
			if err != nil {
				t.Fatal(err)
			}
			_, verify := c.Verify(ctx, &sdk.VerifyRequest{Answer: &sdk.Answer{}})
			verdict, err := c.Verify(ctx, &sdk.VerifyRequest{Query: &sdk.Query{ID: "q"}, Answer: &sdk.Answer{}})
			if err != nil {
				t.Fatal(err)
			}
			if status.Code(configure) != codes.Unauthenticated {
				t.Errorf("another status: %v", configure)
			}
			for where, err := range map[string]error{"GetInfo": info, "Connect": connect, "Configure": configure, "Verify": verify} {
				if err == nil || len(err.Error()) > maxMessage+100 {
					t.Errorf("%s: %.100v", where, err)
				}
			}
			all := fmt.Sprintf("%v %v %v %v %q %+v", info, connect, configure, verify, diagnostics, *verdict)
			if strings.Contains(all, said) || strings.Contains(all, secret[:10]) || !strings.Contains(all, redact.Mark) {
				t.Errorf("got %.3000s", all)
			}
		})
	}
}

// TestAttackEndlessEvents: a verification that never ends is limited by the call's timeout.
func TestAttackEndlessEvents(t *testing.T) {
	conn := serve(t, func(g *grpc.Server) { pb.RegisterVerifierServiceServer(g, endless{}) })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := NewClient(conn).Verify(ctx, &sdk.VerifyRequest{Query: &sdk.Query{}, Answer: &sdk.Answer{}}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}

func TestMalformedResults(t *testing.T) {
	mean := func(x float64) *pb.Estimate { return &pb.Estimate{Mean: &x} }
	deviation := mean(0.5)
	deviation.StdDev = math.NaN()
	for name, estimates := range map[string][]*pb.Estimate{
		"too few": {}, "too many": {mean(0), mean(0)}, "above one": {mean(1.1)}, "negative": {mean(-0.1)}, "NaN": {mean(math.NaN())}, "deviation": {deviation},
	} {
		if _, err := estimatesFromWire(estimates, 1, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	broken := estimateToWire(sdk.Estimate{Mean: math.NaN()})
	if _, err := estimatesFromWire([]*pb.Estimate{broken}, 1, 1); err == nil || !strings.Contains(err.Error(), "the plugin returned the mean NaN") {
		t.Errorf("a mean that an estimator in Go computed as NaN: %v", err)
	}
	got, err := estimatesFromWire([]*pb.Estimate{estimateToWire(sdk.Abstain())}, 1, 1)
	if err != nil || !got[0].Abstains() {
		t.Errorf("an abstention: %v, %v", got, err)
	}
	got, err = estimatesFromWire([]*pb.Estimate{{}}, 1, 1)
	if err != nil || !got[0].Abstains() {
		t.Errorf("an absent mean: %v, %v", got, err)
	}
	for name, v := range map[string]*pb.Verdict{
		"no outcome": {}, "unknown": {Outcome: 77}, "score": {Outcome: 1, Score: 2}, "confidence": {Outcome: 1, Confidence: math.NaN()}, "cost": {Outcome: 1, CostUsd: -1},
	} {
		if checkVerdict(v) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The limit of a plugin's text counts the text after escaping.
func TestShowableIsCut(t *testing.T) {
	const limit = 100
	for text, want := range map[string]string{
		"short":                            "short",
		strings.Repeat("x", limit):         strings.Repeat("x", limit),
		strings.Repeat("x", limit+1):       strings.Repeat("x", limit) + "...",
		"x" + strings.Repeat("é", limit/2): "x" + strings.Repeat("é", limit/2-1) + "...",
		strings.Repeat("\x1b", limit/6):    strings.Repeat(`\u001b`, limit/6),
		strings.Repeat("\x1b", limit/2):    strings.Repeat(`\u001b`, limit/2)[:limit] + "...",
	} {
		if got := cleanText(text, limit, nil); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// A question longer than all before is expected to cost more in proportion, and a model that has not answered as much as
// the most expensive one.
func TestExpectedCostOfAModelCall(t *testing.T) {
	var costs callCosts
	costs.observe(&sentCall{model: "m", size: 100}, 0.02)
	costs.observe(&sentCall{model: "m", size: 50}, 0.01)
	costs.observe(&sentCall{model: "free"}, 0)
	for _, c := range []struct {
		model string
		size  int
		want  float64
	}{{"m", 10, 0.02}, {"m", 300, 0.06}, {"free", 1000, 0}, {"new", 1, 0.02}, {"new", 300, 0.06}} {
		if got := costs.expect(map[*sentCall]struct{}{{model: c.model, size: c.size, began: time.Now()}: {}}); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// A model that hangs keeps others waiting for a moment only, and none once its call has been broken off.
func TestAHangingModelBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		models := ModelCallerFunc(func(ctx context.Context, model string, _ *sdk.Query) (*sdk.Answer, error) {
			if model == "hangs" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &sdk.Answer{}, nil
		})
		s := &modelServer{models: models, limits: ModelLimits{CostUSD: 1000}, stream: discardStream{}}
		for round, most := range []time.Duration{longestTurn, 0} {
			ctx, cancel := context.WithCancel(t.Context())
			_, call := (&Client{}).beginCall(ctx)
			ask := func(model string) {
				if err := call.count(s.limits); err != nil {
					t.Error(err)
				}
				s.answer(ctx, call, 1, &pb.ModelCall{Model: model})
			}
			began := time.Now()
			var hanging, others sync.WaitGroup
			hanging.Go(func() { ask("hangs") })
			synctest.Wait()
			for _, model := range []string{"a", "b", "a"} {
				others.Go(func() { ask(model) })
			}
			others.Wait()
			if waited := time.Since(began); waited > most {
				t.Errorf("round %d: the others waited for %v, want %v at most", round, waited, most)
			}
			cancel()
			hanging.Wait()
			if round == 0 {
				s.costs.byModel = nil // as if the others had not answered either
			}
		}
	})
}

// discardStream takes replies.
type discardStream struct {
	grpc.BidiStreamingClient[pb.ConnectRequest, pb.ConnectResponse]
}

func (discardStream) Send(*pb.ConnectRequest) error { return nil }
