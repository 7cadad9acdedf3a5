//go:build unix

package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// TestMain lets the test binary double as a plugin whose behaviour depends on the name by which it was started.
// Started without a host's cookie, it must not run these tests, which would start it again.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "unjailed" {
		application()
	}
	jail.Main()
	switch filepath.Base(os.Args[0]) {
	case "application":
		application()
	case "test":
		misbehave()
		plugin.Main(testPlugin())
	}
	os.Exit(m.Run())
}

// applicationOrder is what an application is told, in JSON, as its only argument.
type applicationOrder struct {
	SearchPath []string
	TempDir    string
	Plugins    map[string]host.PluginConfig
	// Plugin is asked with Text, as what its program can do.
	Plugin, Text string
	Config       map[string]any
}

// application is a program that uses a plugin and is killed while it does.
func application() {
	var o applicationOrder
	err := json.Unmarshal([]byte(os.Args[1]), &o)
	if err != nil {
		panic(err)
	}
	h, err := host.New(host.Config{SearchPath: o.SearchPath, TempDir: o.TempDir, Plugins: o.Plugins})
	if err != nil {
		panic(err)
	}
	e, err := h.QualityEstimator("quality", o.Plugin, o.Config)
	if err == nil {
		err = ask(context.Background(), e, o.Text)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("answered")
	hang()
}

// misbehave does what a faulty plugin can do before it serves.
func misbehave() {
	switch os.Getenv("TEST_BEFORE") {
	case "bare":
		serveBare()
		os.Exit(0)
	case "noise":
		fmt.Println("Loading model weights...")
		fmt.Println("100%|##########| 1/1")
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot find the weights")
		os.Exit(7)
	case "hang":
		hang()
	case "children and hang":
		if err := children(os.Getenv("TEST_FILE"), false, true); err != nil {
			panic(err)
		}
		hang()
	case "badlog":
		fmt.Fprintln(os.Stderr, `{"@message": 1, "@level": {"a": 2}, "@timestamp": []}`)
		fmt.Fprintln(os.Stderr, "\x1b[31mred\x07")
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20))
		fmt.Fprintf(os.Stderr, "{\"@message\":\"token %s\",\"@level\":\"warn\",\"key\":\"%s\"}\n", os.Getenv("TEST_SECRET"), os.Getenv("TEST_SECRET"))
	}
}

type testConfig struct {
	Mean   float64 `stepfall:"mean,min=0,max=1,default=0.5" doc:"What is estimated."`
	Act    string  `stepfall:"act" doc:"What to do."`
	File   string  `stepfall:"file" doc:"A file."`
	Secret string  `stepfall:"secret,sensitive"`
	Refuse bool    `stepfall:"refuse"`
	Build  string  `stepfall:"build" doc:"What the constructor does."`
}

func testPlugin() plugin.Plugin {
	return plugin.Plugin{
		Name: "test", Version: "0.1.0", Doc: "Does what it is told.", CallsModels: true,
		MaxConcurrency: 4,
		Roles: []plugin.Role{
			plugin.QualityEstimator(func(ctx context.Context, c testConfig) (sdk.QualityEstimator, error) {
				if c.Refuse {
					return nil, schema.Errorf([]string{"refuse"}, "it was told to refuse, with %s", c.Secret)
				}
				switch c.Build {
				case "complain":
					var ds schema.Diagnostics
					for n := range 50 {
						ds = append(ds, schema.Errorf([]string{"build"}, "fault %d: %s", n, strings.Repeat("x", 5000))...)
					}
					return nil, ds
				case "exit":
					os.Exit(4)
				case "hang":
					<-ctx.Done()
					time.Sleep(time.Minute)
				}
				return &testEstimator{c}, nil
			}),
			plugin.CostEstimator(func(context.Context, testConfig) (sdk.CostEstimator, error) {
				return sdk.CostEstimatorFunc(func(_ context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
					out := &sdk.CostResponse{}
					for _, m := range req.Models {
						out.Estimates = append(out.Estimates, sdk.Estimate{Mean: m.Price.CostUSD(sdk.Usage{InputTokens: req.Query.InputTokens})})
					}
					return out, nil
				}), nil
			}),
			plugin.Verifier(func(_ context.Context, c testConfig) (sdk.Verifier, error) { return &testVerifier{c}, nil }),
		},
	}
}

type testEstimator struct{ testConfig }

func (e *testEstimator) EstimateQuality(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	if req.Query.LastUserText() == "judge" {
		if _, err := plugin.Models(ctx).CallModel(ctx, "judge", query("good?")); err != nil {
			return nil, err
		}
	} else if err := e.act(ctx, req.Query.LastUserText()); err != nil {
		return nil, err
	}
	out := &sdk.QualityResponse{}
	for range req.Models {
		out.Estimates = append(out.Estimates, sdk.Estimate{Mean: e.Mean, StdDev: 0.1})
	}
	return out, nil
}

// act does what the config or the query asks for.
func (c *testConfig) act(ctx context.Context, text string) error {
	if c.Act != "" {
		text = c.Act
	}
	switch text {
	case "exit":
		os.Exit(3)
	case "exit once":
		if _, err := os.Stat(c.File); err == nil {
			return nil
		}
		if err := os.WriteFile(c.File, nil, 0o600); err != nil {
			return err
		}
		os.Exit(3)
	case "panic":
		panic("as told")
	case "error":
		return errors.New("no, because of " + c.Secret)
	case "words":
		return errors.New(c.File + c.Secret)
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	case codes.Unavailable.String():
		return status.Error(codes.Unavailable, "the backend is away")
	case codes.Canceled.String():
		return status.Error(codes.Canceled, "")
	case codes.DeadlineExceeded.String():
		return status.Error(codes.DeadlineExceeded, "the backend took too long")
	case "stuck":
		hang()
	case "print":
		fmt.Println("to standard output")
		_, _ = syscall.Write(1, []byte("to file descriptor one\n"))
	case "log":
		plugin.Log(ctx).Warn("logged by the plugin", "count", 3, "secret", c.Secret)
	case "child":
		return children(c.File, false)
	case "escaped child":
		return children(c.File, true)
	case "children":
		return children(c.File, false, true)
	case "children and stuck":
		if err := children(c.File, false, true); err != nil {
			return err
		}
		hang()
	case "memory":
		for held := [][]byte{}; ; held = append(held, bytes.Repeat([]byte{1}, 1<<20)) {
			runtime.KeepAlive(held)
		}
	case "read":
		_, err := os.ReadFile(c.File)
		return err
	case "dial":
		conn, err := net.Dial("tcp", c.File)
		if err != nil {
			return err
		}
		return conn.Close()
	case "environment":
		return errors.New(strings.Join(os.Environ(), "\n"))
	}
	return nil
}

// children starts one child per argument, which holds the log's pipe; the argument says whether it leaves the process
// group. Then it creates the file.
func children(file string, escape ...bool) error {
	for _, e := range escape {
		cmd := exec.Command("sleep", "60")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.NewFile(2, "stderr")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: e}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	return os.WriteFile(file, nil, 0o600)
}

type testVerifier struct{ testConfig }

func (v *testVerifier) Verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	if err := v.act(ctx, req.Answer.Text); err != nil {
		return nil, err
	}
	out := &sdk.Verdict{Outcome: sdk.Failed, Score: 0.25, Confidence: 0.9, Evidence: "TestX failed", Isolation: []string{"network"}}
	if req.Answer.Text == "good" {
		out.Outcome, out.Score = sdk.Passed, 1
	}
	var judges int
	if n, err := fmt.Sscanf(req.Answer.Text, "judge %d", &judges); n == 1 && err == nil {
		for range judges {
			answer, err := plugin.Models(ctx).CallModel(ctx, "judge", query("good?"))
			if errors.Is(err, plugin.ErrModelLimit) {
				return nil, fmt.Errorf("no more: %w", err)
			}
			if err != nil {
				return nil, err
			}
			out.Evidence = answer.Text
		}
		out.CostUSD = 0.5
	}
	if n, err := fmt.Sscanf(req.Answer.Text, "panel %d", &judges); n == 1 && err == nil {
		out.Evidence = askPanel(ctx, judges)
	}
	if req.Answer.Text == "variables" {
		out.Evidence, out.Way, out.LeftOut = os.Getenv("TEST_SECRET")+os.Getenv("TEST_PASSED"), os.Getenv("TEST_PASSED"), []string{v.Secret, os.Getenv("TEST_SWITCH"), os.Getenv("HOME")}
	}
	if req.Answer.Text == "huge" {
		out.Evidence = strings.Repeat("x", 64<<20)
	}
	if req.Answer.Text == "nothing" {
		return nil, nil
	}
	return out, nil
}

// askPanel asks as many models at once as told, and returns how many calls were refused by a limit.
func askPanel(ctx context.Context, judges int) string {
	var refused atomic.Int32
	var wg sync.WaitGroup
	for i := range judges {
		wg.Go(func() {
			if _, err := plugin.Models(ctx).CallModel(ctx, fmt.Sprint("judge", i), query("good?")); errors.Is(err, plugin.ErrModelLimit) {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	return fmt.Sprintf("%d refused", refused.Load())
}

// pluginDir returns a folder with the test binary under the plugin's name.
func pluginDir(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(exe, filepath.Join(dir, "test")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func query(text string) *sdk.Query {
	return &sdk.Query{Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(text)}}}}
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// hang blocks forever. select {} would not do: without cgo, Go ends a program in which every goroutine is blocked.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}
