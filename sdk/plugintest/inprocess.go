package plugintest

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Verifier serves p until the test ends and returns it as a verifier. It fails the test if the plugin
// rejects the config. models serves the model calls of a plugin that makes any.
func Verifier(t testing.TB, p plugin.Plugin, config map[string]any, models ...wire.ModelCaller) sdk.Verifier {
	t.Helper()
	return sdk.VerifierFunc(serveConfigured(t, p, wire.Verifier, config, models...).Verify)
}

// QualityEstimator serves p until the test ends and returns it as a quality estimator.
func QualityEstimator(t testing.TB, p plugin.Plugin, config map[string]any) sdk.QualityEstimator {
	t.Helper()
	return sdk.QualityEstimatorFunc(serveConfigured(t, p, wire.QualityEstimator, config).EstimateQuality)
}

// CostEstimator serves p until the test ends and returns it as a cost estimator.
func CostEstimator(t testing.TB, p plugin.Plugin, config map[string]any) sdk.CostEstimator {
	t.Helper()
	return sdk.CostEstimatorFunc(serveConfigured(t, p, wire.CostEstimator, config).EstimateCost)
}

// Configure serves p, configures it and returns its diagnostics, for tests of invalid configs.
func Configure(t testing.TB, p plugin.Plugin, role wire.Role, config map[string]any) schema.Diagnostics {
	t.Helper()
	_, ds := serve(t, p, role, config)
	return ds
}

func serveConfigured(t testing.TB, p plugin.Plugin, role wire.Role, config map[string]any, models ...wire.ModelCaller) *wire.Client {
	t.Helper()
	client, ds := serve(t, p, role, config, models...)
	if ds.HasErrors() {
		t.Fatalf("the plugin rejects its config: %v", ds)
	}
	return client
}

func serve(t testing.TB, p plugin.Plugin, role wire.Role, config map[string]any, models ...wire.ModelCaller) (*wire.Client, schema.Diagnostics) {
	t.Helper()
	server, closeAll, err := plugin.NewServer(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	const buffer = 1 << 20
	listener := bufconn.Listen(buffer)
	g := grpc.NewServer(server.ServerOptions()...)
	server.Register(g)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(listener) // ends with Stop
	}()
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
	conn, err := grpc.NewClient("passthrough:///plugin", append(wire.DialOptions(), dial, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	client := wire.NewClient(conn)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		conn.Close()
		g.Stop()
		<-served
		if err := closeAll(); err != nil {
			t.Errorf("closing the plugin: %v", err)
		}
	})
	for _, caller := range models {
		if _, err := client.ServeModels(ctx, caller, wire.ModelLimits{}); err != nil {
			t.Fatal(err)
		}
	}
	normal, err := schema.Normalize(config)
	if err != nil {
		t.Fatal(err)
	}
	ds, err := client.Configure(ctx, &wire.ConfigureRequest{Instance: "test", Role: role, Config: normal, ScratchDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return client, ds
}
