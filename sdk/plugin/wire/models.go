package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

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
	// CostUSD is the total cost from which no further call begins. Calls wait while those in flight might reach
	// it, judged by what earlier calls have cost, and while nothing is known of that, up to two seconds for each.
	CostUSD float64
	// Timeout limits each single call.
	Timeout time.Duration
}

// openCall is a host call into the plugin that is in flight. The plugin's model calls run in its
// context, so that deadlines hold and costs are charged to the right step.
type openCall struct {
	ctx      context.Context
	cancel   context.CancelFunc
	mu       sync.Mutex
	made     int
	costUSD  float64
	inFlight map[*sentCall]struct{}
	booked   chan struct{}  // closed when a call has ended; nil if none waits for that
	running  sync.WaitGroup // model calls, those that wait included
}

// count counts a model call, or returns an error if there may be no more. If it does not, book or cancelCount must follow.
func (o *openCall) count(limits ModelLimits) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if most := limits.Calls; most > 0 && o.made >= most {
		return fmt.Errorf("%w: %d were made, as many as the policy allows", ErrModelLimit, o.made)
	}
	if err := o.ctx.Err(); err != nil {
		return err
	}
	o.made++
	o.running.Add(1)
	return nil
}

func (o *openCall) cancelCount() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made--
	o.running.Done()
}

// sentCall is a model call in flight.
type sentCall struct {
	model string
	size  int // of its question
	began time.Time
}

// longestTurn is how long calls of unknown cost wait for one another.
const longestTurn = 2 * time.Second

// reserve adds c to the calls in flight until book, or returns an error if the limit in US dollars is reached. It waits
// while those calls might reach the limit by what costs expects of them, so that only the last call can exceed it.
func (o *openCall) reserve(ctx context.Context, limit float64, c *sentCall, costs *callCosts) error {
	budget, own := limit, sdk.ModelBudgetOf(o.ctx)
	isNarrower := own != nil && (limit == 0 || own.USD < limit)
	if isNarrower {
		budget = own.USD
	}
	for {
		o.mu.Lock()
		switch {
		case budget > 0 && o.costUSD >= budget:
			defer o.mu.Unlock()
			if isNarrower {
				own.Spent.Store(true)
			}
			return fmt.Errorf("%w: %.6g USD were spent, and the policy allows %.6g", ErrModelLimit, o.costUSD, budget)
		case budget == 0 || o.costUSD+costs.expect(o.inFlight) < budget:
			defer o.mu.Unlock()
			c.began = time.Now()
			o.inFlight[c] = struct{}{}
			return nil
		case o.booked == nil:
			o.booked = make(chan struct{})
		}
		booked := o.booked
		o.mu.Unlock()
		select {
		case <-booked:
		case <-time.After(longestTurn): // what is expected may have changed meanwhile
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// book removes c from the calls in flight and adds its cost.
func (o *openCall) book(c *sentCall, costUSD float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.costUSD += costUSD
	delete(o.inFlight, c)
	if o.booked != nil {
		close(o.booked)
		o.booked = nil
	}
	o.running.Done()
}

// callCosts has the highest cost and the longest question of each model's calls.
type callCosts struct {
	mu      sync.Mutex
	byModel map[string]callCost
	hung    atomic.Bool // a call was broken off at no known cost
}

type callCost struct {
	usd  float64
	size int
}

// of returns what a call with a question of this size may cost: the model's highest cost so far, in proportion for a
// question longer than all before.
func (known callCost) of(size int) float64 {
	return known.usd * max(1, float64(size)/float64(max(1, known.size)))
}

// expect returns what the calls may cost in total. One of a model that has not answered yet may cost as much as one of
// the most expensive model so far. While no model has answered it may cost anything, but only for [longestTurn], and
// not once a call has hung: one model that hangs must not keep others from being asked.
func (c *callCosts) expect(calls map[*sentCall]struct{}) (usd float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call := range calls {
		known, ok := c.byModel[call.model]
		expected := known.of(call.size)
		if !ok {
			for _, other := range c.byModel {
				expected = max(expected, other.of(call.size))
			}
		}
		if len(c.byModel) == 0 && !c.hung.Load() && time.Since(call.began) < longestTurn {
			expected = math.Inf(1)
		}
		usd += expected
	}
	return usd
}

func (c *callCosts) observe(call *sentCall, usd float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byModel == nil {
		c.byModel = map[string]callCost{}
	}
	known := c.byModel[call.model]
	c.byModel[call.model] = callCost{max(known.usd, usd), max(known.size, call.size)}
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
	costs  callCosts
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
	if err := call.count(s.limits); err != nil {
		s.refuse(q.GetId(), err)
		return
	}
	callCtx, cancel := context.WithCancel(call.ctx)
	stop := context.AfterFunc(ctx, cancel)
	s.mu.Lock()
	s.cancels[q.GetId()] = cancel
	s.mu.Unlock()
	s.wg.Go(func() {
		defer stop()
		defer cancel()
		s.answer(callCtx, call, q.GetId(), q.GetModelCall())
	})
}

// answer asks the model as soon as the limits allow it, and sends the reply.
func (s *modelServer) answer(ctx context.Context, call *openCall, id uint64, q *pb.ModelCall) {
	sent := &sentCall{model: q.GetModel(), size: proto.Size(q.GetQuery())}
	if err := call.reserve(ctx, s.limits.CostUSD, sent, &s.costs); err != nil {
		call.cancelCount()
		s.refuse(id, err)
		return
	}
	if s.limits.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limits.Timeout)
		defer cancel()
	}
	answer, err := s.models.CallModel(ctx, sent.model, fromWire[sdk.Query](q.GetQuery(), keepText))
	reply, usd := &pb.ConnectRequest{Id: id}, sdk.SpentUSD(err)
	switch {
	case err != nil:
		reply.Error = validUTF8(err.Error())
	case answer == nil:
		reply.Error = "the host returned no answer"
	default:
		reply.Answer = toWire[pb.Answer](answer)
	}
	if answer != nil {
		usd += answer.CostUSD
	}
	if err == nil || usd > 0 {
		s.costs.observe(sent, usd)
	} else if ctx.Err() != nil {
		s.costs.hung.Store(true)
	}
	call.book(sent, usd)
	s.reply(reply)
}

// refuse replies that no model was called.
func (s *modelServer) refuse(id uint64, err error) {
	s.reply(&pb.ConnectRequest{Id: id, Error: validUTF8(err.Error()), LimitReached: errors.Is(err, ErrModelLimit)})
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
