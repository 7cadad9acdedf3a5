// Package telemetry exports the metrics and spans of package otel for stepfall's services, at /metrics
// for Prometheus and by OTLP, together with gauges of the service's store, circuits and queue.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	opentelemetry "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	prometheusexport "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"

	"github.com/stepfall/stepfall/adapters/internal/pool"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/otel"
)

// Telemetry exports a service's metrics to Prometheus, and spans and metrics by OTLP if the environment
// enables that.
type Telemetry struct {
	// Recorder is the sink for the service's traces.
	*otel.Recorder
	metrics    http.Handler
	meter      metric.Meter
	propagator propagation.TextMapPropagator
	ends       []func(context.Context) error
}

// Start begins telemetry for a service. It reads the usual variables of OpenTelemetry:
// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER, OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_PROPAGATORS, OTEL_SDK_DISABLED and those related to them. Without an exporter
// or endpoint, nothing is sent.
func Start(ctx context.Context, service string) (*Telemetry, error) {
	t := &Telemetry{propagator: autoprop.NewTextMapPropagator()}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName(service)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, describe("the resource", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	pull, err := prometheusexport.New(prometheusexport.WithRegisterer(registry), prometheusexport.WithoutScopeInfo())
	if err != nil {
		return nil, describe("the exporter for Prometheus", err)
	}
	metrics := []sdkmetric.Option{sdkmetric.WithReader(pull), sdkmetric.WithResource(about)}
	c := otel.Config{}
	if isEnabled("METRICS") {
		push, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, describe("the exporter of metrics", err)
		}
		metrics = append(metrics, sdkmetric.WithReader(push))
	}
	meters := sdkmetric.NewMeterProvider(metrics...)
	c.MeterProvider, t.ends = meters, append(t.ends, meters.Shutdown)
	if isEnabled("TRACES") {
		spans, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, errors.Join(describe("the exporter of spans", err), t.Close(ctx))
		}
		traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(about))
		c.TracerProvider, t.ends = traces, append(t.ends, traces.Shutdown)
	} else {
		c.TracerProvider = opentelemetry.GetTracerProvider()
	}
	t.meter = meters.Meter("github.com/stepfall/stepfall/adapters/otel")
	t.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	if t.Recorder, err = otel.New(c); err != nil {
		return nil, errors.Join(err, t.Close(ctx))
	}
	return t, nil
}

// isEnabled reports whether the environment enables the export of a signal.
func isEnabled(signal string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	exporter := os.Getenv("OTEL_" + signal + "_EXPORTER")
	return exporter != "" && exporter != "none" ||
		exporter == "" && (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != "")
}

// Metrics returns the handler of /metrics.
func (t *Telemetry) Metrics() http.Handler { return t.metrics }

// Handler returns a handler that reads the caller's span from the request's headers, so that the step
// becomes its child.
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(t.propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
	})
}

// Transport returns a transport that propagates the span to the servers that it calls. A nil next means the
// connection pool that all providers share.
func (t *Telemetry) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = pool.Shared()
	}
	return transport{next, t.propagator}
}

type transport struct {
	next       http.RoundTripper
	propagator propagation.TextMapPropagator
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	own := r.Clone(r.Context())
	t.propagator.Inject(r.Context(), propagation.HeaderCarrier(own.Header))
	return t.next.RoundTrip(own)
}

// Gauges are the values that are read when metrics are collected. Nil ones are left out.
type Gauges struct {
	// Store has the accounts, and can be unavailable; Traces is the buffer of the traces written to it.
	Store  store.Store
	Traces *store.Buffer
	// OpenCircuits returns the names of the deployments whose circuits are open.
	OpenCircuits func() []string
	// PluginRestarts returns how often plugins were restarted.
	PluginRestarts func() int64
	// Queue counts jobs by their state.
	Queue func(ctx context.Context) (map[string]int64, error)
}

// storeTimeout limits each group of reads from the store, and maxAccounts the number of accounts exported.
const (
	storeTimeout = 2 * time.Second
	maxAccounts  = 100
	// The accounts are read again after accountsMaxAge, or after restFactor times the duration of the last read if that is
	// longer.
	accountsMaxAge = 10 * time.Second
	restFactor     = 100
)

// Watch registers the gauges.
func (t *Telemetry) Watch(g Gauges) error {
	gauge := func(name, unit, what string) metric.Float64ObservableGauge {
		// The names are valid: an error would show in the tests.
		i, _ := t.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		return i
	}
	up := gauge("stepfall.store.up", "{state}", "Whether the store can be used")
	spent := gauge("stepfall.account.spent", "{USD}", "What an account has spent in its present period, for those that hold most")
	reserved := gauge("stepfall.account.reserved", "{USD}", "What is set aside or leased in an account")
	written := gauge("stepfall.traces.written", "{trace}", "Traces that this process has written to the store")
	waiting := gauge("stepfall.traces.waiting", "{trace}", "Traces that wait for the store")
	dropped := gauge("stepfall.traces.dropped", "{trace}", "Traces that were dropped: the store was unavailable or rejected them")
	circuits := gauge("stepfall.circuits.open", "{circuit}", "Deployments that are left alone now")
	restarts := gauge("stepfall.plugin.restarts", "{restart}", "How often plugins were started again")
	jobs := gauge("stepfall.queue.jobs", "{job}", "Jobs, by state")
	largest := &largestAccounts{}
	_, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		if g.Store != nil {
			largest.observe(ctx, o, g.Store, up, spent, reserved)
		}
		if g.Traces != nil {
			w, q, d := g.Traces.Counts()
			o.ObserveFloat64(written, float64(w))
			o.ObserveFloat64(waiting, float64(q))
			o.ObserveFloat64(dropped, float64(d))
		}
		if g.OpenCircuits != nil {
			o.ObserveFloat64(circuits, float64(len(g.OpenCircuits())))
		}
		if g.PluginRestarts != nil {
			o.ObserveFloat64(restarts, float64(g.PluginRestarts()))
		}
		if g.Queue != nil {
			observeJobs(ctx, o, g.Queue, jobs)
		}
		return nil
	}, up, spent, reserved, written, waiting, dropped, circuits, restarts, jobs)
	return describe("the gauges", err)
}

func observeJobs(ctx context.Context, o metric.Observer, count func(context.Context) (map[string]int64, error), jobs metric.Float64ObservableGauge) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	states, _ := count(ctx) // none after an error
	for state, n := range states {
		o.ObserveFloat64(jobs, float64(n), metric.WithAttributes(attribute.String("state", state)))
	}
}

// largestAccounts are the largest accounts as of the last read.
type largestAccounts struct {
	mu   sync.Mutex
	list []store.Balance
	next time.Time // time of the next read
}

// observe reports whether the store can be used, and its largest accounts.
func (l *largestAccounts) observe(ctx context.Context, o metric.Observer, s store.Store, up, spent, reserved metric.Float64ObservableGauge) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if s.Ping(ctx) != nil {
		o.ObserveFloat64(up, 0)
		return
	}
	o.ObserveFloat64(up, 1)
	for _, b := range l.get(ctx, s) {
		name := metric.WithAttributes(attribute.String("account", b.Account))
		o.ObserveFloat64(spent, float64(b.Spent)/store.NanoUSD, name)
		o.ObserveFloat64(reserved, float64(b.Reserved)/store.NanoUSD, name)
	}
}

// get returns the accounts, and reads them again if that is due.
func (l *largestAccounts) get(ctx context.Context, s store.Accounts) []store.Balance {
	l.mu.Lock()
	defer l.mu.Unlock()
	begun := time.Now()
	if begun.Before(l.next) {
		return l.list
	}
	l.next = begun.Add(accountsMaxAge) // meanwhile others get the previous list, without waiting
	l.mu.Unlock()
	list, err := store.Largest(ctx, s, maxAccounts)
	l.mu.Lock()
	if err == nil {
		l.list = list
	}
	now := time.Now()
	l.next = now.Add(max(accountsMaxAge, restFactor*now.Sub(begun)))
	return l.list
}

// Close exports pending data and shuts the exporters down.
func (t *Telemetry) Close(ctx context.Context) error {
	var faults []error
	for _, end := range t.ends {
		faults = append(faults, end(ctx))
	}
	return errors.Join(faults...)
}

// describe adds to err what could not be created.
func describe(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("making %s: %w", what, err)
}
