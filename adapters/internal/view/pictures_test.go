package view

import (
	"context"
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

var (
	picturesDir    = flag.String("pictures", "", "folder that TestPictures draws the pages of the documentation to")
	picturesTraces = flag.String("traces", "", "traces of the demo, for the picture of its page")
)

// TestPictures draws the pages that the documentation shows.
func TestPictures(t *testing.T) {
	if *picturesDir == "" {
		t.Skip("draws pictures where -pictures says to which folder")
	}
	b, err := startBrowser(t.Context())
	if errors.Is(err, errNoBrowser) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	fleet := reader(t, fleetTraces(1200, 1))
	escalated, err := fleet.Steps(t.Context(), store.Filter{Escalated: true, Chosen: "pro", Limit: 1})
	if err != nil || len(escalated) == 0 {
		t.Fatal("no step went to the large model", err)
	}
	demo, err := OpenLines(t.Context(), *picturesTraces, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer demo.Close()
	pictures := []struct {
		name, path string
		options    Options
	}{
		{"view-fleet", "/", Options{Traces: fleet, Source: "fleet"}},
		{"view-why", "/step?id=" + escalated[0].ID, Options{Traces: fleet, Source: "fleet"}},
		{"view-demo", "/", Options{Traces: demo, Source: filepath.Base(*picturesTraces)}},
	}
	resize(t, b, 1200)
	for _, p := range pictures {
		server := httptest.NewServer(New(p.options))
		var png []byte
		ctx, cancel := context.WithTimeout(b.Context, time.Minute)
		err := chromedp.Run(ctx, chromedp.Navigate(server.URL+p.path), chromedp.WaitReady("main h1"),
			becomes(`[...document.querySelectorAll("figure.chart")].every(f => f.querySelector("canvas"))`), chromedp.CaptureScreenshot(&png))
		cancel()
		server.CloseClientConnections() // an open page holds one for what is live
		server.Close()
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		if err := os.WriteFile(filepath.Join(*picturesDir, p.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
