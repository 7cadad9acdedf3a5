package docs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/stepfall/stepfall/adapters/scripted"
)

var (
	update = flag.Bool("update", false, "write the new user's log anew; times of commands that it has are kept")
	fresh  = flag.Bool("fresh", false, "with -update: walk in a clone, with empty caches, and time everything")
)

const (
	logPage = "new-user-log.md"
	preface = `# Walkthroughs

What each first step prints, and how many seconds it takes.
%s

No API key is needed: ` + "`OPENAI_BASE_URL` points at [scripted models](../adapters/scripted)" + `, whose answers are the same each time.
Everything else is real. ` + "`make new-user-log`" + ` writes this page from [walks/](walks); ` + "`make docs-check`" + ` runs the commands again and fails
if one fails or prints something else.

`
)

// walk is one file of walks/: a title, then prose, commands (after a dollar) and
// files to be written, in the order in which a newcomer meets them.
type walk struct {
	name  string
	title string
	lines []string
	files map[string]string
}

func readWalks(t *testing.T) []walk {
	t.Helper()
	paths, err := filepath.Glob("walks/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no walks: %v", err)
	}
	walks := make([]walk, len(paths))
	for i, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		title, rest, _ := strings.Cut(string(archive.Comment), "\n")
		walks[i] = walk{
			name: strings.TrimSuffix(filepath.Base(path), ".txtar"), title: strings.TrimPrefix(title, "# "),
			lines: strings.Split(strings.TrimSpace(rest), "\n"), files: map[string]string{},
		}
		for _, f := range archive.Files {
			walks[i].files[f.Name] = string(f.Data)
		}
	}
	return walks
}

// ran is what one command of a walk did.
type ran struct {
	output  string
	seconds float64
}

// run walks: one shell goes through the commands, so that folders and variables last.
func (w walk) run(t *testing.T, home string, env []string) []ran {
	t.Helper()
	script := "exec 2>&1\nif [ -d stepfall ]; then export OPENAI_API_KEY=none OPENAI_BASE_URL=$SCRIPTED; fi\nmark() { printf '\\001%s %s\\n' \"$1\" \"$EPOCHREALTIME\"; }\n"
	place := "cat > %s <<'END_OF_FILE'\n%sEND_OF_FILE\n"
	for _, line := range w.lines {
		if name, ok := strings.CutPrefix(line, "write "); ok {
			script += fmt.Sprintf(place, name, w.files[name])
		} else if command, ok := strings.CutPrefix(line, "$ "); ok {
			script += "mark 0\n" + command + "\nmark $?\n"
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-s")
	cmd.Dir, cmd.Env, cmd.Stdin = home, env, strings.NewReader(script)
	out, err := cmd.Output()
	if err != nil && len(out) == 0 {
		t.Fatalf("%s: %v", w.name, err)
	}
	var results []ran
	for part := range bytes.SplitSeq(out, []byte("\001")) {
		mark, output, _ := strings.Cut(string(part), "\n")
		code, at, ok := strings.Cut(mark, " ")
		var seconds float64
		if _, err := fmt.Sscanf(strings.Replace(at, ",", ".", 1), "%f", &seconds); err != nil || !ok {
			continue
		}
		if len(results) > 0 && results[len(results)-1].seconds > 1e9/2 {
			last := &results[len(results)-1]
			last.seconds = seconds - last.seconds
			if code != "0" {
				last.output += "(exit code " + code + ")\n"
			}
			continue
		}
		results = append(results, ran{tidy(output, home), seconds})
	}
	commands := slices.DeleteFunc(slices.Clone(w.lines), func(line string) bool { return !strings.HasPrefix(line, "$ ") })
	for i, r := range results {
		if r.seconds > 0.5 && i < len(commands) {
			t.Logf("%5.1f s  %s", r.seconds, commands[i])
		}
	}
	return results
}

var noise = regexp.MustCompile(`(?m)^(go: downloading|go: finding|go: found|(solving|evaluating|mending|planning) \d+/|compiled \d+ packages|go build -o|make(\[\d\])?: (Entering|Leaving)).*\n`)

// tidy makes output that may be published of what a command printed on this machine.
func tidy(output, home string) string {
	output = strings.ReplaceAll(output, home, "~")
	if i := strings.LastIndex(output, "\r"); i >= 0 { // what a progress bar wrote over
		output = regexp.MustCompile(`(?m)^.*\r`).ReplaceAllString(output, "")
	}
	return noise.ReplaceAllString(output, "")
}

// page writes the section of a walk.
func (w walk) page(results []ran, known map[string][]float64) (section string, seconds float64) {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n\n", w.title)
	open := false
	end := func() {
		if open {
			out.WriteString("```\n\n")
		}
		open = false
	}
	for _, line := range w.lines {
		command, isCommand := strings.CutPrefix(line, "$ ")
		name, isFile := strings.CutPrefix(line, "write ")
		switch {
		case isCommand:
			if !open {
				out.WriteString("```console\n")
			}
			open = true
			if len(results) == 0 {
				continue
			}
			took := results[0].seconds
			if before := known[command]; len(before) > 0 {
				took, known[command] = before[0], before[1:]
			}
			seconds += took
			out.WriteString("$ " + command)
			if took >= 0.05 {
				fmt.Fprintf(&out, "  # %.1f s", took)
			}
			out.WriteString("\n" + results[0].output)
			results = results[1:]
		case isFile:
			end()
			lang := map[string]string{".go": "go", ".hcl": "hcl"}[filepath.Ext(name)]
			if lang == "" {
				lang = "text"
			}
			fmt.Fprintf(&out, "`%s`:\n\n```%s\n%s```\n\n", name, lang, strings.TrimLeft(w.files[name], "\n"))
		case line == "":
			end()
			if !strings.HasSuffix(out.String(), "\n\n") {
				out.WriteString("\n")
			}
		default:
			end()
			out.WriteString(line + "\n")
		}
	}
	end()
	return out.String(), seconds
}

var shown = regexp.MustCompile(`(?m)^\$ (.*?)(?:  # ([\d.]+) s)?$`)

// times returns the seconds of the commands in a section, in order; those without a
// time took none.
func times(section string) map[string][]float64 {
	seconds := map[string][]float64{}
	for _, m := range shown.FindAllStringSubmatch(section, -1) {
		took, _ := strconv.ParseFloat(cmp.Or(m[2], "0"), 64)
		seconds[m[1]] = append(seconds[m[1]], took)
	}
	return seconds
}

// TestNewUserLog walks as a newcomer does, and holds the log to it.
func TestNewUserLog(t *testing.T) {
	if testing.Short() {
		t.Skip("the walks build programs and take a minute")
	}
	committed, err := os.ReadFile(logPage)
	if err != nil && !*update {
		t.Fatal(err)
	}
	on := regexp.MustCompile(`(?m)Timed .*$`).FindString(string(committed))
	if *fresh {
		load, _ := os.ReadFile("/proc/loadavg")
		average, _, _ := strings.Cut(string(load), " ")
		on = fmt.Sprintf("Timed on %s with %d cores and a load average of %s, in a clone with an empty home and empty caches.",
			time.Now().Format("2 January 2006"), runtime.NumCPU(), cmp.Or(average, "unknown"))
	}
	home, env := newcomer(t)
	var table, body strings.Builder
	table.WriteString("| walk | commands | minutes |\n| --- | --- | --- |\n")
	for i, w := range readWalks(t) {
		section := sectionOf(string(committed), w.title)
		var seconds float64
		known := times(section)
		if *fresh {
			known = nil
		}
		if *fresh || i > 0 && isTurnOf(w.name) { // the first builds and demonstrates what the others use
			section, seconds = w.page(w.run(t, home, env), known)
		} else {
			for _, took := range known {
				for _, s := range took {
					seconds += s
				}
			}
		}
		fmt.Fprintf(&table, "| [%s](#%s) | %d | %.2f |\n", w.title, slug(w.title), strings.Count(section, "\n$ "), seconds/60)
		body.WriteString(section)
	}
	page := fmt.Sprintf(preface, on) + table.String() + "\n" + strings.TrimRight(body.String(), "\n") + "\n"
	if *update {
		if err := os.WriteFile(logPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(comparable(string(committed)), comparable(page)); diff != "" {
		t.Errorf("docs/%s is not what the commands print (-log +now); when that is intended: go test ./docs -run NewUserLog -update\n%s", logPage, diff)
	}
}

// isTurnOf reports whether a walk is made: all are where every attack is tried, as in CI; otherwise those
// of this day, or of the day that the environment has the number of.
func isTurnOf(name string) bool {
	// The third and the fourth go on in the folder of the second.
	turns := [][]string{{"2-wrap", "3-plugin", "4-policy"}, {"5-fit", "6-swe"}}
	asked := os.Getenv("STEPFALL_ATTACKS")
	if asked == "all" || *update {
		return true
	}
	turn, err := strconv.Atoi(asked)
	if err != nil {
		turn = int(time.Now().Unix() / (24 * 60 * 60))
	}
	return slices.Contains(turns[turn%len(turns)], name)
}

// newcomer returns a home with the clone in it, and an environment with scripted models.
func newcomer(t *testing.T) (home string, env []string) {
	t.Helper()
	home = t.TempDir()
	server, err := scripted.Start(scripted.Options{Respond: reply})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{
		"HOME": home, "PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "STEPFALL": here, "SCRIPTED": server.URL(),
	}
	if !*fresh {
		maps.Copy(settings, goEnv(t, "GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS", "CGO_ENABLED"))
		cloneInPlace(t, here, filepath.Join(home, "stepfall"))
		keepCompiled(t, filepath.Join(home, ".cache"))
	}
	for name, value := range settings {
		env = append(env, name+"="+value)
	}
	return home, env
}

// cloneInPlace makes a folder that looks like a clone of the tree that is tested,
// with a bin/ of its own.
func cloneInPlace(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "bin" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(to, "bin"), os.DirFS(built(t))); err != nil {
		t.Fatal(err)
	}
}

// keepCompiled lends a cache folder what agents' commands and tests of answers have compiled
// of the standard library, which takes a minute from nothing. Verdicts are not lent.
func keepCompiled(t *testing.T, own string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		return
	}
	const ofAgents = "agent-go-compiled"
	if err := os.MkdirAll(filepath.Join(cache, "stepfall", ofAgents), 0o755); err != nil { // the walks fill it
		t.Fatal(err)
	}
	for _, compiled := range []string{ofAgents, "verifier-tests/go-compiled-" + goEnv(t, "GOVERSION")["GOVERSION"]} {
		kept, to := filepath.Join(cache, "stepfall", compiled), filepath.Join(own, "stepfall", compiled)
		if _, err := os.Stat(kept); err != nil {
			continue // the plugin takes a folder that is there to be filled
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Symlink(kept, to)); err != nil {
			t.Fatal(err)
		}
	}
}

func goEnv(t *testing.T, names ...string) map[string]string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for i, line := range strings.SplitN(string(out), "\n", len(names)+1)[:len(names)] {
		values[names[i]] = line
	}
	return values
}

func sectionOf(page, title string) string {
	_, rest, ok := strings.Cut(page, "## "+title+"\n")
	if !ok {
		return ""
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return "## " + title + "\n" + strings.TrimRight(body, "\n") + "\n\n"
}

var (
	changing = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)? ?(ns|µs|ms|s)\b|\(cached\)|\b[0-9a-f]{8,}\b|\b20\d\d[-/]\d\d[-/]\d\d([T ][\d:.]+Z?)?|\d\d:\d\d:\d\d|127\.0\.0\.1:\d+|/tmp/\S+`)
	// What a machine can give a jail differs.
	machine = regexp.MustCompile(`^((tests|agent's commands|tests and agent's commands) (run|ran) |  without ).*`)
	spacing = regexp.MustCompile(`[ ─]+`)
	minutes = regexp.MustCompile(`(?m)^(\| \[.*\| )[\d.]+ \|$`)
)

// comparable leaves out of a log what differs from run to run: times, hashes,
// ports, and the widths of columns, which follow from times.
func comparable(page string) []string {
	var lines []string
	for line := range strings.Lines(minutes.ReplaceAllString(page, "$1")) {
		line = strings.TrimRight(shown.ReplaceAllString(line, "$$ $1"), "\n")
		if machine.MatchString(line) {
			continue
		}
		line = changing.ReplaceAllString(line, "…")
		lines = append(lines, spacing.ReplaceAllString(line, " "))
	}
	return lines
}

// reply is what the scripted models say. The small one hedges, and leaves the
// defect where it is.
func reply(_ context.Context, req *scripted.Request) scripted.Reply {
	small := strings.Contains(req.Model, "mini")
	if len(req.Tools) == 0 {
		if small {
			return scripted.Reply{Text: "The release is perhaps delayed."}
		}
		return scripted.Reply{Text: "The release waits for Ada's licence report, due on Monday."}
	}
	if req.Messages[len(req.Messages)-1].Role == "tool" {
		return scripted.Reply{Text: "Slug no longer ends with a dash."}
	}
	mended := `return strings.TrimSuffix(out.String(), "-")`
	if small {
		mended = `return strings.TrimPrefix(out.String(), "-")`
	}
	return scripted.Reply{ToolCalls: []scripted.ToolCall{{
		ID: "call1", Name: "edit", Arguments: fmt.Sprintf(`{"path": "slug.go", "old": "return out.String()", "new": %q}`, mended),
	}}}
}
