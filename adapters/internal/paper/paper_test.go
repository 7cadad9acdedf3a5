package paper_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/paper"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// made returns outcomes of n queries in two groups by the models of the project's small
// sets, with all that the presets read.
func made(n int) *outcome.Table {
	rng := rand.New(rand.NewPCG(7, 8))
	t := &outcome.Table{Signals: map[string][][]float64{"api_calls": nil}}
	for _, set := range []string{"llama", "gemma", "5"} {
		for _, m := range outcome.Sets()[set] {
			if !slices.Contains(t.Models, m) {
				t.Models = append(t.Models, m)
			}
		}
	}
	k := len(t.Models)
	for q := range n {
		t.Queries = append(t.Queries, fmt.Sprintf("q%d", q))
		t.Groups = append(t.Groups, []string{"sums", "proofs"}[q%2])
		ease := rng.NormFloat64()
		quality, cost, in, out, calls := make([]float64, k), make([]float64, k), make([]float64, k), make([]float64, k), make([]float64, k)
		answers := make([]string, k)
		for m := range k {
			answers[m] = fmt.Sprint("wrong", rng.IntN(3))
			if ease+rng.NormFloat64()+0.3*float64(m)-1 > 0 {
				quality[m], answers[m] = 1, "right"
			}
			in[m], out[m] = 50, math.Round(100*math.Exp(0.3*rng.NormFloat64()))
			cost[m] = (in[m] + out[m]) * math.Pow(2, float64(m)) / 1e6
			calls[m] = float64(1 + rng.IntN(20))
		}
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
		t.InputTokens, t.OutputTokens, t.Answers = append(t.InputTokens, in), append(t.OutputTokens, out), append(t.Answers, answers)
		t.Signals["api_calls"] = append(t.Signals["api_calls"], calls)
	}
	return t
}

// queries is the number of queries of presets that fit for many settings. The others have 40.
var queries = map[string]int{"heatmap": 16, "routerbench": 24, "mathcode": 24}

func env(preset string) *paper.Env {
	n := cmp.Or(queries[preset], 40)
	questions, verified := made(n), made(40)
	verified.Verified, verified.Answers = true, nil
	judged := &paper.Data{Table: verified, Name: "verified.csv", Hash: "bbbbbbbbbbbbbbbb"}
	return &paper.Env{
		Questions: &paper.Data{Table: questions, Name: "questions.csv", Hash: "aaaaaaaaaaaaaaaa"},
		Verified:  judged, Agents: []*paper.Data{judged},
		Splits: 1, Bootstrap: 8, Seed: 3,
	}
}

// run runs a preset with that many cores, and .
func run(t *testing.T, p paper.Preset, cores int) *paper.Page {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	e := env(p.Name)
	page, err := p.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// all are the rows of the paper's tables and ours.
var all = []string{
	"linear_interpolation", "best_single", "random", "route", "threshold", "cascade", "cascade_route",
	"cascade_route_scaled", "cascade_route_dependent", "index", "oracle",
}

// rowsOf lists, by page, the rows that each of its first tables must have.
var rowsOf = map[string][]string{
	"routerbench": all, "swebench": all, "mathcode": all, "classification": all, "openform": all, "curves": all,
	"ablation": {
		"cascade_route", "cascade_route_slow", "cascade_route_greedy", "cascade_route_no_expect", "cascade_route_depth3",
		"cascade_route_scaled", "index_independent",
	},
	"runtime":  {"2", "11", "80"},
	"heatmap":  nil,
	"pacing":   {"random", "sorted: one group after the other", "bursts of 25 of one group"},
	"promises": {"quality of the best model less 5 points", "as good as the best model to within 2 points", "at most 10 % of the answers served as good are wrong"},
}

// headsOf lists the required headings of tables.
var headsOf = map[string][]string{
	"routerbench":    {"3 low", "3 medium", "3 high", "5 low", "5 medium", "5 high"},
	"swebench":       {"5 models", "9 models", "USD at its quality", "2-sigma"},
	"mathcode":       {"all", "proofs", "sums"},
	"classification": {"all", "proofs", "sums"},
	"openform":       {"all", "proofs", "sums"},
	"ablation":       {"3 models: AUC %", "time of a decision"},
	"runtime":        {"slow, µs", "max depth 3, µs", "greedy, µs", "no_expect, µs"},
	"curves":         {"AUC %", "CPT50 %"},
}

var times = regexp.MustCompile(`[0-9.]+ µs`)

func TestPresets(t *testing.T) {
	slow := []string{"curves", "heatmap", "promises", "routerbench"} // seconds each
	for _, p := range paper.Presets() {
		t.Run(p.Name, func(t *testing.T) {
			if testing.Short() && p.Name != "swebench" {
				t.Skip("one experiment is enough where tests take ten times as long")
			}
			if at := slices.Index(slow, p.Name); at >= 0 && os.Getenv("STEPFALL_ATTACKS") != "all" && int(time.Now().Unix()/(24*60*60))%len(slow) != at {
				t.Skip("STEPFALL_ATTACKS is not all: another slow experiment has the day")
			}
			page := run(t, p, 1)
			body := page.Body.String()
			for _, row := range rowsOf[p.Name] {
				if !strings.Contains(body, "\n| "+row+" | ") {
					t.Errorf("no row %q in\n%s", row, body)
				}
			}
			for _, head := range headsOf[p.Name] {
				if !strings.Contains(body, " "+head+" |") {
					t.Errorf("no column %q in\n%s", head, body)
				}
			}
			if p.Name != "runtime" && p.Name != "board" && !regexp.MustCompile(fmt.Sprintf(`\.csv \((%d|40) queries, `, queries[p.Name])).MatchString(body) {
				t.Errorf("the page does not say which data it is of:\n%s", body)
			}
			drawHalves(t, page)
			if p.Name == "runtime" {
				return // nothing but times
			}
			// The others run their studies one after the other, as swebench does.
			if !slices.Contains([]string{"swebench", "pacing"}, p.Name) {
				return
			}
			if again := run(t, p, 4).Body.String(); times.ReplaceAllString(again, "") != times.ReplaceAllString(body, "") {
				t.Errorf("four cores:\n%s\none core:\n%s", again, body)
			}
		})
	}
}

// drawHalves writes the page and decodes its figures.
func drawHalves(t *testing.T, page *paper.Page) {
	t.Helper()
	dir := t.TempDir()
	if err := page.Write(dir, "made of a"); err != nil {
		t.Fatal(err)
	}
	if !paper.IsCurrent(dir, page.Name, "made of a") || paper.IsCurrent(dir, page.Name, "made of b") {
		t.Error("a page is not known by its stamp")
	}
	for _, f := range page.Figures {
		name := filepath.Join(dir, "figures", f.Name)
		picture, err := os.ReadFile(name + ".png")
		if err != nil {
			t.Fatal(err)
		}
		if image, err := png.Decode(bytes.NewReader(picture)); err != nil || image.Bounds().Dx() < 400 {
			t.Errorf("%s.png: %v", f.Name, err)
		}
		drawing, err := os.ReadFile(name + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(drawing)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s.svg: %v", f.Name, err)
			}
		}
		if !strings.Contains(page.Body.String(), "figures/"+f.Name+".svg") {
			t.Errorf("the page does not show %s", f.Name)
		}
	}
}

func TestPresetsStopWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, p := range paper.Presets() {
		if testing.Short() && p.Name != "swebench" || p.Name == "board" {
			continue
		}
		if _, err := p.Run(ctx, env(p.Name)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// The board reads what its folders have, lists what is missing, and is the same on any number of cores.
func TestBoard(t *testing.T) {
	dir := t.TempDir()
	table := made(40)
	table.Answers, table.Signals = nil, nil
	file, err := os.Create(filepath.Join(dir, "swebench_verified.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := table.WriteCSV(file); err != nil {
		t.Fatal(err)
	}
	p, err := paper.Find("board")
	if err != nil {
		t.Fatal(err)
	}
	var bodies []string
	for _, cores := range []int{1, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		page, err := p.Run(t.Context(), &paper.Env{Folders: paper.Folders{Data: dir, Shipped: dir}, Splits: 1, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		drawHalves(t, page)
		bodies = append(bodies, page.Body.String())
	}
	if bodies[0] != bodies[1] {
		t.Errorf("one core:\n%s\nfour cores:\n%s", bodies[0], bodies[1])
	}
	for _, want := range []string{
		"Read from the repository: nothing. Read from a folder: swebench_verified.csv (sha256 ",
		"Not found, and left out: SWE-bench Verified, OpenHands; ", "over all 14 cells", "\n| index minus | SWE |\n",
		"\n| cascade routing, published | ", "\n| router, boosted trees | ", "`swebench_verified.csv`, 40 queries, 9 models.",
	} {
		if !strings.Contains(bodies[0], want) {
			t.Errorf("the board does not say %q:\n%s", want, bodies[0])
		}
	}
}

// Presets prefer the user's own tables, and say so.
func TestOwnTablesComeFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("one experiment is enough where tests take ten times as long")
	}
	e := env("routerbench")
	own, err := e.Questions.Table.Select(e.Questions.Table.Models[:3]...)
	if err != nil {
		t.Fatal(err)
	}
	e.Own = []*paper.Data{{Table: own, Name: "0shot.csv", Hash: "cccccccccccccc"}, {Table: own, Name: "5shot.csv", Hash: "dddddddddddddd"}}
	e.TrainShare = 0.5
	p, err := paper.Find("routerbench")
	if err != nil {
		t.Fatal(err)
	}
	page, err := p.Run(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## AUC on 0shot.csv", "## AUC on 5shot.csv"} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("no section %q", want)
		}
	}
	if strings.Contains(page.Body.String(), "questions.csv") {
		t.Error("the page is of the project's data in place of the user's")
	}
}

func TestPresetsSayWhatTheyLack(t *testing.T) {
	for _, p := range paper.Presets() {
		if err := p.Check(&paper.Env{}); (err == nil) != (p.Name == "runtime" || p.Name == "board") {
			t.Errorf("%s without data: %v", p.Name, err)
		}
	}
	if _, err := paper.Find("table9"); err == nil || !strings.Contains(err.Error(), "swebench") {
		t.Errorf("an unknown experiment: %v", err)
	}
}
