package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/telemetry"
	"github.com/stepfall/stepfall/adapters/router"
)

// gaugesOf returns the gauges of a process with routers. q and shared can be nil.
func gaugesOf(shared *store.Shared, q *queue.Queue, routers func() []*router.Router) telemetry.Gauges {
	g := telemetry.Gauges{
		OpenCircuits: func() []string {
			var open []string
			for _, r := range routers() {
				open = append(open, r.OpenCircuits()...)
			}
			return open
		},
		PluginRestarts: func() int64 {
			n := 0
			for _, r := range routers() {
				for _, p := range full.PluginStats(r) {
					n += max(0, int(p.Starts)-1)
				}
			}
			return int64(n)
		},
	}
	if shared != nil {
		g.Store, g.Traces = shared.Store, shared.Traces
	}
	if q != nil {
		g.Queue = q.Counts
	}
	return g
}

// serveMetrics serves /metrics at addr, unless that is empty.
func serveMetrics(addr string, s Streams, t *telemetry.Telemetry, g telemetry.Gauges) (ended func(), err error) {
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
	go func() { _ = server.Serve(listener) }() // runs until the process ends
	fmt.Fprintf(s.Out, "metrics at http://%s/metrics\n", listener.Addr())
	return func() { server.Close() }, nil
}

// endTelemetry flushes telemetry, within five seconds.
func endTelemetry(ctx context.Context, t *telemetry.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return t.Close(ctx)
}
