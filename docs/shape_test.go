package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table at the head of the README is that of the board.
func TestHeadlineIsMeasured(t *testing.T) {
	readme, page := text(t, "README.md"), text(t, "docs/results/board.md")
	const cost = "cost at the best model's quality, hindsight"
	for _, board := range []struct{ title, line string }{
		{"SWE-bench Verified, mini-SWE-agent", "| SWE-bench Verified, mini-SWE-agent, 2025 | 24 |"},
		{"SWE-bench Verified, OpenHands", "| SWE-bench Verified, OpenHands, 2026 | 34 |"},
		{"SWT-bench, OpenHands", "| SWT-bench, OpenHands, 2026 | 32 |"},
		{"MCPMark, every effort an arm", "| MCPMark, every effort an arm, 2025 | 39 |"},
	} {
		_, part, _ := strings.Cut(page, "\n## "+board.title+"\n")
		methods := rows(t, part, "method")
		want := board.line + " " + methods["index"]["chosen on train"] + " |"
		for _, name := range []string{"index", "threshold cascade", "best cascade of two models", "cascade routing, published"} {
			want += " " + methods[name][cost] + " |"
		}
		if !strings.Contains(readme, want) {
			t.Errorf("README.md does not say %q, which the board does", want)
		}
	}
	cells := regexp.MustCompile("`index` is ahead in (\\d+) of (\\d+) cells, behind in (\\d+)").FindStringSubmatch(page)
	if cells == nil || !strings.Contains(readme, "ahead in "+cells[1]+" of "+cells[2]) {
		t.Errorf("README.md does not say in how many cells index is ahead: %v", cells)
	}
	if results := text(t, "docs/results/README.md"); cells != nil && !strings.Contains(results, "of "+cells[2]+" cells of a method on a table, `index` is ahead in "+cells[1]+", behind in "+cells[3]) {
		t.Errorf("docs/results/README.md does not say in how many cells index is ahead: %v", cells)
	}
}

// What pages say of the bench of agents is what its page has.
func TestBenchIsQuoted(t *testing.T) {
	measured := rows(t, text(t, "docs/results/agents-bench.md"), "road")
	for _, quote := range []struct{ page, road, points string }{
		{"docs/start.md", "`policy init` as it comes", ""},
		{"docs/start.md", "`policy init --judge model`", ""},
		{"docs/middleware.md", "`Wrap` of these with a `Verify` that looks at final answers", ""},
		{"docs/first-party-plugins.md", "estimator-logprob, trained on steps that a model judged", "1.9 points"},
		{"docs/operating.md", "shadow, fit, enforce; a model judges", "5.3 points"},
		{"docs/operating.md", "shadow, fit, enforce; nothing judges", "0.8 points"},
		{"docs/operating.md", "shadow, fit, enforce; verdicts on the runs, `--as-good-as large --margin 0.1`", ""},
		{"docs/operating.md", "shadow, fit, enforce; verdicts on the runs, `--as-good-as large --margin 0.15`", "1.4 points"},
		{"docs/first-party-plugins.md", "verifier-schema", ""},
		{"docs/first-party-plugins.md", "verifier-schema, `may_pass`", "10.6 points"},
		{"docs/first-party-plugins.md", "verifier-judge, the small model judges", ""},
		{"docs/first-party-plugins.md", "agreement of gpt-4.1-mini and mistral-small-latest", ""},
	} {
		row := measured[quote.road]
		page := text(t, quote.page)
		if row == nil || !strings.Contains(page, row["cost of always large"]) {
			t.Errorf("%s does not say of %q that it costs %q", quote.page, quote.road, row["cost of always large"])
		}
		if beside, _, _ := strings.Cut(row["beside always large, points"], " "); quote.points != "" && (!strings.Contains(page, quote.points) || "-"+strings.Fields(quote.points)[0] != beside) {
			t.Errorf("%s says %s of %q, the bench %s", quote.page, quote.points, quote.road, beside)
		}
	}
	readme := text(t, "README.md")
	for _, road := range []string{"always claude-sonnet-4-5", "always gpt-4.1-mini", "always mistral-small-latest", "`policy init` as it comes"} {
		cost, _, _ := strings.Cut(measured[road]["cost of always large"], " %")
		if !strings.Contains(readme, measured[road]["runs right"]) || !strings.Contains(readme, cost+" %") {
			t.Errorf("README.md does not have %s and %s %% of %q", measured[road]["runs right"], cost, road)
		}
	}
}

// The table of promises on the page on the fit is that of the page on promises, row by
// row.
func TestPromisesAreMeasured(t *testing.T) {
	guide, page := text(t, "docs/estimators-and-fit.md"), text(t, "docs/results/promises.md")
	for board, name := range map[string]string{
		"swebench_verified.csv": "SWE-bench Verified, 24", "openhands_swe.csv": "OpenHands on SWE-bench, 34", "openhands_swt.csv": "OpenHands on SWT-bench, 32",
	} {
		_, part, _ := strings.Cut(page, "\n## "+board)
		_, lines, found := strings.Cut(guide, "\n| "+name)
		if !found {
			t.Errorf("the page on the fit has no row on %s", name)
			continue
		}
		measured := rows(t, part, "promise")
		for i, promise := range []string{"quality of the best model less 5 points", "as good as the best model to within 2 points"} {
			row := measured[promise]
			want := "| " + promise + " | " + row["made on"] + " | " + row["broken on"] + " | " + row["cost over the oracle's, median"] + " |"
			if got := strings.SplitN(lines, "\n", 3)[i]; row == nil || !strings.HasSuffix(got, want) {
				t.Errorf("%s: the page on the fit says %q, the page on promises %q", name, got, want)
			}
		}
	}
}

// Every example is short, has a page with four commands (changing to its folder
// apart) and stands in the list of examples.
func TestExamplesAreShort(t *testing.T) {
	list := text(t, "examples/README.md")
	folders, err := filepath.Glob(filepath.Join(root, "examples", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) < 10 {
		t.Errorf("only %d examples", len(folders))
	}
	for _, main := range folders {
		folder, _ := filepath.Rel(root, filepath.Dir(main))
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				lines += strings.Count(text(t, strings.TrimPrefix(f, root)), "\n")
			}
		}
		if lines > 150 {
			t.Errorf("%s has %d lines of Go", folder, lines)
		}
		if _, err := os.Stat(filepath.Join(root, folder, "policy.hcl")); err != nil {
			t.Errorf("%s has no policy.hcl", folder)
		}
		_, blocks := read(t, filepath.Join(folder, "README.md"))
		if len(blocks) == 0 || !strings.HasPrefix(blocks[0].text, "cd "+folder+"\n") {
			t.Errorf("%s/README.md does not begin with cd %s", folder, folder)
		} else if n := strings.Count(blocks[0].text, "\n") - 1; n < 3 || n > 4 {
			t.Errorf("%s/README.md has %d commands", folder, n)
		}
		if name := filepath.Base(folder); !strings.Contains(list, "["+name+"]("+name+")") {
			t.Errorf("examples/README.md does not list %s", name)
		}
	}
}

// No page of docs/ is left out: another one links to it.
func TestPagesAreLinked(t *testing.T) {
	linked := map[string]bool{}
	for _, page := range pages(t) {
		prose, _ := read(t, page)
		for _, m := range linkPattern.FindAllStringSubmatch(prose, -1) {
			target, _, _ := strings.Cut(m[1]+m[2], "#")
			if to := filepath.Join(filepath.Dir(page), target); target != "" && to != page {
				linked[to] = true
			}
		}
	}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs"+string(filepath.Separator)) && !linked[page] {
			t.Errorf("no page links to %s", page)
		}
	}
}

// Every picture is shown somewhere.
func TestPicturesAreShown(t *testing.T) {
	pictures, err := filepath.Glob("pictures/*.svg")
	if err != nil || len(pictures) < 3 {
		t.Fatalf("%d pictures, %v", len(pictures), err)
	}
	var all strings.Builder
	for _, page := range pages(t) {
		all.WriteString(text(t, page))
	}
	for _, picture := range pictures {
		if !strings.Contains(all.String(), picture+")") {
			t.Errorf("no page shows docs/%s", picture)
		}
	}
}

func text(t *testing.T, page string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// rows returns the cells of the first table whose head begins with a word, by the
// first cell of their row and the head of their column.
func rows(t *testing.T, page, head string) map[string]map[string]string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(head) + ` \|.*\n(?:\|.*\n)+`).FindString(page)
	lines := strings.Split(strings.TrimSpace(found), "\n")
	if len(lines) < 3 {
		t.Fatalf("no table of %s", head)
	}
	heads := cells(lines[0])
	result := map[string]map[string]string{}
	for _, line := range lines[2:] {
		row := map[string]string{}
		for i, cell := range cells(line) {
			row[heads[i]] = cell
		}
		result[row[head]] = row
	}
	return result
}

func cells(line string) []string {
	parts := strings.Split(strings.Trim(line, "|"), "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
