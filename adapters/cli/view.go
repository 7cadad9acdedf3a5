package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk/eval"
)

// viewFlags are the flags of stepfall view.
type viewFlags struct {
	addr            string
	open            bool
	export          string
	steps           int
	policy, against string
}

func newViewCommand(s Streams) *cobra.Command {
	var f viewFlags
	cmd := &cobra.Command{
		Use:   "view [TRACES [TRACES]] [REPORT...]",
		Short: "Open pages that show what was decided, spent and saved, and why",
		Long: `Open pages that show what was decided, spent and saved, and why.

TRACES is a file of traces (JSON lines, followed while it grows, or SQLite) or
- for standard input; without one, traces.jsonl. Two files are compared step by step, by
their queries. A REPORT is what stepfall eval --out
wrote to a .json; two of them are compared.

The page is served on this machine only. Its address works once, in one browser.
--export writes the pages as files instead, which open without a server.

--policy shows what another policy would do with the same steps, beside --against.`,
		Example: `  stepfall view traces.jsonl
  stepfall view traces.db --export pages
  stepfall view traces.jsonl --policy new.hcl --against policy.hcl
  stepfall view old.json new.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:0", "address of this machine to serve at; port 0 takes a free one")
	flags.BoolVar(&f.open, "open", true, "open the page in the browser, where there is one")
	flags.StringVar(&f.export, "export", "", "write the pages to this folder instead of serving them")
	flags.IntVar(&f.steps, "steps", 1000, "with --export, how many of the newest steps get a page")
	flags.StringVar(&f.policy, "policy", "", "compare: what this policy would do with the steps")
	flags.StringVar(&f.against, "against", "", "compare: the policy in use")
	return cmd
}

// source is what a page or a command reads.
type source struct {
	view.Options
	closers []func() error
}

func (src *source) close() error {
	var faults []error
	for _, c := range slices.Backward(src.closers) {
		faults = append(faults, c())
	}
	return errors.Join(faults...)
}

func (f *viewFlags) run(ctx context.Context, s Streams, args []string) (err error) {
	if (f.policy == "") != (f.against == "") {
		return usage("--policy and --against go together: the new policy and the one in use")
	}
	if f.steps < 1 {
		return usage("--steps %d: want at least 1", f.steps)
	}
	src, err := openSource(ctx, s, args)
	defer func() { err = errors.Join(err, src.close()) }()
	if err != nil {
		return err
	}
	if f.policy != "" {
		if src.Plan, err = f.plan(ctx, s, args); err != nil {
			return err
		}
	}
	if f.export != "" {
		first, err := view.Export(ctx, f.export, src.Options, view.ExportOptions{Steps: f.steps})
		if err == nil {
			fmt.Fprintf(s.Out, "wrote %s\n", first)
		}
		return err
	}
	return f.serve(ctx, s, src.Options)
}

// openSource opens what the arguments name.
func openSource(ctx context.Context, s Streams, args []string) (*source, error) {
	src := &source{}
	var names []string
	if len(args) == 0 {
		args = []string{"traces.jsonl"}
		if _, err := os.Stat(args[0]); err != nil {
			return src, usage("give a file of traces or a report: there is no traces.jsonl here\nA policy with trace { file = \"traces.jsonl\" } writes one; 'stepfall demo' makes some to look at")
		}
	}
	for _, arg := range args {
		if report, ok, err := openReport(arg); err != nil {
			return src, err
		} else if ok {
			src.Reports = append(src.Reports, report)
			names = append(names, report.Name)
			continue
		}
		if src.Other != nil {
			return src, usage("%s: two files of traces at a time are compared; reports may be several", arg)
		}
		traces, err := openTraces(ctx, s, arg)
		if err != nil {
			return src, err
		}
		if src.closers = append(src.closers, traces.close); src.Traces != nil {
			src.Other, src.OtherSource = traces.Traces, shown(arg)
			names = append(names, shown(arg))
			continue
		}
		src.Traces, src.LeftOut = traces.Traces, traces.LeftOut
		if first, err := src.Traces.Steps(ctx, store.Filter{Limit: 1}); err != nil {
			return src, err
		} else if len(first) == 0 && src.LeftOut != nil && src.LeftOut() > 0 {
			return src, fmt.Errorf("%s holds no traces, nor a report of stepfall eval", arg)
		}
		names = append(names, shown(arg))
	}
	src.Source = strings.Join(names, ", ")
	return src, nil
}

// shown is an argument as pages may show it: without a password.
func shown(arg string) string {
	if u, err := url.Parse(arg); err == nil && u.Scheme != "" && u.Host != "" {
		return u.Redacted()
	}
	return arg
}

// openReport reads a report of stepfall eval, and says whether it is one.
func openReport(path string) (view.Report, bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return view.Report{}, false, nil //nolint:nilerr // whoever opens it as traces says so
	}
	defer file.Close()
	r := bufio.NewReader(file)
	head, _ := r.Peek(1 << 12)
	if !bytes.Contains(head, []byte("\n  ")) || !bytes.HasPrefix(head, []byte("{")) {
		return view.Report{}, false, nil // traces stand on one line each
	}
	d := new(eval.Document)
	if err := json.NewDecoder(r).Decode(d); err != nil {
		return view.Report{}, false, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(d.Strategies) == 0 {
		return view.Report{}, false, fmt.Errorf("%s is no report of stepfall eval --out, and no file of traces", path)
	}
	return view.Report{Name: filepath.Base(path), Document: d}, true, nil
}

func (f *viewFlags) serve(ctx context.Context, s Streams, o view.Options) error {
	addr, err := net.ResolveTCPAddr("tcp", f.addr)
	if err != nil {
		return usage("--addr: %v", err)
	}
	if !addr.IP.IsLoopback() {
		return usage("--addr %s can be reached by others: stepfall view serves this machine only; stepfall serve --view asks for a key", f.addr)
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	handler, address := localPage(o, listener)
	fmt.Fprintf(s.Out, "%s\nOpen it in a browser; it works once. Ctrl-C ends.\n", address)
	if f.open {
		openBrowser(s, address)
	}
	return servePage(ctx, handler, listener)
}

// localPage guards the pages for this machine and returns the address that opens them.
func localPage(o view.Options, listener net.Listener) (http.Handler, string) {
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	handler, path := view.Local(view.New(o), port)
	return handler, "http://" + listener.Addr().String() + path
}

// servePage serves until ctx ends.
func servePage(ctx context.Context, handler http.Handler, listener net.Listener) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return server.Close()
	}
	return nil
}

// openBrowser opens the page where a person sits before the terminal and there is a
// browser to open it with. Whoever has none has the address.
func openBrowser(s Streams, address string) {
	if terminalOf(s.Out) == nil {
		return
	}
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", address)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return
		}
		cmd = exec.Command("xdg-open", address)
	}
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
