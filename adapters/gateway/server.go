package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/netutil"
)

// Serving configures [Gateway.Serve]. The zero value is usable.
type Serving struct {
	// Handler replaces the gateway as the handler, for programs that wrap it.
	Handler http.Handler
	// TLS, when not nil, is used on every connection; see [Gateway.Certificates].
	TLS *tls.Config
	// MaxConnections limits the total number of concurrent connections; 0 means no limit.
	MaxConnections int
	// Drain is how long requests are still accepted after a SIGTERM while /readyz is 503, so that load
	// balancers notice. If the context ends for another reason, the gateway does not drain.
	Drain time.Duration
	// Grace is the time limit for running steps after that; 0 means 30 seconds.
	Grace time.Duration
	// Stopping, when not nil, is called when the shutdown begins.
	Stopping func()
}

var errCutOff = errors.New("steps were cut off")

// Serve serves on the listener, which it closes, until ctx ends and running requests have completed. Steps
// that outlast the grace period are answered with 503.
func (g *Gateway) Serve(ctx context.Context, l net.Listener, o Serving) error {
	if o.Grace <= 0 {
		o.Grace = 30 * time.Second
	}
	if o.Handler == nil {
		o.Handler = g
	}
	if o.MaxConnections > 0 {
		l = netutil.LimitListener(l, o.MaxConnections)
	}
	if o.TLS != nil {
		own := o.TLS.Clone()
		own.NextProtos = append(own.NextProtos, "h2", "http/1.1")
		l = tls.NewListener(l, own)
	}
	steps, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // proxies that end TLS can continue with HTTP/2
	server := &http.Server{
		Protocols: &protocols,
		Handler:   o.Handler, ReadHeaderTimeout: g.o.Patience, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 4 * maxHeader,
		BaseContext: func(net.Listener) context.Context { return steps },
		ErrorLog:    g.o.Logger.StandardLogger(nil),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	g.draining.Store(true)
	if o.Stopping != nil {
		o.Stopping()
	}
	if o.Drain > 0 && isTerminated(ctx) {
		select {
		case err := <-failed:
			return err
		case <-time.After(o.Drain):
		}
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Grace)
	defer cancel()
	if server.Shutdown(grace) == nil {
		return nil
	}
	end(errShutdown)
	// The canceled steps still record their spending and answer their clients.
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelLast()
	return errors.Join(fmt.Errorf("%w after %v", errCutOff, o.Grace), server.Shutdown(last), server.Close())
}

// isTerminated reports whether a SIGTERM ended the context.
func isTerminated(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause != nil && strings.Contains(cause.Error(), syscall.SIGTERM.String())
}

// Certificates returns a TLS configuration with the certificate and key of two PEM files, which are
// reloaded when they change. If the new files are invalid, the last valid pair stays in use, and the
// reason is logged.
func (g *Gateway) Certificates(certFile, keyFile string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the TLS files: %w", err)
	}
	c := &certificates{log: g.o.Logger, cert: certFile, key: keyFile, lastRead: time.Now(), pair: &pair}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

type certificates struct {
	log       hclog.Logger
	cert, key string

	mu       sync.Mutex
	lastRead time.Time
	fault    string // the last logged error of the files
	pair     *tls.Certificate
}

// readInterval is the minimum time between two reads of the files.
const readInterval = time.Second

func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.lastRead) < readInterval {
		return c.pair, nil
	}
	c.lastRead = time.Now()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		if err.Error() != c.fault {
			c.log.Error("invalid TLS files, keeping the last valid ones", "error", err)
		}
		c.fault = err.Error()
		return c.pair, nil
	}
	if !slices.EqualFunc(pair.Certificate, c.pair.Certificate, bytes.Equal) {
		c.log.Info("TLS certificate loaded", "file", c.cert)
	}
	c.fault, c.pair = "", &pair
	return c.pair, nil
}
