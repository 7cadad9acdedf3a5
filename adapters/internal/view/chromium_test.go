package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// errNoBrowser means that Chromium is not installed.
var errNoBrowser = errors.New("no chromium here: what pages do in a browser is not looked at")

// browser is a private Chromium with its own profile.
type browser struct {
	// Context is for chromedp.Run.
	Context context.Context
	// Close ends the browser and removes its profile.
	Close func()

	mu     sync.Mutex
	faults []string
	asked  []string
}

// startBrowser starts a headless Chromium.
func startBrowser(parent context.Context) (*browser, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		return nil, errNoBrowser
	}
	dir, err := os.MkdirTemp("", "stepfall-browser-*")
	if err != nil {
		return nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
	)
	alloc, endAlloc := chromedp.NewExecAllocator(parent, opts...)
	ctx, end := chromedp.NewContext(alloc)
	b := &browser{Context: ctx}
	b.Close = func() {
		_ = chromedp.Cancel(ctx)
		end()
		endAlloc()
		_ = os.RemoveAll(dir)
	}
	chromedp.ListenTarget(ctx, b.record)
	if err := chromedp.Run(ctx, network.Enable(), log.Enable(), runtime.Enable()); err != nil {
		b.Close()
		return nil, fmt.Errorf("starting the browser: %w", err)
	}
	return b, nil
}

func (b *browser) record(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			var parts []string
			for _, a := range e.Args {
				parts = append(parts, string(a.Value)+a.Description)
			}
			b.faults = append(b.faults, "console: "+strings.Join(parts, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			b.faults = append(b.faults, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	}
}

// Faults returns the console messages since the last call: errors, warnings, violations of the content policy.
func (b *browser) Faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.faults
	b.faults = nil
	return list
}

// Asked returns the addresses requested since the last call.
func (b *browser) Asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.asked
	b.asked = nil
	return list
}
