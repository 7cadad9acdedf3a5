package view

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// look opens an address in the browser, performs the actions, and fails on console messages, on requests to other
// origins, and if untrusted text ran as a script.
func look(t *testing.T, b *browser, address string, do ...chromedp.Action) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, 2*time.Minute)
	defer cancel()
	var hacked bool
	all := append([]chromedp.Action{chromedp.Navigate(address), chromedp.WaitReady("main h1")}, do...)
	all = append(all, chromedp.Evaluate("'hacked' in window", &hacked))
	if err := chromedp.Run(ctx, all...); err != nil {
		t.Fatalf("%s: %v\n%s", address, err, strings.Join(b.Faults(), "\n"))
	}
	for _, fault := range b.Faults() {
		t.Errorf("%s: %s", address, fault)
	}
	if hacked {
		t.Errorf("%s: a text ran as a script", address)
	}
	here, _ := url.Parse(address)
	for _, asked := range b.Asked() {
		u, err := url.Parse(asked)
		if err != nil || u.Scheme != "data" && u.Scheme != "blob" && (u.Scheme != here.Scheme || u.Host != here.Host) {
			t.Errorf("%s: asked for %s", address, asked)
		}
	}
}

// textOfPage reads the text of an element.
func textOfPage(selector string, to *string) chromedp.Action {
	return chromedp.Text(selector, to, chromedp.ByQuery)
}

// turn moves a slider by hand.
func turn(selector string, to string) chromedp.Action {
	return chromedp.Evaluate(`{const s=document.querySelector("`+selector+`"); s.value="`+to+`"; s.dispatchEvent(new Event("input",{bubbles:true}))}`, nil)
}

// becomes waits until a condition holds, on this page or the next one.
func becomes(condition string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			var holds bool
			if err := chromedp.Evaluate("!!("+condition+")", &holds).Do(ctx); err == nil && holds {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return fmt.Errorf("it does not come to %s", condition)
	})
}

func TestPagesInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes its time")
	}
	b, err := startBrowser(t.Context())
	if errors.Is(err, errNoBrowser) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	traces := fleetTraces(240, 1)
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	if err := os.WriteFile(path, lines(t, traces[:200]), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLines(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := httptest.NewUnstartedServer(nil)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	handler, token := Local(New(Options{Traces: l, Source: "traces.jsonl"}), port)
	server.Config.Handler = handler
	server.Start()
	defer server.Close()

	// The address with its token opens the page, whose own address has none.
	var at string
	look(t, b, server.URL+token, chromedp.Location(&at))
	if strings.Contains(at, "token") {
		t.Errorf("the token stays in the address: %s", at)
	}
	drawn := becomes(`document.querySelectorAll("figure.chart").length > 0 && [...document.querySelectorAll("figure.chart")].every(f => f.querySelector("canvas"))`)
	step, err := l.Steps(t.Context(), store.Filter{Escalated: true, Chosen: "pro", Outcome: sdk.Passed.String(), Limit: 1})
	if err != nil || len(step) == 0 {
		t.Fatal("no step went to the large model", err)
	}
	t.Run("overview", func(t *testing.T) {
		var before, after string
		var asked int
		look(t, b, server.URL, drawn,
			textOfPage(".tile .big", &before),
			// What comes meanwhile shows by itself.
			chromedp.ActionFunc(func(context.Context) error {
				file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				defer file.Close()
				_, err = file.Write(lines(t, traces[200:]))
				return err
			}),
			becomes(`document.querySelector(".tile p:last-child").textContent.startsWith("240 steps")`),
			textOfPage(".tile .big", &after),
			drawn,
			chromedp.Click(".lead a", chromedp.ByQuery), chromedp.WaitVisible("section.why"),
			chromedp.Evaluate(`document.querySelectorAll(".candidates tbody tr").length`, &asked),
		)
		if before == after || asked < 3 {
			t.Errorf("spent %s before and %s after, %d candidates", before, after, asked)
		}
	})
	t.Run("why", func(t *testing.T) {
		look(t, b, server.URL+"/step?id="+step[0].ID)
		slider(t, b)
	})
	t.Run("steps", func(t *testing.T) {
		var rows, other int
		var before, after string
		look(t, b, server.URL+"/steps",
			chromedp.SetValue("select[name=model]", "pro", chromedp.ByQuery), chromedp.Click("#filter button", chromedp.ByQuery),
			becomes(`location.search.includes("model=pro") && document.readyState === "complete" && document.querySelector("#filter a")`),
			chromedp.Evaluate(`document.querySelectorAll("#steps tbody tr").length`, &rows),
			chromedp.Evaluate(`[...document.querySelectorAll("#steps tbody tr")].filter(r => !r.cells[3].textContent.includes("pro")).length`, &other),
			chromedp.Click("#steps tbody tr a", chromedp.ByQuery), chromedp.WaitVisible(".neighbours"),
			chromedp.Evaluate("document.title", &before), chromedp.KeyEvent("p"), becomes(`document.readyState === "complete" && document.querySelector("a[rel=next]")`), chromedp.Evaluate("document.title", &after),
		)
		if rows == 0 || other > 0 {
			t.Errorf("%d rows, %d of them without the model", rows, other)
		}
		if !strings.HasPrefix(before, "Step ") || !strings.HasPrefix(after, "Step ") {
			t.Errorf("from %q the key p leads to %q", before, after)
		}
	})
	hostile := ""
	for _, tr := range traces {
		if strings.Contains(tr.Prompt, fleetScript) {
			hostile = tr.ID
		}
	}
	for name, page := range map[string]string{
		"runs": "/runs", "run": "/run?name=agent-003", "trust": "/trust", "compare": "/compare", "hostile": "/step?id=" + hostile,
	} {
		t.Run(name, func(t *testing.T) { look(t, b, server.URL+page) })
	}
	t.Run("fits", func(t *testing.T) {
		changed := New(Options{Traces: reader(t, changeTraces(100, 1, 1)), Policy: changePolicy(t, 10)})
		for strings.Contains(get(t, changed, "/"), "are being replayed") {
		}
		changes := httptest.NewServer(changed)
		defer changes.Close()
		widths := []int64{390, 1200, 2000}
		if os.Getenv("STEPFALL_ATTACKS") != "all" {
			widths = widths[:1] // what fits the narrowest
		}
		for _, width := range widths {
			for _, page := range []string{changes.URL + "/", server.URL + "/", server.URL + "/steps", server.URL + "/step?id=" + step[0].ID, server.URL + "/trust", server.URL + "/compare", server.URL + "/runs"} {
				var over int
				resize(t, b, width)
				look(t, b, page,
					chromedp.Evaluate(`document.documentElement.scrollWidth - innerWidth`, &over))
				if over > 0 {
					t.Errorf("%s is %d pixels wider than a window of %d", page, over, width)
				}
				if width > 400 {
					continue
				}
				// A table is read without moving it sideways.
				var cut []string
				look(t, b, page, chromedp.Evaluate(`[...document.querySelectorAll(".wide")].filter(e => e.checkVisibility() && e.querySelector("table") && e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel)`, &cut))
				if len(cut) > 0 {
					t.Errorf("%s: tables are cut in a window of %d: %q", page, width, cut)
				}
			}
		}
	})
	t.Run("labels", func(t *testing.T) {
		for _, page := range []string{"/", "/steps", "/step?id=" + step[0].ID} {
			var bare []string
			look(t, b, server.URL+page, chromedp.Evaluate(`[...document.querySelectorAll("input:not([type=hidden]),select,button,a")].filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.outerHTML)`, &bare))
			if len(bare) > 0 {
				t.Errorf("%s: without a label: %q", page, bare)
			}
		}
	})
	t.Run("without scripts", func(t *testing.T) {
		var said, sentence string
		ctx, cancel := context.WithTimeout(b.Context, 2*time.Minute)
		defer cancel()
		if err := chromedp.Run(ctx, emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(server.URL), textOfPage("h1", &said),
			chromedp.Navigate(server.URL+"/step?id="+step[0].ID+"&n=2&knob=100000"), textOfPage("#why-2 .sentence", &sentence),
			emulation.SetScriptExecutionDisabled(false)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(said, "240 steps cost") || !strings.HasPrefix(sentence, "Stop") {
			t.Errorf("the first page says %q, the decision at a high lambda %q", said, sentence)
		}
	})
	t.Run("export", func(t *testing.T) {
		dir := t.TempDir()
		_ = b.Asked() // by the pages without scripts
		first, err := Export(t.Context(), dir, Options{Traces: l}, 120)
		if err != nil {
			t.Fatal(err)
		}
		var shown int
		look(t, b, "file://"+first, drawn)
		look(t, b, "file://"+filepath.Join(dir, "steps.html")+"#tenant=blue",
			becomes(`document.querySelector("h1").textContent.includes("steps")`),
			chromedp.Evaluate(`[...document.querySelectorAll("#steps tbody tr")].filter(r => !r.hidden && r.dataset.tenant !== "blue").length`, &shown))
		if shown > 0 {
			t.Errorf("%d rows of other tenants are shown", shown)
		}
		look(t, b, "file://"+filepath.Join(dir, "index.html"), drawn, chromedp.Click(".lead a", chromedp.ByQuery), chromedp.WaitVisible("section.why"))
		exported, err := l.Steps(t.Context(), store.Filter{Limit: 120})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(exported, func(s store.Step) bool { return s.ID == step[0].ID })
		var trace, neighbour string
		look(t, b, "file://"+filepath.Join(dir, packedLink(stepFile, at)), textOfPage("dl.facts code", &trace))
		if trace != step[0].ID {
			t.Errorf("the page of %s shows %s", step[0].ID, trace)
		}
		slider(t, b)
		look(t, b, "file://"+filepath.Join(dir, packedLink(stepFile, at+1)), chromedp.Click("a[rel=next]", chromedp.ByQuery),
			becomes(`location.search === "?page=`+strconv.Itoa(at)+`" && document.querySelector("dl.facts code")`), textOfPage("dl.facts code", &neighbour))
		if neighbour != step[0].ID {
			t.Errorf("after %s comes %s", exported[at+1].ID, neighbour)
		}
		var lanes int
		look(t, b, "file://"+filepath.Join(dir, "run-0.html"), chromedp.Evaluate(`document.querySelectorAll(".lane").length`, &lanes))
		if lanes == 0 {
			t.Error("the page of a run has no steps")
		}
	})
}

// resize sets the width of the window.
func resize(t *testing.T, b *browser, width int64) {
	t.Helper()
	if err := chromedp.Run(b.Context, emulation.SetDeviceMetricsOverride(width, 900, 1, false)); err != nil {
		t.Fatal(err)
	}
}

// slider moves the slider of the second decision to a lambda at which no model is worth asking, and back.
func slider(t *testing.T, b *browser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, 2*time.Minute)
	defer cancel()
	const why = "#why-2 "
	var recorded, dear, back, place string
	err := chromedp.Run(ctx,
		chromedp.WaitEnabled(why+"input[type=range]", chromedp.ByQuery),
		textOfPage(why+".sentence", &recorded),
		turn(why+"input[type=range]", "96"),
		becomes(`document.querySelector("`+why+`.sentence").textContent.startsWith("Stop")`),
		textOfPage(why+".sentence", &dear),
		chromedp.Click(why+".reset", chromedp.ByQuery),
		becomes(`document.querySelector("`+why+`.sentence").textContent.startsWith("Ask")`),
		textOfPage(why+".sentence", &back),
		chromedp.Evaluate(`document.activeElement.id`, &place),
	)
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(b.Faults(), "\n"))
	}
	if !strings.HasPrefix(recorded, "Ask") || !strings.HasPrefix(dear, "Stop") || back != recorded || place != "knob-2" {
		t.Errorf("recorded %q, at a high lambda %q, back %q, at %s", recorded, dear, back, place)
	}
	for _, fault := range b.Faults() {
		t.Error(fault)
	}
}
