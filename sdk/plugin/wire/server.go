package wire

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Instance is a configured plugin. Only the field of its role is set.
type Instance struct {
	Quality  sdk.QualityEstimator
	Cost     sdk.CostEstimator
	Verifier sdk.Verifier
}

// Server implements the gRPC services of a plugin process.
type Server struct {
	Info *Info
	// Configure makes the instance. It is called again until it succeeds. models calls models through
	// the host.
	Configure func(ctx context.Context, req *ConfigureRequest, models ModelCaller) (*Instance, schema.Diagnostics)
	// Context, if not nil, derives the context of every estimate and verification.
	Context func(context.Context) context.Context
	// Log receives panics; nil discards them.
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

// ServerOptions returns the message size limits, and interceptors that turn a panic into the status
// INTERNAL.
func (s *Server) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessageBytes),
		grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
			defer s.recoverPanic(info.FullMethod, &err)
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer s.recoverPanic(info.FullMethod, &err)
			return handler(srv, stream)
		}),
	}
}

func (s *Server) recoverPanic(method string, err *error) {
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

	models modelClient

	configuring sync.Mutex
	instance    atomic.Pointer[Instance]
}

func (s *server) GetInfo(context.Context, *pb.GetInfoRequest) (*pb.GetInfoResponse, error) {
	return toWire[pb.GetInfoResponse](s.Info), nil
}

// Connect serves the stream for model calls until it ends.
func (s *server) Connect(stream grpc.BidiStreamingServer[pb.ConnectRequest, pb.ConnectResponse]) error {
	return s.models.serve(stream)
}

func (s *server) Configure(ctx context.Context, req *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	if s.instance.Load() != nil {
		return nil, status.Error(codes.FailedPrecondition, "the process is already configured")
	}
	role := roleFromWire(req.GetRole())
	if _, ok := s.Info.Schema(role); !ok {
		return nil, status.Errorf(codes.Unimplemented, "%s has no role %s", s.Info.Name, role)
	}
	instance, ds := s.Server.Configure(ctx, &ConfigureRequest{
		Instance: req.GetInstance(), Role: role, Config: req.GetConfig().AsMap(), ScratchDir: req.GetScratchDir(),
	}, &s.models)
	if !ds.HasErrors() {
		s.instance.Store(instance)
	}
	return &pb.ConfigureResponse{Diagnostics: *toWire[[]*pb.Diagnostic](ds)}, nil
}

// currentInstance returns the instance, or a zero Instance before the plugin is configured.
func (s *server) currentInstance() Instance { return *cmp.Or(s.instance.Load(), &Instance{}) }

func (s *server) callContext(ctx context.Context, id string) context.Context {
	if s.Context != nil {
		ctx = s.Context(ctx)
	}
	return context.WithValue(ctx, callIDKey{}, id)
}

type callIDKey struct{}

func notConfigured(role Role) error {
	return status.Errorf(codes.FailedPrecondition, "the plugin is not configured as a %s", role)
}

func (s *server) EstimateQuality(ctx context.Context, req *pb.EstimateQualityRequest) (*pb.EstimateQualityResponse, error) {
	estimator := s.currentInstance().Quality
	if estimator == nil {
		return nil, notConfigured(QualityEstimator)
	}
	request := fromWire[sdk.QualityRequest](req, keepText)
	request.Query = cmp.Or(request.Query, &sdk.Query{})
	return estimateBy[pb.EstimateQualityResponse](s.callContext(ctx, req.GetCallId()), request, estimator.EstimateQuality)
}

func (s *server) EstimateCost(ctx context.Context, req *pb.EstimateCostRequest) (*pb.EstimateCostResponse, error) {
	estimator := s.currentInstance().Cost
	if estimator == nil {
		return nil, notConfigured(CostEstimator)
	}
	request := fromWire[sdk.CostRequest](req, keepText)
	request.Query = cmp.Or(request.Query, &sdk.Query{})
	return estimateBy[pb.EstimateCostResponse](s.callContext(ctx, req.GetCallId()), request, estimator.EstimateCost)
}

func estimateBy[M, Q, R any](ctx context.Context, request *Q, estimate func(context.Context, *Q) (*R, error)) (*M, error) {
	reply, err := estimate(ctx, request)
	if err != nil {
		return nil, statusOf(ctx, err)
	}
	if reply == nil {
		return nil, status.Error(codes.Internal, "the estimator returned neither a response nor an error")
	}
	return toWire[M](reply), nil
}

func statusOf(ctx context.Context, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unknown, validUTF8(err.Error()))
}

func (s *server) Verify(req *pb.VerifyRequest, stream grpc.ServerStreamingServer[pb.VerifyResponse]) error {
	verifier := s.currentInstance().Verifier
	if verifier == nil {
		return notConfigured(Verifier)
	}
	ctx := s.callContext(stream.Context(), req.GetCallId())
	request := fromWire[sdk.VerifyRequest](req, keepText)
	request.Query, request.Answer = cmp.Or(request.Query, &sdk.Query{}), cmp.Or(request.Answer, &sdk.Answer{})
	start := time.Now()
	verdict, err := verifier.Verify(ctx, request)
	if err != nil {
		return statusOf(ctx, err)
	}
	if verdict == nil {
		return status.Error(codes.Internal, "the verifier returned neither a verdict nor an error")
	}
	if verdict.Outcome < sdk.Inconclusive || verdict.Outcome > sdk.Failed {
		return status.Errorf(codes.Internal, "the verifier returned a verdict with the unknown outcome %d", verdict.Outcome)
	}
	out := toWire[pb.Verdict](verdict)
	if verdict.Duration == 0 {
		out.Duration = durationpb.New(time.Since(start))
	}
	return stream.Send(&pb.VerifyResponse{Event: &pb.VerifyResponse_Verdict{Verdict: out}})
}
