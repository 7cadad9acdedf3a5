package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Main runs the plugin program and exits. If a host started the program, it serves the host;
// otherwise it is a small command that describes the plugin.
func Main(p Plugin) {
	if wire.IsStartedByHost() {
		os.Exit(serve(&p))
	}
	os.Exit(command(&p, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// closeGrace is the time that a plugin has for closing its instance.
const closeGrace = 700 * time.Millisecond

func serve(p *Plugin) int {
	log := newHostLogger(os.Stderr)
	if err := claimStdout(); err != nil {
		log.Error("standard output cannot be kept clean", "error", err)
		return exitFailure
	}
	server, closeAll, err := NewServer(*p, log)
	if err != nil {
		log.Error("the plugin's description is unusable", "error", err)
		return exitFailure
	}
	if fd, err := strconv.Atoi(os.Getenv(wire.LifelineEnv)); err == nil {
		go watchLifeline(fd)
	}
	goplugin.Serve(serveConfig(server))
	closed := make(chan error, 1)
	go func() { closed <- closeAll() }()
	select {
	case err := <-closed:
		if err != nil {
			log.Warn("closing", "error", err)
		}
	case <-time.After(closeGrace):
		log.Warn("closing took too long")
	}
	return exitOK
}

func serveConfig(server *wire.Server) *goplugin.ServeConfig {
	return &goplugin.ServeConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: map[int]goplugin.PluginSet{wire.ProtocolVersion: {"stepfall": &wirePlugin{server: server}}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, server.ServerOptions()...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	}
}

var _ goplugin.GRPCPlugin = (*wirePlugin)(nil)

type wirePlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	server *wire.Server
}

func (w *wirePlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	w.server.Register(s)
	return nil
}

// GRPCClient is unused: only hosts call it.
func (w *wirePlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("this is the plugin's side")
}

// watchLifeline kills the plugin and its process group when the host's end of the lifeline is closed.
func watchLifeline(fd int) {
	f := os.NewFile(uintptr(fd), "lifeline")
	if f == nil {
		return
	}
	_, _ = io.Copy(io.Discard, f)
	killOwnGroup()
	os.Exit(exitFailure)
}

// newHostLogger returns a logger in the format that the host parses: one JSON object per line with hclog's keys.
func newHostLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				a.Key = "@timestamp"
			case slog.LevelKey:
				return slog.String("@level", strings.ToLower(fmt.Sprint(a.Value.Any())))
			case slog.MessageKey:
				a.Key = "@message"
			}
			return a
		},
	}))
}
