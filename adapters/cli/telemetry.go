package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/stepfall/stepfall/adapters/otel"
	"github.com/stepfall/stepfall/adapters/router"
)

// gaugesOf are what a process with a router and perhaps a store is watched by.
func gaugesOf(shared *router.Shared, r *router.Router) otel.Gauges {
	g := otel.Gauges{}
	if shared != nil {
		g.Store, g.Traces = shared.Store, shared.Traces
	}
	if r != nil {
		g.OpenCircuits = r.OpenCircuits
	}
	return g
}

// serveMetrics serves /metrics at an address, which may be empty for nowhere.
func serveMetrics(addr string, s Streams, t *otel.Telemetry, g otel.Gauges) (ended func(), err error) {
	if err := t.Watch(g); err != nil || addr == "" {
		return func() {}, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serving metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Metrics())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // it ends with the process
	fmt.Fprintf(s.Out, "metrics at http://%s/metrics\n", listener.Addr())
	return func() { server.Close() }, nil
}

// endTelemetry writes what waits to be exported, for a moment.
func endTelemetry(ctx context.Context, t *otel.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return t.Close(ctx)
}
