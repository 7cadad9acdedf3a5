package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
)

// ModelCaller calls a model on behalf of a plugin, and returns when ctx ends. The answer's CostUSD is
// the cost of the call; [sdk.SpentUSD] returns the cost of a failed one. It must be safe for concurrent
// use.
type ModelCaller interface {
	CallModel(ctx context.Context, model string, query *sdk.Query) (*sdk.Answer, error)
}

// ModelCallerFunc is an adapter that makes a function a ModelCaller.
type ModelCallerFunc func(ctx context.Context, model string, query *sdk.Query) (*sdk.Answer, error)

// CallModel calls f.
func (f ModelCallerFunc) CallModel(ctx context.Context, model string, query *sdk.Query) (*sdk.Answer, error) {
	return f(ctx, model, query)
}

// ErrNoModelCalls means that this host does not call models for plugins.
var ErrNoModelCalls = errors.New("the host does not call models for plugins")

// ErrModelLimit means that the plugin has made all the model calls that the policy allows during one
// host call. Retrying within that call is useless.
var ErrModelLimit = errors.New("no further model calls are allowed")

// ModelLimits limit the model calls of a plugin during one host call. [sdk.WithModelBudget] can lower
// CostUSD. Zero means no limit.
type ModelLimits struct {
	// Calls is the largest number of calls.
	Calls int
	// CostUSD is the total cost from which no further call begins.
	CostUSD float64
	// Timeout limits each single call.
	Timeout time.Duration
}

// openCall is a host call into the plugin that is in flight. The plugin's model calls run in its
// context, so that deadlines hold and costs are charged to the right step.
type openCall struct {
	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex
	made    int
	costUSD float64
	running sync.WaitGroup // model calls
}

// admit counts a model call, or returns an error if a limit is reached.
func (o *openCall) admit(limits ModelLimits) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	budget, own := limits.CostUSD, sdk.ModelBudgetOf(o.ctx)
	isNarrower := own != nil && (budget == 0 || own.USD < budget)
	if isNarrower {
		budget = own.USD
	}
	if most := limits.Calls; most > 0 && o.made >= most {
		return fmt.Errorf("%w: %d were made, as many as the policy allows", ErrModelLimit, o.made)
	}
	if most := budget; most > 0 && o.costUSD >= most {
		if isNarrower {
			own.Spent.Store(true)
		}
		return fmt.Errorf("%w: %.6g USD were spent, and the policy allows %.6g", ErrModelLimit, o.costUSD, most)
	}
	if err := o.ctx.Err(); err != nil {
		return err
	}
	o.made++
	o.running.Add(1)
	return nil
}

func (o *openCall) book(answer *sdk.Answer, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.costUSD += sdk.SpentUSD(err); answer != nil {
		o.costUSD += answer.CostUSD
	}
	o.running.Done()
}

// end cancels the model calls in flight, waits for them, and returns the total cost.
func (o *openCall) end() float64 {
	o.mu.Lock()
	o.cancel()
	o.mu.Unlock()
	o.running.Wait()
	return o.costUSD
}

// ServeModels answers the plugin's model calls, within limits, until the connection ends. It returns
// when the plugin has confirmed the stream or ctx ends. The returned channel is closed when the
// stream has ended and every model call has returned.
func (c *Client) ServeModels(ctx context.Context, models ModelCaller, limits ModelLimits) (<-chan struct{}, error) {
	opening := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(opening, cancel)
	stream, err := c.openModels(ctx)
	if !stop() {
		err = fmt.Errorf("Connect has sent no initial metadata: a plugin must send it as soon as the stream is open (in Node by sendMetadata): %w", opening.Err())
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := &modelServer{calls: &c.calls, models: models, limits: limits, stream: stream, cancels: map[uint64]context.CancelFunc{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.wg.Wait()
		defer cancel()
		for {
			question, err := stream.Recv()
			if err != nil {
				return
			}
			s.handle(ctx, question)
		}
	}()
	return done, nil
}

// openModels opens the stream and waits for the plugin's initial metadata, which signals that it is ready.
func (c *Client) openModels(ctx context.Context) (grpc.BidiStreamingClient[pb.ConnectRequest, pb.ConnectResponse], error) {
	stream, err := c.plugin.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if header, err := stream.Header(); header == nil || err != nil { // the stream has ended
		_, err := stream.Recv()
		return nil, fmt.Errorf("Connect must stay open where there is the feature %s: %w", FeatureModelCalls, err)
	}
	return stream, nil
}

type modelServer struct {
	calls  *sync.Map // those of the Client
	models ModelCaller
	limits ModelLimits
	wg     sync.WaitGroup

	mu      sync.Mutex // guards stream.Send and cancels
	stream  grpc.BidiStreamingClient[pb.ConnectRequest, pb.ConnectResponse]
	cancels map[uint64]context.CancelFunc
}

func (s *modelServer) handle(ctx context.Context, q *pb.ConnectResponse) {
	if q.GetCancel() {
		s.cancel(q.GetId())
		return
	}
	s.mu.Lock()
	_, isUsed := s.cancels[q.GetId()]
	if isUsed {
		_ = s.stream.Send(&pb.ConnectRequest{Id: q.GetId(), Error: "another call with this id is still in flight"})
	}
	s.mu.Unlock()
	if isUsed {
		return
	}
	known, _ := s.calls.Load(q.GetCallId())
	call, ok := known.(*openCall)
	if !ok || q.GetModelCall() == nil {
		s.reply(&pb.ConnectRequest{Id: q.GetId(), Error: "a model may be called during a call of the host only, and with its context"})
		return
	}
	if err := call.admit(s.limits); err != nil {
		s.reply(&pb.ConnectRequest{Id: q.GetId(), Error: err.Error(), LimitReached: true})
		return
	}
	callCtx, cancel := context.WithCancel(call.ctx)
	if s.limits.Timeout > 0 {
		callCtx, cancel = context.WithTimeout(call.ctx, s.limits.Timeout)
	}
	stop := context.AfterFunc(ctx, cancel)
	s.mu.Lock()
	s.cancels[q.GetId()] = cancel
	s.mu.Unlock()
	s.wg.Go(func() {
		defer stop()
		defer cancel()
		reply := &pb.ConnectRequest{Id: q.GetId()}
		answer, err := s.models.CallModel(callCtx, q.GetModelCall().GetModel(), fromWire[sdk.Query](q.GetModelCall().GetQuery(), keepText))
		switch {
		case err != nil:
			reply.Error = validUTF8(err.Error())
		case answer == nil:
			reply.Error = "the host returned no answer"
		default:
			reply.Answer = toWire[pb.Answer](answer)
		}
		call.book(answer, err)
		s.reply(reply)
	})
}

func (s *modelServer) cancel(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancels[id]; cancel != nil {
		cancel()
	}
}

func (s *modelServer) reply(r *pb.ConnectRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cancels, r.GetId())
	_ = s.stream.Send(r) // a broken stream is noticed by Recv
}

type modelClient struct {
	nextID atomic.Uint64

	mu      sync.Mutex // guards stream.Send too
	stream  grpc.BidiStreamingServer[pb.ConnectRequest, pb.ConnectResponse]
	pending map[uint64]chan *pb.ConnectRequest
}

func (a *modelClient) serve(stream grpc.BidiStreamingServer[pb.ConnectRequest, pb.ConnectResponse]) error {
	a.mu.Lock()
	a.stream, a.pending = stream, map[uint64]chan *pb.ConnectRequest{}
	err := stream.SendHeader(nil)
	a.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, ch := range a.pending {
			close(ch)
		}
		a.stream, a.pending = nil, nil
	}()
	for {
		reply, err := stream.Recv()
		if err != nil {
			return nil // the host has closed the connection
		}
		a.mu.Lock()
		if ch := a.pending[reply.GetId()]; ch != nil {
			delete(a.pending, reply.GetId())
			ch <- reply
		}
		a.mu.Unlock()
	}
}

// CallModel implements [ModelCaller] over the stream.
func (a *modelClient) CallModel(ctx context.Context, model string, query *sdk.Query) (*sdk.Answer, error) {
	id := a.nextID.Add(1)
	call, _ := ctx.Value(callIDKey{}).(string)
	ch := make(chan *pb.ConnectRequest, 1)
	if err := a.send(&pb.ConnectResponse{
		Id: id, CallId: call, ModelCall: &pb.ModelCall{Model: validUTF8(model), Query: toWire[pb.Query](query)},
	}, ch); err != nil {
		return nil, err
	}
	select {
	case reply, ok := <-ch:
		if !ok {
			return nil, errors.New("the host closed the connection")
		}
		if reply.GetLimitReached() {
			return nil, fmt.Errorf("%w%s", ErrModelLimit, strings.TrimPrefix(reply.GetError(), ErrModelLimit.Error()))
		}
		if reply.GetError() != "" {
			return nil, errors.New(reply.GetError())
		}
		return fromWire[sdk.Answer](reply.GetAnswer(), keepText), nil
	case <-ctx.Done():
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.pending, id)
		if a.stream != nil {
			_ = a.stream.Send(&pb.ConnectResponse{Id: id, Cancel: true})
		}
		return nil, ctx.Err()
	}
}

func (a *modelClient) send(q *pb.ConnectResponse, reply chan *pb.ConnectRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stream == nil {
		return ErrNoModelCalls
	}
	a.pending[q.GetId()] = reply
	if err := a.stream.Send(q); err != nil {
		delete(a.pending, q.GetId())
		return err
	}
	return nil
}
