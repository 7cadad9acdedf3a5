package plugintest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/stepfall/stepfall/sdk/plugin/process"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

// foreign is the first argument of this test binary where it is a plugin that was written without the SDK, as those in
// other languages are. The second says what is wrong with it.
const foreign = "foreign"

func serveForeign(fault string) {
	if !wire.IsStartedByHost() {
		os.Exit(1)
	}
	own, _, err := process.NewCertificate()
	if err != nil {
		panic(err)
	}
	hosts := x509.NewCertPool()
	hosts.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	own.ClientCAs = hosts
	if own.ClientAuth = tls.RequireAndVerifyClientCert; fault == "no client certificate" {
		own.ClientAuth = tls.NoClientCert
	} else if fault == "any client certificate" {
		own.ClientAuth = tls.RequireAnyClientCert
	}
	version := "1.0.0"
	if fault == "another version" {
		version = fmt.Sprintf("1.0.%d", time.Now().UnixNano())
	}
	server := wire.Server{Info: &wire.Info{
		Name: "foreign", Version: version, Features: []string{wire.FeatureModelCalls},
		Roles: []wire.RoleInfo{{Role: wire.Verifier, Config: &schema.Schema{Fields: []schema.Field{{Name: "given", Type: "string", Required: true}}}}},
	}}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(own)),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			switch isConnect := strings.HasSuffix(info.FullMethod, "/Connect"); {
			case isConnect && fault == "no metadata":
				<-stream.Context().Done()
			case isConnect && fault == "no stream":
				return status.Error(codes.Unimplemented, "there is none")
			}
			return handler(srv, stream)
		}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			if method, _ := grpc.MethodFromServerStream(stream); strings.HasSuffix(method, "/Shutdown") {
				os.Exit(0)
			}
			return status.Error(codes.Unimplemented, "")
		}))
	server.Register(g)
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		panic(err)
	}
	fmt.Printf("1|%d|unix|%s|grpc|%s\n", wire.ProtocolVersion, path, base64.RawStdEncoding.EncodeToString(own.Certificates[0].Certificate[0]))
	_ = g.Serve(listener)
}

// The kit finds the most common mistakes of authors in other languages and explains them.
func TestFaultsOfForeignPlugins(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ fault, check, want string }{
		{"nothing", "", ""},
		{"no client certificate", "mutual-tls", "without a client certificate"},
		{"any client certificate", "mutual-tls", "of somebody else"},
		{"another version", "crash", "does not describe itself as before"},
		{"no metadata", "connect", "has sent no initial metadata"},
		{"no stream", "connect", "must stay open"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			o := plugintest.Options{Path: self, Args: []string{foreign, c.fault}}
			if c.fault == "no metadata" {
				o.CallTimeout = time.Second // it is waited for
			}
			report, err := plugintest.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.Results {
				switch r.Name {
				case c.check:
					if r.Status != plugintest.Failed || !strings.Contains(r.Message, c.want) {
						t.Errorf("%s %s: %q, want %q", r.Status, r.Name, r.Message, c.want)
					}
				case "info", "mutual-tls", "connect", "crash", "shutdown":
					if r.Status != plugintest.Passed {
						t.Errorf("%s %s: %s", r.Status, r.Name, r.Message)
					}
				}
			}
		})
	}
}
