package wire

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Instance is a configured plugin: the one of its fields that belongs to its role.
type Instance struct {
	Quality  sdk.QualityEstimator
	Cost     sdk.CostEstimator
	Verifier sdk.Verifier
}

// Server is what a plugin process serves.
type Server struct {
	Info *Info
	// Configure makes the instance. It is called until it succeeds once. models
	// calls models through the host.
	Configure func(ctx context.Context, req *ConfigureRequest, models ModelCaller) (*Instance, schema.Diagnostics)
	// Context, when not nil, adds to the context of every call of a role.
	Context func(context.Context) context.Context
	// Reconfigurable allows Configure to succeed more than once, for debugging.
	Reconfigurable bool
	// Log gets panics; nil discards them.
	Log *slog.Logger
}

// Register adds the plugin's services to a gRPC server.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	server := &server{Server: s}
	pb.RegisterPluginServiceServer(g, server)
	if _, ok := s.Info.Schema(QualityEstimator); ok {
		pb.RegisterQualityEstimatorServiceServer(g, server)
	}
	if _, ok := s.Info.Schema(CostEstimator); ok {
		pb.RegisterCostEstimatorServiceServer(g, server)
	}
	if _, ok := s.Info.Schema(Verifier); ok {
		pb.RegisterVerifierServiceServer(g, server)
	}
}

// ServerOptions returns the size limits, and interceptors that turn a panic into
// the status INTERNAL.
func (s *Server) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
			defer s.recovered(info.FullMethod, &err)
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer s.recovered(info.FullMethod, &err)
			return handler(srv, stream)
		}),
	}
}

func (s *Server) recovered(method string, err *error) {
	v := recover()
	if v == nil {
		return
	}
	if s.Log != nil {
		s.Log.Error("panic", "method", method, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	}
	*err = status.Errorf(codes.Internal, "panic: %v", v)
}

type server struct {
	pb.UnimplementedPluginServiceServer
	pb.UnimplementedQualityEstimatorServiceServer
	pb.UnimplementedCostEstimatorServiceServer
	pb.UnimplementedVerifierServiceServer
	*Server

	models asker

	configuring sync.Mutex
	mu          sync.RWMutex
	instance    *Instance
}

// GetInfo answers with the plugin's info.
func (s *server) GetInfo(context.Context, *pb.GetInfoRequest) (*pb.GetInfoResponse, error) {
	return infoToWire(s.Info)
}

// Connect keeps the stream for model calls.
func (s *server) Connect(stream grpc.BidiStreamingServer[pb.ConnectRequest, pb.ConnectResponse]) error {
	return s.models.serve(stream)
}

// Configure makes the instance.
func (s *server) Configure(ctx context.Context, req *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	if s.configured() != nil && !s.Reconfigurable {
		return nil, status.Error(codes.FailedPrecondition, "the process is configured already")
	}
	role := roleFromWire(req.GetRole())
	if _, ok := s.Info.Schema(role); !ok {
		return nil, status.Errorf(codes.Unimplemented, "%s has no role %s", s.Info.Name, role)
	}
	instance, ds := s.Server.Configure(ctx, &ConfigureRequest{
		Instance: req.GetInstance(), Role: role, Config: req.GetConfig().AsMap(), ScratchDir: req.GetScratchDir(),
	}, &s.models)
	if !ds.HasErrors() {
		s.mu.Lock()
		s.instance = instance
		s.mu.Unlock()
	}
	return &pb.ConfigureResponse{Diagnostics: diagnosticsToWire(ds)}, nil
}

func (s *server) configured() *Instance {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.instance
}

// callContext is the context of one call of a role.
func (s *server) callContext(ctx context.Context, id string) context.Context {
	if s.Context != nil {
		ctx = s.Context(ctx)
	}
	return withCallID(ctx, id)
}

func notConfigured(role Role) error {
	return status.Errorf(codes.FailedPrecondition, "the plugin is not configured as a %s", role)
}

// EstimateQuality estimates several models.
func (s *server) EstimateQuality(ctx context.Context, req *pb.EstimateQualityRequest) (*pb.EstimateQualityResponse, error) {
	instance := s.configured()
	if instance == nil || instance.Quality == nil {
		return nil, notConfigured(QualityEstimator)
	}
	ctx = s.callContext(ctx, req.GetCallId())
	reply, err := instance.Quality.EstimateQuality(ctx, &sdk.QualityRequest{Query: queryFromWire(req.GetQuery()), Models: req.GetModels(), Attempts: attemptsFromWire(req.GetAttempts())})
	if err != nil {
		return nil, statusOf(ctx, err)
	}
	if reply == nil {
		return nil, errNoResponse
	}
	return &pb.EstimateQualityResponse{Estimates: estimatesToWire(reply.Estimates)}, nil
}

// EstimateCost estimates several models.
func (s *server) EstimateCost(ctx context.Context, req *pb.EstimateCostRequest) (*pb.EstimateCostResponse, error) {
	instance := s.configured()
	if instance == nil || instance.Cost == nil {
		return nil, notConfigured(CostEstimator)
	}
	ctx = s.callContext(ctx, req.GetCallId())
	models := make([]sdk.Model, len(req.GetModels()))
	for i, m := range req.GetModels() {
		models[i] = modelFromWire(m)
	}
	reply, err := instance.Cost.EstimateCost(ctx, &sdk.CostRequest{Query: queryFromWire(req.GetQuery()), Models: models, Attempts: attemptsFromWire(req.GetAttempts())})
	if err != nil {
		return nil, statusOf(ctx, err)
	}
	if reply == nil {
		return nil, errNoResponse
	}
	return &pb.EstimateCostResponse{Estimates: estimatesToWire(reply.Estimates)}, nil
}

var errNoResponse = status.Error(codes.Internal, "the estimator returned neither a response nor an error")

// statusOf gives an error of the plugin a status code.
func statusOf(ctx context.Context, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unknown, utf8(err.Error()))
}

// Verify sends the events of a verification and its verdict.
func (s *server) Verify(req *pb.VerifyRequest, stream grpc.ServerStreamingServer[pb.VerifyResponse]) error {
	instance := s.configured()
	if instance == nil || instance.Verifier == nil {
		return notConfigured(Verifier)
	}
	r := &reporter{stream: stream}
	defer r.close()
	ctx := withReporter(s.callContext(stream.Context(), req.GetCallId()), r)
	answer := answerFromWire(req.GetAnswer())
	start := time.Now()
	verdict, err := instance.Verifier.Verify(ctx, &sdk.VerifyRequest{
		Query: queryFromWire(req.GetQuery()), Answer: &answer, Earlier: attemptsFromWire(req.GetEarlier()),
	})
	if err != nil {
		return statusOf(ctx, err)
	}
	if verdict == nil {
		return status.Error(codes.Internal, "the verifier returned neither a verdict nor an error")
	}
	out := verdictToWire(verdict)
	if verdict.Duration == 0 {
		out.Duration = durationToWire(time.Since(start))
	}
	r.close()
	return stream.Send(&pb.VerifyResponse{Event: &pb.VerifyResponse_Verdict{Verdict: out}})
}
