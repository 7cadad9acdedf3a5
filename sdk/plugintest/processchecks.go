package plugintest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/stepfall/stepfall/sdk/plugin/process"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

func processChecks() []check {
	return []check{
		{"info", startProcess, checkInfo},
		{"health", startProcess, checkHealth},
		{"cookie", startNothing, checkCookie},
		{"versions", startNothing, checkVersions},
		{"mutual-tls", startProcess, checkMutualTLS},
		{"connect", startProcess, checkConnect},
		{"stdout", startProcess, checkStdout},
		{"describe", startNothing, checkDescribe},
		{"shutdown", startProcess, checkShutdown},
		{"lifeline", startProcess, checkLifeline},
		{"crash", startProcess, checkCrash},
	}
}

var semver = regexp.MustCompile(`^v?\d+\.\d+\.\d+([-+].*)?$`)

// checkInfo: GetInfo answers before Configure, the same twice, with the program's name, a valid version and schema.
func checkInfo(ctx context.Context, t *trial) error {
	info, err := t.p.Client().Info(ctx, "conformance")
	if err != nil {
		return err
	}
	again, err := t.p.Client().Info(ctx, "conformance")
	if err != nil {
		return err
	}
	t.info = info
	t.report.Plugin, t.report.Version = info.Name, info.Version
	if !reflect.DeepEqual(info, again) {
		return errors.New("GetInfo does not answer the same twice")
	}
	if program := strings.TrimSuffix(filepath.Base(t.Path), ".exe"); program != info.Name && len(t.Args) == 0 && !strings.HasSuffix(program, ".test") {
		return fmt.Errorf("the plugin is called %q: the program %s must have that name, by which a policy finds it", info.Name, program)
	}
	if !semver.MatchString(info.Version) {
		return fmt.Errorf("version %q is no semantic version", info.Version)
	}
	for _, role := range info.Roles {
		switch role.Role {
		case wire.QualityEstimator, wire.CostEstimator, wire.Verifier:
		default:
			return fmt.Errorf("unknown role %s", role.Role)
		}
		if err := checkFields(role.Config.Fields, nil); err != nil {
			return fmt.Errorf("schema of %s: %w", role.Role, err)
		}
	}
	return nil
}

var fieldType = regexp.MustCompile(`^((list|map)\()*(string|number|integer|bool|duration|object|any)\)*$`)

func checkFields(fields []schema.Field, path []string) error {
	seen := map[string]bool{}
	for _, f := range fields {
		at := strings.Join(append(path, f.Name), ".")
		switch {
		case f.Name == "":
			return fmt.Errorf("a field of %q has no name", at)
		case seen[f.Name]:
			return fmt.Errorf("%s occurs twice", at)
		case !fieldType.MatchString(f.Type) || strings.Count(f.Type, "(") != strings.Count(f.Type, ")"):
			return fmt.Errorf("%s has the unknown type %q", at, f.Type)
		case f.Required && f.Default != nil:
			return fmt.Errorf("%s is required and has a default", at)
		case f.Min != nil && f.Max != nil && *f.Min > *f.Max:
			return fmt.Errorf("%s has a lower bound above the upper one", at)
		}
		seen[f.Name] = true
		if err := checkFields(f.Fields, append(path, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

// checkHealth: the standard gRPC health service serves "plugin".
func checkHealth(ctx context.Context, t *trial) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return t.p.Client().Healthy(ctx)
}

// checkCookie: started without the cookie, the program exits with a non-zero status.
func checkCookie(ctx context.Context, t *trial) error {
	spec := t.spec()
	spec.WithoutCookie, spec.StartTimeout = true, 10*time.Second
	p, err := process.Start(ctx, spec)
	if err == nil {
		p.Stop()
		return errors.New("it serves although it was not started by a host (no cookie)")
	}
	start, ok := errors.AsType[*process.StartError](err)
	if ok && start.Exit == "exit status 0" {
		return errors.New("started without the cookie it exits with success")
	}
	if ok && (start.Exit == "" || strings.Contains(start.Exit, "signal")) {
		return errors.New("started without the cookie it does not exit")
	}
	return nil
}

// checkVersions: the plugin chooses the common version of those offered, and rejects unknown ones.
func checkVersions(ctx context.Context, t *trial) error {
	const future = 999
	spec := t.spec()
	spec.ProtocolVersions = []int{wire.ProtocolVersion, future}
	p, err := process.Start(ctx, spec)
	if err != nil {
		return fmt.Errorf("offered versions %d and %d: %w", wire.ProtocolVersion, future, err)
	}
	p.Stop()
	spec.ProtocolVersions = []int{future}
	p, err = process.Start(ctx, spec)
	if err == nil {
		p.Stop()
		return fmt.Errorf("offered version %d alone, it claims to speak it", future)
	}
	if !strings.Contains(err.Error(), "another version of the plugin protocol") {
		return fmt.Errorf("offered version %d alone, it should name the version that it speaks in the handshake: %w", future, err)
	}
	return nil
}

// checkMutualTLS: another process on this machine cannot connect.
func checkMutualTLS(ctx context.Context, t *trial) error {
	theirs, _, err := process.NewCertificate()
	if err != nil {
		return err
	}
	none := theirs.Clone()
	none.Certificates = nil
	theirs.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &theirs.Certificates[0], nil }
	for _, intruder := range []struct {
		what        string
		credentials credentials.TransportCredentials
	}{
		{"TLS", insecure.NewCredentials()},
		{"a client certificate", trusting(none)},
		{"the host's client certificate, by one of somebody else", trusting(theirs)},
	} {
		if err := t.connectAs(ctx, intruder.credentials); err == nil {
			return fmt.Errorf("it answers a connection without %s", intruder.what)
		}
	}
	return nil
}

// trusting returns credentials of c that accept any server certificate.
func trusting(c *tls.Config) credentials.TransportCredentials {
	c.InsecureSkipVerify = true // the address is known to be the plugin's
	return credentials.NewTLS(c)
}

// connectAs returns nil if the plugin answers a connection with these credentials.
func (t *trial) connectAs(ctx context.Context, c credentials.TransportCredentials) error {
	target := "passthrough:///" + t.p.Addr().String()
	if t.p.Addr().Network() == "unix" {
		target = "unix://" + t.p.Addr().String()
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(c))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = wire.NewClient(conn).Info(ctx, "intruder")
	return err
}

// checkConnect: the stream for model calls sends its metadata at once and stays open.
func checkConnect(ctx context.Context, t *trial) error {
	if !t.info.Has(wire.FeatureModelCalls) {
		return skipf("it does not have the feature %s", wire.FeatureModelCalls)
	}
	ctx, cancel := context.WithTimeout(ctx, t.CallTimeout)
	defer cancel()
	_, err := t.p.Client().ServeModels(ctx, t.Models, wire.ModelLimits{})
	return err
}

// checkStdout: nothing but the handshake is written to standard output.
func checkStdout(ctx context.Context, t *trial) error {
	_, err := t.p.Client().Info(ctx, "conformance")
	t.p.Stop()
	if err != nil {
		return err
	}
	if lines := t.p.StrayOutput(); len(lines) > 0 {
		return fmt.Errorf("it writes to standard output, which is for the handshake: %q", lines)
	}
	return nil
}

// checkDescribe: the describe command agrees with GetInfo.
func checkDescribe(ctx context.Context, t *trial) error {
	cmd := exec.CommandContext(ctx, t.Path, append(append([]string(nil), t.Args...), "describe")...)
	cmd.Env = t.Env
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("`describe`: %w", err)
	}
	var described struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if err := json.Unmarshal(out, &described); err != nil {
		return fmt.Errorf("`describe` does not print JSON: %w", err)
	}
	if described.Name != t.info.Name || described.Version != t.info.Version {
		return fmt.Errorf("`describe` says %s %s, GetInfo says %s %s", described.Name, described.Version, t.info.Name, t.info.Version)
	}
	return nil
}

// checkShutdown: the plugin exits by itself, with status 0, within a second after Stop.
func checkShutdown(ctx context.Context, t *trial) error {
	begun := time.Now()
	t.p.Stop()
	if took := time.Since(begun); took > time.Second {
		return fmt.Errorf("it took %v to end after it was asked to", took.Round(time.Millisecond))
	}
	if exit := t.p.Exit(); exit != "exit status 0" {
		return fmt.Errorf("asked to end, it ended with %s", exit)
	}
	return nil
}

// checkLifeline: the plugin exits within a second after the lifeline is closed.
func checkLifeline(ctx context.Context, t *trial) error {
	t.p.DropLifeline()
	select {
	case <-t.p.Done():
		return nil
	case <-time.After(time.Second):
		return fmt.Errorf("it keeps running without its host: it must exit when file descriptor %s is at EOF", wire.LifelineEnv)
	}
}

// checkCrash: after it was killed, the plugin starts again and describes itself as before.
func checkCrash(ctx context.Context, t *trial) error {
	t.p.Kill()
	<-t.p.Done()
	t.p.Stop()
	p, err := process.Start(ctx, t.spec())
	if err != nil {
		return fmt.Errorf("after a crash it does not start: %w", err)
	}
	defer p.Stop()
	info, err := p.Client().Info(ctx, "conformance")
	if err == nil && !reflect.DeepEqual(t.info, info) {
		return errors.New("started again, it does not describe itself as before: name, version, roles and schemas must not change from start to start")
	}
	return err
}

func wantStatus(err error, want codes.Code, what string) error {
	if err == nil {
		return fmt.Errorf("%s, it must answer with the status %v, and does not", what, want)
	}
	if got := status.Code(err); got != want {
		return fmt.Errorf("%s: the status is %v (%w), not %v", what, got, err, want)
	}
	return nil
}
