package view

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// lines returns traces as JSON lines.
func lines(t testing.TB, traces []*sdk.Trace) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, tr := range traces {
		if err := json.NewEncoder(&b).Encode(tr); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func reader(t testing.TB, traces []*sdk.Trace) *Lines {
	t.Helper()
	l, err := ReadLines(t.Context(), "traces", bytes.NewReader(lines(t, traces)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// get returns a page, and fails the test if it cannot be loaded.
func get(t testing.TB, h http.Handler, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d\n%s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// Every decision of the fleet, recomputed from its trace, is the recorded one, and its alternatives have the same
// values.
func TestDecisionsAreTakenAgainAsTheyWere(t *testing.T) {
	decisions := 0
	for _, tr := range fleetTraces(300, 1) {
		for n := range tr.Decisions {
			d := &tr.Decisions[n]
			q, err := questionAt(tr, n)
			if err != nil {
				t.Fatalf("%s, decision %d: %v", tr.QueryID, n+1, err)
			}
			a, err := q.explain(q.knob())
			if err != nil {
				t.Fatal(err)
			}
			if a.Run != d.Run {
				t.Errorf("%s, decision %d: ran %q, taken again %q", tr.QueryID, n+1, d.Run, a.Run)
			}
			for _, alt := range d.Alternatives {
				if tr.Strategy != "index" || len(alt.Models) == 0 {
					continue
				}
				last := alt.Models[len(alt.Models)-1]
				for _, c := range a.Candidates {
					if c.Model == last && math.Abs(c.Value-alt.Reservation) > 1e-9 {
						t.Errorf("%s, decision %d, %s: reservation value %v, recorded %v", tr.QueryID, n+1, last, c.Value, alt.Reservation)
					}
				}
			}
			decisions++
		}
	}
	if decisions < 600 {
		t.Errorf("only %d decisions", decisions)
	}
}

// On both sides of a flip the engine decides as the spans show.
func TestFlipsAreWhereTheDecisionChanges(t *testing.T) {
	flips := 0
	for _, tr := range fleetTraces(60, 2) {
		for n := range tr.Decisions {
			q, err := questionAt(tr, n)
			if err != nil {
				t.Fatal(err)
			}
			s := q.scale(97)
			if s.Here < 0 || s.Points[s.Here] != q.knob() {
				t.Fatalf("the recorded lambda %v is not on the scale", q.knob())
			}
			spans, err := q.spans(&s)
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(spans); i++ {
				at := spans[i].From
				before, _ := q.decide(at * (1 - 3e-4))
				after, _ := q.decide(at * (1 + 1e-9))
				if before != spans[i-1].Run || after != spans[i].Run {
					t.Errorf("%s, decision %d: at %v from %q to %q, the spans say %q to %q", tr.QueryID, n+1, at, before, after, spans[i-1].Run, spans[i].Run)
				}
				flips++
			}
		}
	}
	if flips < 30 {
		t.Errorf("only %d flips", flips)
	}
}

// The headline names the cost of exactly the steps that it counts.
func TestTheHeadlineWithEmbeddings(t *testing.T) {
	traces := fleetTraces(60, 1)
	usd := 0.0
	for i := range 20 {
		traces = append(traces, &sdk.Trace{ID: fmt.Sprint("e", i), Mode: sdk.ModeEmbeddings, Start: fleetBegin, Chosen: "embed", CostUSD: 0.5, Calls: []sdk.Call{{Model: "embed", CostUSD: 0.5}}})
	}
	for _, tr := range traces {
		usd += tr.CostUSD
	}
	p, err := newViewer(Options{Traces: reader(t, traces)}).overview(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "80 steps cost " + dollars(usd); !strings.HasPrefix(p.Headline, want) || strings.Contains(p.Headline, "than asking") && !strings.Contains(p.Headline, "without embeddings") {
		t.Errorf("%q, want %q", p.Headline, want)
	}
}

func TestDriftIsSeen(t *testing.T) {
	v := newViewer(Options{Traces: reader(t, fleetTraces(1200, 1))})
	p, err := v.trust(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Models {
		if got, want := r.IsOff(), r.Model == "mini"; got != want {
			t.Errorf("%s drifted: %v", r.Model, got)
		}
	}
	if !strings.Contains(p.Headline, "drifted for mini") {
		t.Error(p.Headline)
	}
}

// Sums and lists agree with a count of the traces one by one.
func TestLinesAddUp(t *testing.T) {
	traces := fleetTraces(400, 3)
	l := reader(t, traces)
	for _, f := range []store.Filter{{}, {Tenant: "blue"}, {Policy: "fleet.hcl@c41e08a9b2f6"}, {Since: fleetBegin.AddDate(0, 0, 5).Truncate(24 * time.Hour)}} {
		want := store.Sum{}
		for _, tr := range traces {
			if f.Tenant != "" && tr.Tenant != f.Tenant || f.Policy != "" && tr.Policy != f.Policy || tr.Start.Before(f.Since) {
				continue
			}
			want.Steps++
			want.Calls += int64(len(tr.Calls))
			want.CostUSD += tr.CostUSD
			if tr.Chosen == "" {
				want.Failed++
			}
		}
		got, err := l.Sums(t.Context(), nil, f)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		if got[0].Steps != want.Steps || got[0].Calls != want.Calls || got[0].Failed != want.Failed || math.Abs(got[0].CostUSD-want.CostUSD) > 1e-9 {
			t.Errorf("%+v: %+v, want %+v", f, got[0], want)
		}
		byModel, _ := l.Sums(t.Context(), []store.Dimension{store.ByModel}, f)
		calls, cost := int64(0), 0.0
		for _, s := range byModel {
			calls, cost = calls+s.Calls, cost+s.CostUSD
		}
		if calls != want.Calls || math.Abs(cost-want.CostUSD) > 1e-9 {
			t.Errorf("%+v by model: %d calls and %v USD, want %d and %v", f, calls, cost, want.Calls, want.CostUSD)
		}
	}
	// Page by page nothing is left out and nothing comes twice.
	seen, f := map[string]bool{}, store.Filter{Escalated: true, Limit: 7}
	for {
		page, err := l.Steps(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page {
			if seen[page[i].ID] || len(page[i].Asked) < 2 {
				t.Fatalf("%s came twice, or is not escalated", page[i].ID)
			}
			seen[page[i].ID] = true
		}
		if len(page) < 7 {
			break
		}
		f.Before = &page[6]
	}
	escalated := 0
	for _, tr := range traces {
		if middleware.HasEscalated(tr) {
			escalated++
		}
	}
	if len(seen) != escalated {
		t.Errorf("%d escalated steps in pages, %d in all", len(seen), escalated)
	}
}

// A text search that stops early says how far it got, and continues from there.
func TestSearchGoesOn(t *testing.T) {
	traces := fleetTraces(300, 3)
	for i := range traces {
		traces[i].Prompt = "nothing of it"
		if i%40 == 1 {
			traces[i].Prompt = "the Needle"
		}
	}
	traces[81].Start = traces[81].Start.Truncate(24 * time.Hour) // where a span begins
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "traces.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Record(t.Context(), entriesOf(traces)); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]store.TraceReader{"lines": reader(t, traces), "sqlite": db} {
		v := newViewer(Options{Traces: from})
		v.searching = 0
		seen, pages := map[string]bool{}, 0
		for address := "steps?text=needle"; address != ""; pages++ {
			p, err := v.steps(t.Context(), httptest.NewRequest(http.MethodGet, "/"+address, nil).URL.Query())
			if err != nil {
				t.Fatal(name, err)
			}
			for i := range p.Steps {
				if seen[p.Steps[i].ID] || p.Steps[i].Start.Before(p.Back) {
					t.Errorf("%s: %s came twice, or from further back than said", name, p.Steps[i].ID)
				}
				seen[p.Steps[i].ID] = true
			}
			address = p.Next
		}
		if len(seen) != 8 || pages < 10 {
			t.Errorf("%s: found %d of 8 on %d pages", name, len(seen), pages)
		}
	}
}

// A growing file is followed across partial lines, rotation and lines that are not traces.
func TestLinesFollowAFile(t *testing.T) {
	traces := fleetTraces(12, 4)
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	write := func(data []byte) {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	write(lines(t, traces[:2]))
	l, err := OpenLines(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	count := func(want int) {
		t.Helper()
		got, err := l.Steps(t.Context(), store.Filter{})
		if err != nil || len(got) != want {
			t.Fatalf("%d steps, want %d (%v)", len(got), want, err)
		}
	}
	count(2)
	next := lines(t, traces[2:3])
	write(next[:40])
	count(2)
	write(next[40:])
	count(3)
	write([]byte("{\"id\": \nno trace\n"))
	write(lines(t, traces[3:5]))
	count(5)
	if l.LeftOut() != 2 {
		t.Errorf("%d lines left out, want 2", l.LeftOut())
	}
	write(lines(t, traces[5:6])) // not looked at before it is renamed
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	count(6)
	write(lines(t, traces[6:9]))
	count(9)
	for i := 9; i < 12; i++ { // renamed several times between two looks
		for k := i - 7; k > 0; k-- {
			if err := os.Rename(strings.TrimSuffix(fmt.Sprint(path, ".", k-1), ".0"), fmt.Sprint(path, ".", k)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		write(lines(t, traces[i:i+1]))
	}
	count(12)
	for _, tr := range traces {
		if again, err := l.Trace(t.Context(), tr.ID); err != nil || again.Prompt != tr.Prompt {
			t.Errorf("%s after all: %v", tr.ID, err)
		}
	}
	came, err := l.Follow(t.Context(), 5, store.Filter{})
	if err != nil || len(came) != 7 {
		t.Errorf("%d steps came after the fifth, want 7 (%v)", len(came), err)
	}
	again, err := OpenLines(t.Context(), path, nil) // with the file that it was renamed to
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if list, _ := again.Steps(t.Context(), store.Filter{}); len(list) != 12 {
		t.Errorf("opened again: %d steps, want 12", len(list))
	}
	if _, err := l.Trace(t.Context(), "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown step: %v", err)
	}
}

// A refresh whose context ends loses none of the lines that it read: the next one writes them.
func TestALookThatIsCancelledLosesNoLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	traces := fleetTraces(batchLines+20, 4)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLines(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.WriteFile(path, lines(t, traces), 0o600); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := l.Steps(gone, store.Filter{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a look that was cancelled: %v", err)
		}
	}
	if got, err := l.Steps(t.Context(), store.Filter{Limit: len(traces)}); err != nil || len(got) != len(traces) {
		t.Errorf("%d of %d steps (%v)", len(got), len(traces), err)
	}
}

// A share below 100 % is never shown as 100 %.
func TestShareOfNearlyAll(t *testing.T) {
	for v, want := range map[float64]string{1: "100 %", 280. / 281: "99.6 %", 0.99999: "99.9 %", 0.99: "99 %", 0.05: "5.0 %", 0: "0 %"} {
		if got := percent(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

// Untrusted text is never markup on any page.
func TestHostileTextsAreText(t *testing.T) {
	traces := fleetTraces(120, 1)
	hostile := []string{fleetScript, `"><script>window.hacked=1</script>`, fleetBidi, "javascript:window.hacked=1", "{{.}}", "</script><script>window.hacked=1</script>", "' onmouseover='window.hacked=1"}
	for i, tr := range traces[:40] {
		h := hostile[i%len(hostile)]
		tr.QueryID, tr.Run, tr.Tenant, tr.Session, tr.Group, tr.Policy, tr.Profile, tr.Mode = h+fmt.Sprint(i), h, h, h, h, h, h, h
		tr.Labels, tr.Features = map[string]string{h: h}, map[string]float64{h: 1}
		tr.Error = h
		tr.Infeasible = []sdk.Infeasible{{Model: h, Reason: h}}
		for k := range tr.Decisions {
			tr.Decisions[k].Note = h
			for m := range tr.Decisions[k].Models {
				tr.Decisions[k].Models[m].Model += h
			}
			if tr.Decisions[k].Run != "" {
				tr.Decisions[k].Run += h
			}
		}
		for k := range tr.Calls {
			c := &tr.Calls[k]
			c.Model, c.Deployment, c.Answer, c.Error, c.Signals = c.Model+h, h, h, h, map[string]float64{h: 1}
			if c.Verdict != nil {
				c.Verdict.Evidence, c.Verdict.Verifier, c.Verdict.Isolation, c.Verdict.IsolationMissing = h, h, []string{h}, map[string]string{h: h}
			}
		}
		if tr.Chosen != "" {
			tr.Chosen += h
		}
	}
	l := reader(t, traces)
	handler := New(Options{Traces: l, Source: fleetScript, Status: func(context.Context) (*Status, error) {
		return &Status{Caps: []Cap{{Name: fleetScript}}, Circuits: []string{fleetScript}, Unsupported: []middleware.Unsupported{{Model: fleetScript, Parameter: fleetScript, Value: fleetScript}}, Plugins: []PluginStatus{{Name: fleetScript, Error: fleetScript}}}, nil
	}})
	pages := []string{"/", "/steps", "/runs", "/trust", "/compare"}
	for _, tr := range traces[:12] {
		pages = append(pages, "/step?id="+tr.ID)
	}
	dir := t.TempDir()
	if _, err := Export(t.Context(), dir, Options{Traces: l, Source: fleetScript}, 24); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, p := range pages {
		texts[p] = get(t, handler, p)
	}
	maps.Copy(texts, exportedPages(t, dir))
	if len(texts) < 40 {
		t.Errorf("only %d pages", len(texts))
	}
	for name, text := range texts {
		lookForMarkup(t, name, text)
	}
}

// Traces of other tools were not redacted when they were written: pages show nothing that looks like a credential.
func TestAttackKeysInTraces(t *testing.T) {
	const key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
	traces := fleetTraces(20, 1)
	for _, tr := range traces {
		tr.Prompt, tr.Error, tr.Labels = "Authorization: Bearer "+key, "401: "+key, map[string]string{"note": key}
		for k := range tr.Decisions {
			tr.Decisions[k].Note = key
		}
		for k := range tr.Calls {
			c := &tr.Calls[k]
			c.Answer, c.Error = "key="+key, key
			c.Verdict = &sdk.Verdict{Outcome: sdk.Failed, Evidence: "printed " + key}
		}
	}
	l := reader(t, traces)
	handler := New(Options{Traces: l})
	dir := t.TempDir()
	if _, err := Export(t.Context(), dir, Options{Traces: l}, 20); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, page := range []string{"/", "/steps", "/runs", "/trust", "/step?id=" + traces[0].ID} {
		texts[page] = get(t, handler, page)
	}
	maps.Copy(texts, exportedPages(t, dir))
	if len(texts) < 20 || !strings.Contains(texts["/step?id="+traces[0].ID], "[redacted]") {
		t.Errorf("%d pages, of which none was cleaned", len(texts))
	}
	for page, text := range texts {
		if strings.Contains(text, "abcdefghij") {
			t.Errorf("%s shows the key", page)
		}
	}
}

// Each link of an export leads to one of its files.
func TestExportedLinksLeadSomewhere(t *testing.T) {
	steps, shown := reader(t, fleetTraces(40, 3)), 6
	if testing.Short() {
		shown = 2 // where a step's knob turns its decisions is computed
	}
	dir := t.TempDir()
	if _, err := Export(t.Context(), dir, Options{Traces: steps}, shown); err != nil {
		t.Fatal(err)
	}
	pages := exportedPages(t, dir)
	for name, text := range pages {
		for _, link := range regexp.MustCompile(`(?:href|src|action)="([^"#:]+)["#]`).FindAllStringSubmatch(text, -1) {
			if _, has := pages[link[1]]; has {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, link[1])); err != nil {
				t.Errorf("%s links to %s", name, link[1])
			}
		}
	}
}

// exportedPages returns the pages of an export by address, both files and the pages packed in them.
func exportedPages(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil || len(names) == 0 {
		t.Fatalf("pages %v, %v", names, err)
	}
	pages := map[string]string{}
	packed := regexp.MustCompile(`data-gzip="([^"]+)"`)
	for _, path := range names {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		pages[name] = string(data)
		own := packed.FindStringSubmatch(pages[name])
		if own == nil {
			continue
		}
		zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(strings.ReplaceAll(own[1], "-", "+"))))
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range regexp.MustCompile(`(?s)<article data-page="(\d+)".*?</article>`).FindAllSubmatch(all, -1) {
			pages[name+"?page="+string(page[1])] = string(page[0])
		}
	}
	return pages
}

// An exported page holds the engine's decision at each position of the slider.
func TestExportedDecisions(t *testing.T) {
	traces := fleetTraces(40, 3)
	dir, shown := t.TempDir(), 4
	if _, err := Export(t.Context(), dir, Options{Traces: reader(t, traces)}, shown); err != nil {
		t.Fatal(err)
	}
	pages, found := exportedPages(t, dir), 0
	for _, tr := range traces {
		for address, text := range pages {
			if !strings.HasPrefix(address, "step-") || !strings.Contains(text, "<code>"+tr.ID+"</code>") {
				continue
			}
			for _, own := range regexp.MustCompile(`(?s)class="why"[^>]* data-n="(\d+)"(.*?)</section>`).FindAllStringSubmatch(text, -1) {
				stored := regexp.MustCompile(`data-points="([^"]+)"`).FindStringSubmatch(own[2])
				if stored == nil {
					continue // there is nothing to turn
				}
				n, err := strconv.Atoi(own[1])
				if err != nil {
					t.Fatal(err)
				}
				q, err := questionAt(tr, n-1)
				if err != nil {
					t.Fatal(err)
				}
				var want []*answer
				for _, p := range q.scale(exportedPoints).Points {
					a, err := q.explain(p)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, a)
				}
				var got []*answer
				if err := json.Unmarshal([]byte(html.UnescapeString(stored[1])), &got); err != nil {
					t.Fatal(err)
				}
				if !slices.EqualFunc(got, want, func(a, b *answer) bool {
					return a.Run == b.Run && a.Sentence == b.Sentence && slices.EqualFunc(a.Candidates, b.Candidates, func(a, b candidate) bool {
						return a.Model == b.Model && a.PriceText == b.PriceText && a.ValueText == b.ValueText && a.State == b.State && a.Next == b.Next
					})
				}) {
					t.Errorf("%s, decision %d: not what the engine decides", tr.ID, n)
				}
				found++
			}
		}
	}
	if found < shown {
		t.Errorf("%d decisions in %d steps", found, shown)
	}
}

// An export writes repeated texts once, even a prompt that is longer than a compressor's window.
func TestExportsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
	traces := fleetTraces(360, 1)
	noise := rand.New(rand.NewPCG(1, 2))
	task := make([]byte, 40<<10)
	for i := range task {
		task[i] = byte('a' + noise.IntN(26))
	}
	for _, tr := range traces[100:160] {
		tr.Prompt = string(task)
	}
	dir, size := t.TempDir(), int64(0)
	if _, err := Export(t.Context(), dir, Options{Traces: reader(t, traces)}, 1000); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, infoErr := d.Info()
			if infoErr != nil {
				return infoErr
			}
			size += info.Size()
		}
		return err
	})
	t.Logf("360 steps take %d bytes", size)
	if err != nil || size > 2_000_000 {
		t.Errorf("360 steps take %d bytes, %v", size, err)
	}
}

// lookForMarkup parses a page like a browser, and fails if untrusted content became more than visible text.
func lookForMarkup(t *testing.T, name, text string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(text))
	inside := ""
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.TextToken:
			if s := z.Token().Data; inside != "script" && strings.ContainsAny(s, "\u202e\u2066\u200b\x07") {
				t.Errorf("%s shows hidden characters: %q", name, s)
			}
		case html.EndTagToken:
			inside = ""
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			inside = tag.Data
			if strings.Contains(" img iframe object embed base video audio ", " "+tag.Data+" ") {
				t.Errorf("%s has %s", name, tag)
			}
			for _, a := range tag.Attr {
				switch {
				case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "src" && !strings.HasPrefix(a.Val, "assets/"),
					a.Key == "href" && strings.HasPrefix(strings.TrimSpace(strings.ToLower(a.Val)), "javascript:"):
					t.Errorf("%s has %s", name, tag)
				case tag.Data == "script" && a.Key == "type" && a.Val != "application/json":
					t.Errorf("%s has %s", name, tag)
				case (a.Key == "title" || a.Key == "aria-label") && strings.ContainsAny(a.Val, "\u202e\u2066\u200b\x07"):
					t.Errorf("%s shows hidden characters: %s", name, tag)
				}
			}
			if tag.Data == "script" && len(tag.Attr) == 0 {
				t.Errorf("%s has a script of its own", name)
			}
		}
	}
}

func TestPagesStaySmall(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
	handler := New(Options{Traces: reader(t, fleetTraces(1500, 1))})
	size := len(get(t, handler, "/"))
	for _, a := range []string{"uplot.js", "uplot.css", "view.js", "view.css"} {
		size += len(get(t, handler, "/assets/"+a))
	}
	if size > 300_000 {
		t.Errorf("the first page and what it loads are %d bytes, want at most 300 kB", size)
	}
	if size := len(get(t, handler, "/steps")); size > 300_000 {
		t.Errorf("a page of steps has %d bytes", size)
	}
}

func TestHugeTextsAreCut(t *testing.T) {
	tr := fleetTraces(1, 1)[0]
	size := 1 << 20
	if testing.Short() {
		size = 1 << 18
	}
	tr.Prompt = strings.Repeat("é", 3*size)
	tr.Calls[0].Answer = strings.Repeat("x\n", 2*size)
	text := get(t, New(Options{Traces: reader(t, []*sdk.Trace{tr})}), "/step?id="+tr.ID)
	if len(text) > 400_000 || !strings.Contains(text, "further byte") {
		t.Errorf("the page has %d bytes", len(text))
	}
}

// Runs of the same tasks are found by their queries and compared one by one.
func TestWaysAreCompared(t *testing.T) {
	var traces []*sdk.Trace
	add := func(run string, cost float64, passes func(i int) bool, asked ...string) {
		for i := range 10 {
			tr := &sdk.Trace{
				ID: fmt.Sprintf("%s-%d", run, i), Run: run, QueryID: fmt.Sprintf("task-%d", i), Start: fleetBegin.Add(time.Duration(len(traces)) * time.Second),
				CostUSD: cost, Chosen: asked[len(asked)-1], Stop: sdk.StopNotWorth, Strategy: "index",
			}
			for _, m := range asked {
				tr.Calls = append(tr.Calls, sdk.Call{Model: m, CostUSD: cost / float64(len(asked)), Verdict: &sdk.Verdict{Outcome: sdk.Failed}})
			}
			if passes(i) {
				tr.Calls[len(tr.Calls)-1].Verdict.Outcome = sdk.Passed
			}
			traces = append(traces, tr)
		}
	}
	traces = append(traces, fleetTraces(30, 1)...)
	add("always small", 0.001, func(i int) bool { return i < 4 }, "small")
	add("always large", 0.02, func(i int) bool { return i < 9 }, "large")
	add("cascade", 0.008, func(i int) bool { return i < 9 }, "small", "large")
	handler := New(Options{Traces: reader(t, traces)})
	want := "The same 10 tasks, 3 ways: cascade solved 9 for 0.0800 USD; always large solved 9 for 0.200 USD. That is 60 % less."
	if text := get(t, handler, "/"); !strings.Contains(text, want) {
		t.Errorf("the first page does not say %q: %s", want, text[strings.Index(text, "<h1>"):][:300])
	}
	want = "10 of 10 steps change from always large to cascade; -0.120 USD; quality &#43;0.0 ± 0.0 points."
	if text := get(t, handler, "/compare"); !strings.Contains(text, want) {
		t.Errorf("the comparison does not say %q", want)
	}
}

func TestWrongAddressesAreRefused(t *testing.T) {
	tr := fleetTraces(1, 1)
	handler := New(Options{Traces: reader(t, tr)})
	for path, want := range map[string]int{
		"/step?id=nobody": 404, "/run?name=nobody": 404, "/nothing": 404, "/?since=yesterday": 400, "/steps?before=x": 400,
		"/step?n=99&knob=1&id=" + tr[0].ID: 400, "/step?n=1&knob=-1&id=" + tr[0].ID: 400, "/report": 404, "/assets/nothing": 404, "/assets/..%2fview.go": 404,
		"/why.json?n=1&knob=NaN&id=" + tr[0].ID: 400, "/why.json?n=1&knob=3&id=" + tr[0].ID: 200, "/step?n=1&knob=3&id=" + tr[0].ID: 200,
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self'") {
			t.Errorf("%s has no content policy", path)
		}
	}
}

// The overview agrees with the command and the metrics, for all steps and not for a sample; refused steps save
// nothing.
func TestOverviewShowsTheResultOfAllSteps(t *testing.T) {
	traces := fleetTraces(40, 1)
	for range 60 {
		refused := *traces[0]
		refused.ID, refused.Calls, refused.Chosen, refused.CostUSD, refused.Stop = fmt.Sprintf("refused%d", len(traces)), nil, "", 0, sdk.StopBudget
		traces = append(traces, &refused)
	}
	v := newViewer(Options{Traces: reader(t, traces), Sample: 5})
	p, err := v.overview(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := accountOf(traces).Result()
	if p.Result.String() != want.String() || p.Unread != 0 {
		t.Errorf("the page says\n%s\nthe steps come to\n%s", p.Result.String(), want.String())
	}
	if answered := accountOf(traces[:40]).Result(); math.Abs(want.SavedUSD-answered.SavedUSD) > 1e-9 {
		t.Errorf("60 refused steps save %v", want.SavedUSD-answered.SavedUSD)
	}
}

// All traces of shadows are read, including those without a call of their own and those that were skipped.
func TestShadowsWithoutACallAreRead(t *testing.T) {
	traces := fleetTraces(3, 1)
	for i, tr := range slices.Clone(traces) {
		shadow := *tr
		shadow.ID, shadow.Mode, shadow.Calls, shadow.CostUSD = fmt.Sprint("shadow", i), middleware.ShadowAlternative, nil, 0
		if i == 0 {
			shadow.Chosen, shadow.Decisions, shadow.Error = "", nil, "left out: 64 shadows were waiting"
		}
		traces = append(traces, &shadow)
	}
	p, err := newViewer(Options{Traces: reader(t, traces)}).overview(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Total.Steps != 6 || p.Unread != 0 {
		t.Errorf("%d of %d steps are unread", p.Unread, p.Total.Steps)
	}
}

// Where only the free checks judge answers, nothing is measured, and nothing drifts.
func TestFreeChecksMeasureNothing(t *testing.T) {
	traces := fleetTraces(1200, 1)
	for _, tr := range traces {
		for i := range tr.Calls {
			if v := tr.Calls[i].Verdict; v != nil && v.Outcome == sdk.Failed {
				v.Verifier = "check:json"
			} else {
				tr.Calls[i].Verdict = nil
			}
		}
	}
	h := New(Options{Traces: reader(t, traces)})
	if page := get(t, h, "/trust"); strings.Contains(page, "drifted for") || !strings.Contains(page, "No answer has a verdict") {
		t.Error("free checks are taken for a measure")
	}
	if page := get(t, h, "/"); !strings.Contains(page, "Quality, estimated") || strings.Contains(page, "0 % of") {
		t.Error("free checks are taken for a measure")
	}
}

// The overview answers in order: is it worth it, where does it fail, what to change.
func TestOverviewAnswers(t *testing.T) {
	traces := fleetTraces(200, 1)
	for i := range 10 {
		traces[i].Chosen, traces[i].Stop, traces[i].Error = "", sdk.StopBudget, "a cap leaves no room"
	}
	traces[50].Calls = append(traces[50].Calls, sdk.Call{Model: "pro", Error: "529 overloaded", Latency: time.Second})
	traces[60].Calls = append(traces[60].Calls, sdk.Call{Model: "away", Error: "away: provider_unavailable: circuit open after repeated failures"})
	v := newViewer(Options{Traces: reader(t, traces)})
	p, err := v.overview(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := p.Failures
	if f == nil || f.Refused != 10 || f.Errors == 0 || f.Latency == nil || len(f.Kinds) < 2 {
		t.Fatalf("%+v", f)
	}
	for _, m := range f.Models {
		if m.Model == "away" || m.P95 < m.P50 || m.Model == "pro" && m.Errors == 0 {
			t.Errorf("%+v", m)
		}
	}
	w := httptest.NewRecorder()
	v.write(w, http.StatusOK, "overview", p)
	page, at := w.Body.String(), 0
	for _, heading := range []string{"Is it worth it?", "its cost is " + p.Result.Basis(), "Where does it fail?", "529 overloaded", "By model"} {
		next := strings.Index(page[at:], heading)
		if next < 0 {
			t.Fatalf("%q does not follow", heading)
		}
		at += next
	}
}

// Runs of the same name are distinguished by tenant.
func TestRunsOfTenantsAreToldApart(t *testing.T) {
	traces := fleetTraces(6, 1)
	for i, tr := range traces {
		tr.Run, tr.Tenant = "nightly", []string{"blue", "green"}[i%2]
	}
	h := New(Options{Traces: reader(t, traces)})
	for _, tenant := range []string{"blue", "green"} {
		page := get(t, h, "/run?name=nightly&tenant="+tenant)
		for _, tr := range traces {
			if own := strings.Contains(page, tr.ID); own != (tr.Tenant == tenant) {
				t.Errorf("%s of %s is on the page of %s: %v", tr.ID, tr.Tenant, tenant, own)
			}
		}
		if list := `"steps?run=nightly&amp;tenant=` + tenant + `"`; !strings.Contains(page, list) {
			t.Errorf("the page of %s does not link to %s", tenant, list)
		}
		if list := get(t, h, "/runs?tenant="+tenant); strings.Count(list, "run?name=nightly") != 1 {
			t.Errorf("the runs of %s are not one", tenant)
		}
	}
}

// Steps can be sorted by cost and restricted to days.
func TestStepsAreSorted(t *testing.T) {
	traces := fleetTraces(50, 1)
	v := newViewer(Options{Traces: reader(t, traces)})
	p, err := v.makeSteps(t.Context(), pageQuery{Sort: "cost"}, 10)
	if err != nil || len(p.Steps) != 10 || p.Sorted != 50 {
		t.Fatal(len(p.Steps), p.Sorted, err)
	}
	dearest := 0.0
	for _, tr := range traces {
		dearest = max(dearest, tr.CostUSD)
	}
	if math.Abs(p.Steps[0].CostUSD-dearest) > 1e-9 || p.Steps[9].CostUSD > p.Steps[0].CostUSD {
		t.Errorf("the first costs %v, the dearest %v", p.Steps[0].CostUSD, dearest)
	}
	if page := get(t, New(Options{Traces: reader(t, traces)}), "/steps?since=2001-01-01&until=2001-01-02"); !strings.Contains(page, "No steps.") {
		t.Error("there are steps of a day that had none")
	}
}

// A page with nothing to compare says how to compare, and an empty one how to fill it.
func TestEmptyPagesSayHowToFillThem(t *testing.T) {
	empty := get(t, New(Options{Traces: reader(t, nil)}), "/compare")
	if !strings.Contains(empty, "--against policy.hcl") {
		t.Error("a page with nothing to compare does not say how to fill it")
	}
	if page := get(t, New(Options{Traces: reader(t, nil)}), "/"); !strings.Contains(page, "stepfall demo") {
		t.Error("an empty page does not say how to fill it")
	}
}

// A reported verdict on a run is not listed as a step, and a rejected draft is not counted as an answer of its tenant
// or run.
func TestSumsAndListsCountAnswers(t *testing.T) {
	draft := sdk.Call{Model: "small", Answer: "a", Verdict: &sdk.Verdict{Verifier: "tests", Outcome: sdk.Failed}}
	used := sdk.Call{Model: "large", Answer: "b", Verdict: &sdk.Verdict{Verifier: "tests", Outcome: sdk.Passed}}
	traces := []*sdk.Trace{
		{ID: "0a", Run: "r", Tenant: "blue", Start: fleetBegin, Chosen: "large", Calls: []sdk.Call{draft, used}},
		{ID: "0b", Run: "r", Tenant: "blue", Start: fleetBegin.Add(time.Second), Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: sdk.Passed}},
	}
	l := reader(t, traces)
	listed, err := l.Steps(t.Context(), store.Filter{})
	if err != nil || len(listed) != 1 || listed[0].ID != "0a" {
		t.Errorf("listed %v, %v", listed, err)
	}
	runs, err := l.Runs(t.Context(), store.Filter{})
	if err != nil || len(runs) != 1 || runs[0].Passed != 1 || runs[0].Rejected != 0 {
		t.Errorf("the run has %+v, %v; want one answer that passed", runs, err)
	}
	models, err := l.Sums(t.Context(), []store.Dimension{store.ByModel}, store.Filter{Model: "small"})
	if err != nil || len(models) != 1 || models[0].Rejected != 1 {
		t.Errorf("the small model has %+v, %v; want one rejected draft", models, err)
	}
}

// The pages account for each verdict on a run, whenever it arrives and whatever its policy.
func TestVerdictsOnRunsReachTheirAccount(t *testing.T) {
	const runs = 60
	var traces []*sdk.Trace
	add := func(run int, mode string, start time.Time, policy string, verdict *sdk.Verdict) {
		id := fmt.Sprintf("%016x", uint64(len(traces)+1)*0x9e3779b97f4a7c15)
		traces = append(traces, &sdk.Trace{ID: id, Start: start, Mode: mode, Run: fmt.Sprint("run", run), Policy: policy, Verdict: verdict})
	}
	day := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)
	for run := range runs {
		for range 3 {
			add(run, "", day, "a", nil)
		}
		add(run, sdk.ModeVerdict, day.Add(time.Duration(run%2)*2*time.Hour), "", &sdk.Verdict{Outcome: sdk.Passed})
	}
	add(runs, sdk.ModeVerdict, day, "", &sdk.Verdict{Outcome: sdk.Failed}) // a run that nobody made
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	if err := os.WriteFile(path, lines(t, traces), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLines(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := (&ledger{from: &sampler{from: l}}).account(t.Context(), &store.Filter{}, int64(len(traces)))
	if err != nil {
		t.Fatal(err)
	}
	if r := a.Result(); r.Runs.N != runs || r.Runs.Mean != 1 {
		t.Errorf("%+v, want %d runs, all passed", r.Runs, runs)
	}
}

// A run's page, and that of the report itself, show the reported outcome, reporter and reason.
func TestARunsPageShowsItsVerdict(t *testing.T) {
	traces := fleetTraces(30, 1)
	run, tenant := traces[0].Run, traces[0].Tenant
	for i, v := range []*sdk.Verdict{{Outcome: sdk.Failed, Verifier: "ci"}, {Outcome: sdk.Passed, Verifier: "ada", Evidence: "the export <b>came</b> in time"}} {
		report, err := step.VerdictTrace(run, tenant, v)
		if err != nil {
			t.Fatal(err)
		}
		report.Start = fleetBegin.Add(time.Duration(1000+i) * time.Hour)
		traces = append(traces, report)
	}
	other, err := step.VerdictTrace(run, "another", &sdk.Verdict{Outcome: sdk.Failed, Verifier: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	handler := New(Options{Traces: reader(t, append(traces, other))})
	page := get(t, handler, "/run?name="+run+"&tenant="+tenant)
	for _, want := range []string{"Reported verdict:", "passed</span>", "by <bdi>ada</bdi>", "the export &lt;b&gt;came&lt;/b&gt; in time"} {
		if !strings.Contains(page, want) {
			t.Errorf("the run's page lacks %q", want)
		}
	}
	if strings.Contains(page, "stranger") {
		t.Error("the run's page shows the verdict on another tenant's run")
	}
	page = get(t, handler, "/step?id="+traces[len(traces)-1].ID)
	if !strings.Contains(page, "was reported as passed by ada: the export") || strings.Contains(page, "No model was asked") {
		t.Error("the page of the report does not say what it is")
	}
}

// entriesOf returns traces as a store records them.
func entriesOf(traces []*sdk.Trace) []store.Entry {
	entries := make([]store.Entry, len(traces))
	for i, t := range traces {
		entries[i].Trace = t
	}
	return entries
}
