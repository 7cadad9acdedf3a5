package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/redact"
)

// Client is the host's end of a connection to one plugin process. Its errors are gRPC status errors
// or a *[MalformedError]. Texts of the plugin in results and errors are escaped and cut, and without the secrets given to
// Redact. It is safe for concurrent use.
type Client struct {
	plugin  pb.PluginServiceClient
	quality pb.QualityEstimatorServiceClient
	cost    pb.CostEstimatorServiceClient
	verify  pb.VerifierServiceClient
	health  grpc_health_v1.HealthClient
	calls   sync.Map // id -> *openCall
	nextID  atomic.Uint64
	secrets atomic.Pointer[redact.Redactor]
}

// NewClient returns a client over a connection.
func NewClient(conn grpc.ClientConnInterface) *Client {
	c := &Client{}
	conn = cleanConn{conn, c}
	c.plugin = pb.NewPluginServiceClient(conn)
	c.quality = pb.NewQualityEstimatorServiceClient(conn)
	c.cost = pb.NewCostEstimatorServiceClient(conn)
	c.verify = pb.NewVerifierServiceClient(conn)
	c.health = grpc_health_v1.NewHealthClient(conn)
	return c
}

// Redact sets the secrets that are removed from what the plugin returns from now on.
func (c *Client) Redact(secrets *redact.Redactor) { c.secrets.Store(secrets) }

// cleanConn cleans the messages of the statuses that a plugin returns.
type cleanConn struct {
	grpc.ClientConnInterface
	client *Client
}

// Invoke makes a call.
func (c cleanConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.client.cleanError(c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...))
}

// NewStream opens a stream.
func (c cleanConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, c.client.cleanError(err)
	}
	return cleanStream{stream, c.client}, nil
}

type cleanStream struct {
	grpc.ClientStream
	client *Client
}

// RecvMsg receives a message.
func (s cleanStream) RecvMsg(message any) error {
	return s.client.cleanError(s.ClientStream.RecvMsg(message))
}

func (c *Client) cleanError(err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	return status.Error(st.Code(), c.clean(st.Message(), maxMessage))
}

func (c *Client) clean(text string, limit int) string {
	return cleanText(text, limit, c.secrets.Load())
}

// Healthy returns an error unless the plugin's health service reports SERVING.
func (c *Client) Healthy(ctx context.Context) error {
	reply, err := c.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	if err != nil {
		return err
	}
	if s := reply.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the plugin reports %v", s)
	}
	return nil
}

// Info returns the plugin's description.
func (c *Client) Info(ctx context.Context, hostVersion string) (*Info, error) {
	reply, err := c.plugin.GetInfo(ctx, &pb.GetInfoRequest{HostVersion: hostVersion, HostFeatures: []string{FeatureModelCalls}})
	if err != nil {
		return nil, err
	}
	return infoFromWire(reply)
}

// ConfigureRequest configures a plugin process.
type ConfigureRequest struct {
	// Instance is the name of the instance in the policy.
	Instance string
	Role     Role
	// Config has JSON's types (see [schema.Normalize]).
	Config map[string]any
	// ScratchDir is a directory that the plugin can write to.
	ScratchDir string
}

// Configure configures the plugin. If the diagnostics have errors, the plugin is not configured.
func (c *Client) Configure(ctx context.Context, req *ConfigureRequest) (schema.Diagnostics, error) {
	config, err := structpb.NewStruct(req.Config)
	if err != nil {
		return nil, fmt.Errorf("config cannot be sent: %w", err)
	}
	reply, err := c.plugin.Configure(ctx, &pb.ConfigureRequest{
		Instance: validUTF8(req.Instance), Role: rolesOnWire[req.Role], Config: config, ScratchDir: req.ScratchDir,
	})
	if err != nil {
		return nil, err
	}
	return diagnosticsFromWire(reply.GetDiagnostics(), c.clean), nil
}

// beginCall registers a call, so that the plugin's model calls run in its context.
func (c *Client) beginCall(ctx context.Context) (string, *openCall) {
	ctx, cancel := context.WithCancel(ctx)
	id, call := strconv.FormatUint(c.nextID.Add(1), 36), &openCall{ctx: ctx, cancel: cancel, inFlight: map[*sentCall]struct{}{}}
	c.calls.Store(id, call)
	return id, call
}

func (o *openCall) withCost(err error) error {
	if usd := o.end(); usd > 0 {
		return &sdk.SpentError{Err: err, CostUSD: usd}
	}
	return err
}

// EstimateQuality returns the plugin's quality estimates of the request's models.
func (c *Client) EstimateQuality(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	id, call := c.beginCall(ctx)
	defer c.calls.Delete(id)
	message := toWire[pb.EstimateQualityRequest](req)
	message.CallId = id
	reply, err := c.quality.EstimateQuality(ctx, message)
	if err != nil {
		return nil, call.withCost(err)
	}
	estimates, err := estimatesFromWire(reply.GetEstimates(), len(req.Models), 1)
	if err != nil {
		return nil, call.withCost(err)
	}
	return &sdk.QualityResponse{Estimates: estimates, CostUSD: call.end()}, nil
}

// EstimateCost returns the plugin's cost estimates of the request's models.
func (c *Client) EstimateCost(ctx context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
	id, call := c.beginCall(ctx)
	defer c.calls.Delete(id)
	defer call.end()
	message := toWire[pb.EstimateCostRequest](req)
	message.CallId = id
	reply, err := c.cost.EstimateCost(ctx, message)
	if err != nil {
		return nil, err
	}
	estimates, err := estimatesFromWire(reply.GetEstimates(), len(req.Models), maxUSD)
	if err != nil {
		return nil, err
	}
	return &sdk.CostResponse{Estimates: estimates}, nil
}

// Verify returns the plugin's verdict. Its cost includes the model calls that the host made for the
// plugin.
func (c *Client) Verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	id, call := c.beginCall(ctx)
	defer c.calls.Delete(id)
	begun := time.Now()
	out, err := c.readVerdict(call.ctx, id, req)
	if err != nil {
		return nil, call.withCost(err)
	}
	if took := time.Since(begun); out.Duration <= 0 || out.Duration > took {
		out.Duration = took
	}
	out.CostUSD += call.end()
	return out, nil
}

// readVerdict reads the stream of a verification up to its verdict. Progress events are ignored.
func (c *Client) readVerdict(ctx context.Context, id string, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	message := toWire[pb.VerifyRequest](req)
	message.CallId = id
	stream, err := c.verify.Verify(ctx, message)
	if err != nil {
		return nil, err
	}
	var verdict *pb.Verdict
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && verdict != nil {
			err = fmt.Errorf("the stream must end after the verdict: %w", err)
		}
		if err != nil {
			return nil, err
		}
		if verdict != nil {
			return nil, malformedf("an event after the verdict")
		}
		verdict = reply.GetVerdict()
	}
	if verdict == nil {
		return nil, malformedf("no verdict")
	}
	if err := checkVerdict(verdict); err != nil {
		return nil, err
	}
	return verdictFromWire(verdict, c.clean), nil
}
