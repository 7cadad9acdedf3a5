package wire

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
)

type callIDKey struct{}

func withCallID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, callIDKey{}, id)
}

func callID(ctx context.Context) string {
	id, _ := ctx.Value(callIDKey{}).(string)
	return id
}

type reporterKey struct{}

func withReporter(ctx context.Context, r *reporter) context.Context {
	return context.WithValue(ctx, reporterKey{}, r)
}

// reporter sends events until the verdict is sent: a goroutine that outlives its
// verification must not write to a finished stream.
type reporter struct {
	mu     sync.Mutex
	stream grpc.ServerStreamingServer[pb.VerifyResponse]
}

func (r *reporter) send(e *pb.VerifyResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stream != nil {
		_ = r.stream.Send(e) // a host that has gone is noticed through ctx
	}
}

func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream = nil
}

// Report sends an event of the verification that ctx belongs to. Elsewhere it
// does nothing.
func Report(ctx context.Context, e Event) {
	r, ok := ctx.Value(reporterKey{}).(*reporter)
	if !ok {
		return
	}
	if e.Log != "" {
		r.send(&pb.VerifyResponse{Event: &pb.VerifyResponse_Log{Log: &pb.LogLine{Text: utf8(e.Log)}}})
		return
	}
	r.send(&pb.VerifyResponse{Event: &pb.VerifyResponse_Progress{Progress: &pb.Progress{
		Done: uint32(max(e.Done, 0)), Total: uint32(max(e.Total, 0)), Message: utf8(e.Message),
	}}})
}
