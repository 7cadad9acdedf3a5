package docs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/policies"
)

const root = ".."

// block is a fenced block of a page.
type block struct {
	page string
	line int
	lang string
	text string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// pages returns the Markdown files of the project, relative to its root.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == "dist" || d.Name() == "testdata" ||
			d.Name() == "node_modules" || (strings.HasPrefix(d.Name(), ".") && rel != "." && d.Name() != ".github")) {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".md") {
			found = append(found, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 3 {
		t.Fatalf("found only %d pages", len(found))
	}
	return found
}

// read returns the page's text with fenced blocks cut out, and the blocks.
func read(t *testing.T, page string) (prose string, blocks []block) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out, body strings.Builder
	var fence string
	var at block
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for n := 1; scanner.Scan(); n++ {
		line := scanner.Text()
		trimmed := strings.TrimSpace(line)
		switch {
		case fence == "" && strings.HasPrefix(trimmed, "```"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
			at = block{page: page, line: n, lang: strings.TrimSpace(strings.TrimLeft(trimmed, "`"))}
			body.Reset()
		case fence != "" && trimmed == fence:
			at.text = body.String()
			blocks = append(blocks, at)
			fence = ""
		case fence != "":
			body.WriteString(line + "\n")
		default:
			out.WriteString(line + "\n")
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if fence != "" {
		t.Errorf("%s: the block is never closed", at)
	}
	return out.String(), blocks
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)(?:\s+"[^"]*")?\)|(?:src|href)="([^"]+)"`)
	codePattern    = regexp.MustCompile("`[^`\n]*`")
	headingPattern = regexp.MustCompile(`(?m)^#{1,6}\s+(.+?)\s*$`)
)

// anchors returns the anchors of a page's headings, as GitHub names them.
func anchors(prose string) map[string]bool {
	found := map[string]bool{}
	for _, m := range headingPattern.FindAllStringSubmatch(prose, -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		name := slug(title)
		for i := 1; found[name]; i++ {
			name = fmt.Sprintf("%s-%d", slug(title), i)
		}
		found[name] = true
	}
	return found
}

// slug returns the anchor of a heading, as GitHub makes it.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, title)
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		prose, _ := read(t, page)
		for _, m := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(prose, ""), -1) {
			link := m[1] + m[2]
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			target, anchor, _ := strings.Cut(link, "#")
			to := page
			if target != "" {
				to = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, link)
				continue
			}
			if anchor == "" || !strings.HasSuffix(to, ".md") {
				continue
			}
			if there, _ := read(t, to); !anchors(there)[anchor] {
				t.Errorf("%s links to %s: %s has no such heading", page, link, to)
			}
		}
	}
}

var cellBorder = regexp.MustCompile(`(?:^|[^\\])\|`)

// Every row of a table has as many cells as its head, and the head is underlined:
// otherwise it is shown as text.
func TestTablesAreWhole(t *testing.T) {
	for _, page := range pages(t) {
		prose, _ := read(t, page)
		for _, fault := range tableFaults(prose) {
			t.Errorf("%s: %s", page, fault)
		}
	}
	for _, broken := range []string{"| a | b |\n| 1 | 2 |\n", "| a | b |\n| --- | --- |\n| 1 |\n", "text\n| a |\n| --- |\n"} {
		if len(tableFaults(broken)) == 0 {
			t.Errorf("no fault found in %q", broken)
		}
	}
}

func tableFaults(prose string) (faults []string) {
	row, cells, before := 0, 0, ""
	for line := range strings.Lines(prose) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			row, before = 0, line
			continue
		}
		row++
		got := len(cellBorder.FindAllString(line, -1))
		switch {
		case row == 1 && before != "":
			faults = append(faults, "no empty line before the table "+line)
		case row == 2 && strings.Trim(line, "|-: ") != "":
			faults = append(faults, "no line below the head of the table that has "+line)
		case row > 1 && got != cells:
			faults = append(faults, fmt.Sprintf("%d cells and not %d in %s", got-1, cells-1, line))
		}
		if row == 1 {
			cells = got
		}
	}
	return faults
}

// goFiles returns the lines, trimmed, of every Go file of the project and of the
// walks, joined.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") || filepath.Dir(path) == filepath.Join(root, "docs", "walks") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files = append(files, "\n"+trimLines(string(text)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func trimLines(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// A Go block is a whole program, and compiles, or stands word for word in a Go
// file of the project, which the other tests compile and run. Lines of an
// ellipsis part a block into excerpts.
func TestGoBlocksAreRealCode(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles programs")
	}
	files := goFiles(t)
	overlay := map[string]string{}
	var targets []string
	dir := t.TempDir()
	for _, page := range pages(t) {
		_, blocks := read(t, page)
		for _, b := range blocks {
			if b.lang != "go" {
				continue
			}
			if strings.HasPrefix(b.text, "package ") && strings.Contains(b.text, "\nfunc main() {") {
				name := fmt.Sprintf("block%d", len(targets))
				file := filepath.Join(dir, name+".go")
				if err := os.WriteFile(file, []byte("//line "+b.String()+"\n"+b.text), 0o600); err != nil {
					t.Fatal(err)
				}
				here, err := filepath.Abs(filepath.Join(root, "examples", "docs-check", name, "main.go"))
				if err != nil {
					t.Fatal(err)
				}
				overlay[here] = file
				targets = append(targets, "./examples/docs-check/"+name)
				continue
			}
			for _, part := range regexp.MustCompile(`(?m)^\s*(//\s*)?(…|\.\.\.)\s*$`).Split(b.text, -1) {
				want := "\n" + trimLines(part)
				if !containsAny(files, want) {
					t.Errorf("%s: this Go code stands in no Go file of the project:\n%s", b, part)
				}
			}
		}
	}
	if len(targets) == 0 {
		return
	}
	config, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, config, 0o600); err != nil {
		t.Fatal(err)
	}
	// It compiles and does not link.
	cmd := exec.Command("go", append([]string{"list", "-export", "-f", "{{.Name}}", "-overlay", overlayFile}, targets...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the programs in the pages do not compile: %v\n%s", err, out)
	}
}

func containsAny(files []string, want string) bool {
	for _, f := range files {
		if strings.Contains(f, want) {
			return true
		}
	}
	return false
}

// made makes a folder of what `make build` makes, once for all tests that need it.
var made func() (dir string, err error)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "stepfall-docs")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		made = sync.OnceValues(func() (string, error) {
			mains, err := filepath.Glob("../plugins/*-*/main.go")
			if err != nil {
				return "", err
			}
			var plugins []string
			for _, main := range mains {
				plugins = append(plugins, filepath.Base(filepath.Dir(main)))
			}
			return dir, errors.Join(programs.Into(dir, "stepfall"), programs.Into(filepath.Join(dir, "plugins"), plugins...))
		})
		return m.Run()
	}())
}

// built returns a folder with the command, and in plugins/ the plugins.
func built(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the command and the plugins")
	}
	dir, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Every module that the command or a plugin links is in the report on licences.
func TestLicencesAreReported(t *testing.T) {
	report, err := os.ReadFile("licences.csv")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./adapters/cli/stepfall", "./plugins/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for module := range strings.FieldsSeq(string(out)) {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(module) + `[,/]`).Match(report) {
			t.Errorf("%s is not in docs/licences.csv: make licences", module)
		}
	}
}

var (
	shownCommand = regexp.MustCompile(`^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\./|\S*/)?(stepfall|make)\s+([a-z].*)$`)
	flagPattern  = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z0-9-]*)`)
)

// Every stepfall and make command in a shell block exists, with its flags.
func TestShownCommandsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	help := map[string]string{}
	for _, page := range pages(t) {
		_, blocks := read(t, page)
		for _, b := range blocks {
			switch b.lang {
			case "sh", "shell", "bash", "console":
			default:
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				m := shownCommand.FindStringSubmatch(strings.TrimSpace(line))
				if m == nil || (b.lang == "console" && !strings.HasPrefix(strings.TrimSpace(line), "$")) {
					continue
				}
				if m[1] == "make" {
					for target := range strings.FieldsSeq(m[2]) {
						if strings.ContainsAny(target, "=#|&;><") {
							break
						}
						if !bytes.Contains(makefile, []byte("\n"+target+":")) {
							t.Errorf("%s shows `make %s`, which the Makefile does not have", b, target)
						}
					}
					continue
				}
				checkCommand(t, b, m[2], help)
			}
		}
	}
}

// checkCommand asks the command for the help of the longest chain of leading
// words that it knows, and looks for each flag there.
func checkCommand(t *testing.T, b block, line string, help map[string]string) {
	t.Helper()
	if cut := strings.IndexAny(line, "|&;><#"); cut >= 0 {
		line = line[:cut]
	}
	var words []string
	for w := range strings.FieldsSeq(line) {
		if !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(w) || len(words) == 3 {
			break
		}
		words = append(words, w)
	}
	var text string
	for n := len(words); n > 0 && text == ""; n-- {
		key := strings.Join(words[:n], " ")
		if _, known := help[key]; !known {
			var out bytes.Buffer
			code := cli.Run(t.Context(), append(words[:n:n], "--help"), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
			usage := out.String()
			if code != 0 || !strings.Contains(usage, "stepfall "+key) {
				usage = ""
			}
			help[key] = usage
		}
		text = help[key]
	}
	if text == "" {
		t.Errorf("%s shows `stepfall %s`: there is no such command", b, line)
		return
	}
	for _, m := range flagPattern.FindAllStringSubmatch(line, -1) {
		if !strings.Contains(text, m[1]) {
			t.Errorf("%s shows `stepfall %s`: the command has no flag %s", b, line, m[1])
		}
	}
}

// surroundings are what a piece of a policy stands in when it is checked: two
// models and a strategy, as far as the piece does not bring its own.
var surroundings = []struct{ unless, text string }{
	{"(?m)^model ", `
model "small" {
  provider = "go"
  price {
    free = true
  }
}
model "large" {
  provider = "go"
  price {
    input_usd_per_million  = 3
    output_usd_per_million = 15
  }
  max_output_tokens = 8192
}
`},
	{"(?m)^strategy ", "\nstrategy \"cascade_route\" {\n  lambda = 1\n}\n"},
}

// embedder is a model that makes embeddings: beside it there must be one that answers.
var embedder = regexp.MustCompile(`(?m)^model "[^"]*" \{[^{}]*"embeddings"[^{}]*(\{[^{}]*\}[^{}]*)?\}`)

// Every policy, and every piece of one, loads without an error.
// surrounded adds to a policy what it refers to and does not show.
func surrounded(text string) string {
	answers := embedder.ReplaceAllString(text, "")
	for _, s := range surroundings {
		if !regexp.MustCompile(s.unless).MatchString(answers) {
			text += s.text
		}
	}
	return text
}

func TestPoliciesInPagesLoad(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		_, blocks := read(t, page)
		for _, b := range blocks {
			if b.lang != "hcl" {
				continue
			}
			_, err := policies.Parse(filepath.Join(root, filepath.Dir(page), "policy.hcl"), []byte(surrounded(b.text)), policies.LoadOptions{
				Env: []string{"OPENAI_API_KEY=none", "ANTHROPIC_API_KEY=none"}, WithoutProfile: true,
			})
			if err != nil {
				t.Errorf("%s: %v", b, err)
			}
			checked++
		}
	}
	t.Logf("%d policies", checked)
}
