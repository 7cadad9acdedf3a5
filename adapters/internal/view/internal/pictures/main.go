// Command pictures draws the pages in a browser: those of a file of traces and those
// of a made-up fleet, at the widths and in the colours that are asked for.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/adapters/internal/view/internal/browser"
	"github.com/stepfall/stepfall/adapters/internal/view/internal/fleet"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk/eval"
)

func main() {
	traces := flag.String("traces", "", "traces of the demo")
	report := flag.String("report", "", "a report of stepfall eval")
	out := flag.String("out", "docs/pictures", "folder for the pictures")
	widths := flag.String("widths", "1200", "widths in pixels, separated by commas")
	schemes := flag.String("schemes", "light", "light, dark or both, separated by commas")
	only := flag.String("only", "view-fleet,view-why,view-demo", "which pages, separated by commas; empty is all")
	flag.BoolVar(&whole, "whole", false, "draw pages to their end")
	flag.Parse()
	if err := run(*traces, *report, *out, strings.Split(*widths, ","), strings.Split(*schemes, ","), *only); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// whole pages are drawn, not only what a window shows.
var whole bool

type shot struct{ name, address string }

func run(traces, report, out string, widths, schemes []string, only string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	b, err := browser.Start(ctx)
	if errors.Is(err, browser.ErrNone) {
		fmt.Fprintln(os.Stderr, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer b.Close()
	var shots []shot
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, t := range fleet.Traces(1200, 1) {
		if err := enc.Encode(t); err != nil {
			return err
		}
	}
	made, err := view.ReadLines(ctx, "traces", &lines, nil)
	if err != nil {
		return err
	}
	fleetPages := httptest.NewServer(view.New(view.Options{Traces: made, Source: "fleet"}))
	defer shut(fleetPages)
	shots = append(shots, shot{"view-fleet", fleetPages.URL}, shot{"view-trust", fleetPages.URL + "/trust"}, shot{"view-steps", fleetPages.URL + "/steps?escalated=1"},
		shot{"view-run", fleetPages.URL + "/run?name=agent-040"})
	if list, err := made.Steps(ctx, store.Filter{Escalated: true, Chosen: "pro", Limit: 1}); err == nil && len(list) > 0 {
		shots = append(shots, shot{"view-why", fleetPages.URL + "/step?id=" + list[0].ID})
	}
	if traces != "" {
		demo, err := view.OpenLines(ctx, traces, nil)
		if err != nil {
			return err
		}
		defer demo.Close()
		pages := httptest.NewServer(view.New(view.Options{Traces: demo, Source: filepath.Base(traces)}))
		defer shut(pages)
		shots = append(shots, shot{"view-demo", pages.URL}, shot{"view-compare", pages.URL + "/compare"})
	}
	if report != "" {
		data, err := os.ReadFile(report)
		if err != nil {
			return err
		}
		d := new(eval.Document)
		if err := json.Unmarshal(data, d); err != nil {
			return err
		}
		pages := httptest.NewServer(view.New(view.Options{Reports: []view.Report{{Name: filepath.Base(report), Document: d}}}))
		defer shut(pages)
		shots = append(shots, shot{"view-report", pages.URL})
	}
	for _, width := range widths {
		for _, scheme := range schemes {
			for _, s := range shots {
				if only != "" && !strings.Contains(","+only+",", ","+s.name+",") {
					continue
				}
				name := s.name
				if len(widths) > 1 || len(schemes) > 1 {
					name += "-" + width + "-" + scheme
				}
				if err := draw(b, s.address, filepath.Join(out, name+".png"), width, scheme); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	for _, fault := range b.Faults() {
		fmt.Fprintln(os.Stderr, fault)
	}
	return nil
}

func draw(b *browser.Browser, address, path, width, scheme string) error {
	wide, err := strconv.ParseInt(width, 10, 64)
	if err != nil {
		return err
	}
	var png []byte
	err = chromedp.Run(b.Context,
		emulation.SetDeviceMetricsOverride(wide, 1000, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Navigate(address),
		chromedp.WaitReady("main h1"),
		chromedp.Sleep(300*time.Millisecond),
		chromedp.ActionFunc(func(ctx context.Context) error {
			if whole {
				return chromedp.FullScreenshot(&png, 100).Do(ctx)
			}
			return chromedp.CaptureScreenshot(&png).Do(ctx)
		}),
	)
	if err != nil {
		return err
	}
	return os.WriteFile(path, png, 0o644)
}

// shut closes a server whose pages may still be open: they hold a connection for what
// is live.
func shut(s *httptest.Server) {
	s.CloseClientConnections()
	s.Close()
}
