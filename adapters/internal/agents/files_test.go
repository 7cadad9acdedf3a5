package agents

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/swe"
)

const filesSystem = `You work on files. Paths are relative. Look before you change anything. Commands are run by sh in the folder, without a network.
When all is done, answer DONE and nothing else.`

// tree is a folder: file contents by path.
type tree map[string]string

// shell runs commands on trees in the jail. Results are cached, since they depend on nothing else.
type shell struct {
	jail *swe.Jail
	dir  string
	mu   sync.Mutex
	runs map[[sha256.Size]byte]shellRun
}

type shellRun struct {
	after  tree
	output string
}

// folder is the world of one task.
type folder struct {
	shell *shell
	files tree
	want  tree
}

// Files returns the agent that works on files with a shell in the jail, with n tasks. Its program must call
// [jail.Main] first. The caller calls remove after the last run.
func Files(ctx context.Context, n int) (a *Agent, remove func() error, err error) {
	s := &shell{runs: map[[sha256.Size]byte]shellRun{}}
	if s.jail, err = swe.NewJail(ctx); err != nil {
		return nil, nil, err
	}
	if s.dir, err = os.MkdirTemp("", "agents"); err != nil {
		return nil, nil, err
	}
	a = &Agent{Name: "files and shell", System: filesSystem, Tools: []llms.Tool{
		tool("list_files", "List all files."),
		tool("read_file", "Read a file.", "path: its path"),
		tool("write_file", "Write a file.", "path: its path", "content: all of its text"),
		tool("run", "Run a command with sh.", "command: the command"),
	}}
	for i := range n {
		a.Tasks = append(a.Tasks, s.task(i))
	}
	return a, func() error { return os.RemoveAll(s.dir) }, nil
}

// Do runs a tool.
func (f *folder) Do(ctx context.Context, c Call) (string, error) {
	var a struct{ Path, Content, Command string }
	if err := c.arguments(&a); err != nil {
		return err.Error(), nil
	}
	switch c.Name {
	case "list_files":
		return strings.Join(slices.Sorted(maps.Keys(f.files)), "\n"), nil
	case "read_file":
		if text, ok := f.files[a.Path]; ok {
			return text, nil
		}
		return "error: there is no such file", nil
	case "write_file":
		f.files[a.Path] = a.Content
		return "written", nil
	}
	after, output, err := f.shell.run(ctx, f.files, a.Command)
	if err != nil {
		return "", err
	}
	f.files = maps.Clone(after)
	return output, nil
}

// Right compares the files with their expected contents.
func (f *folder) Right(answer string) bool {
	return maps.Equal(f.files, f.want) && strings.TrimSpace(answer) == "DONE"
}

// run runs a command on a tree and returns the resulting tree.
func (s *shell) run(ctx context.Context, before tree, command string) (tree, string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q", command)
	for _, path := range slices.Sorted(maps.Keys(before)) {
		fmt.Fprintf(h, "%q%q", path, before[path])
	}
	key := [sha256.Size]byte(h.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.runs[key]; ok {
		return known.after, known.output, nil
	}
	dir, err := os.MkdirTemp(s.dir, "run")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	for path, text := range before {
		full := filepath.Join(dir, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644)); err != nil { //nolint:gosec // made-up files
			return nil, "", err
		}
	}
	ran, err := s.jail.Run(ctx, dir, nil, "", 20*time.Second, "sh", "-c", command)
	if err != nil {
		return nil, "", err
	}
	run := shellRun{after: tree{}, output: ran.Output}
	if ran.Code != 0 {
		run.output = fmt.Sprintf("error: exit code %d\n%s", ran.Code, ran.Output)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		run.after[filepath.ToSlash(name)] = string(data)
		return err
	})
	s.runs[key] = run
	return run.after, run.output, err
}

func (s *shell) task(i int) *Task {
	r := rand.New(rand.NewPCG(uint64(i), 0xf11e5))
	names := []string{"api", "auth", "cart", "feed", "mail", "search", "store"}
	r.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
	names = slices.Sorted(slices.Values(names[:3+r.IntN(2)]))
	f := folder{shell: s, files: tree{}}
	t := &Task{ID: fmt.Sprintf("F-%03d", i)}
	switch i % 3 {
	case 0:
		workers := 4 + r.IntN(20)
		for _, n := range names {
			f.files["services/"+n+".conf"] = fmt.Sprintf("env=%s\nport=%d\nworkers=%d\n", pick(r, []string{"prod", "test", "prod"}), 8000+r.IntN(900), 1+r.IntN(3))
		}
		f.want = maps.Clone(f.files)
		for path, text := range f.want {
			if strings.HasPrefix(text, "env=prod") {
				head, _, _ := strings.Cut(text, "workers=")
				f.want[path] = fmt.Sprintf("%sworkers=%d\n", head, workers)
			}
		}
		t.Prompt = fmt.Sprintf("[%s] Set workers to %d in every service below services whose env is prod, and leave the others as they are.", t.ID, workers)
		t.Solve = func(s *Conversation) { setWorkers(s, workers) }
	case 1:
		var report strings.Builder
		for _, n := range names[:3] {
			var b strings.Builder
			failed := 0
			for k := range 8 + r.IntN(8) {
				level := pick(r, []string{"INFO", "WARN", "ERROR", "INFO"})
				if k == 0 {
					level = "ERROR"
				}
				if level == "ERROR" {
					failed++
				}
				fmt.Fprintf(&b, "%02d:%02d %s request %d%s\n", 8+k, r.IntN(60), level, r.IntN(1000), pick(r, []string{"", "", " after error 7"}))
			}
			f.files["logs/"+n+".log"] = b.String()
			fmt.Fprintf(&report, "%s=%d\n", n, failed)
		}
		f.want = maps.Clone(f.files)
		f.want["report.txt"] = report.String()
		t.Prompt = fmt.Sprintf("[%s] Count the lines of level ERROR in each log below logs, and write them to report.txt: a line name=count for each log, sorted by name, the name without folder and ending.", t.ID)
		t.Solve = countErrors
	default:
		for _, n := range names {
			f.files["notes/"+n+".txt"] = "about " + n + "\n"
		}
		f.files["notes/keep.md"] = "keep\n"
		f.want = tree{"notes/keep.md": "keep\n"}
		index := []string{"keep.md"}
		for _, n := range names {
			f.want["notes/"+n+".md"] = "about " + n + "\n"
			index = append(index, n+".md")
		}
		f.want["index.txt"] = strings.Join(slices.Sorted(slices.Values(index)), "\n") + "\n"
		t.Prompt = fmt.Sprintf("[%s] Rename every .txt below notes to .md, then write the names of all files in notes to index.txt, sorted, one a line.", t.ID)
		t.Solve = renameNotes
	}
	t.Open = func() World {
		world := f
		world.files = maps.Clone(f.files)
		return &world
	}
	return t
}

// commands returns moves that run commands.
func commands(list ...string) []Move {
	moves := make([]Move, len(list))
	for i, c := range list {
		moves[i] = Move{Call: call("run", args{"command": c})}
	}
	return moves
}

// listFiles does the first step and returns the paths.
func listFiles(s *Conversation) []string {
	paths, _ := s.do(Step{Kind: Look, Name: "list", Right: calls("list_files", args{}), Wrong: calls("read_file", args{"path": "."}, args{"path": "README.md"}, args{"path": "/"})})
	return strings.Fields(paths)
}

func setWorkers(s *Conversation, workers int) {
	paths := listFiles(s)
	var prod []string
	for _, path := range paths {
		text, done := s.do(Step{
			Kind: Look, Name: "read " + path, Right: calls("read_file", args{"path": path}),
			Wrong: calls("read_file", args{"path": filepath.Base(path)}, args{"path": "/" + path}, args{"path": strings.TrimSuffix(path, ".conf")}),
		})
		if !done {
			return
		}
		if strings.HasPrefix(text, "env=prod") {
			prod = append(prod, path)
		}
	}
	for _, path := range prod {
		if _, done := s.do(Step{
			Kind: Write, Name: "set " + path,
			Right: commands(
				fmt.Sprintf("sed -i 's/^workers=.*/workers=%d/' %s", workers, path),
				fmt.Sprintf("sed -i 's/workers=[0-9]*/workers=%d/' %s", workers, path),
				fmt.Sprintf("sed -i \"s/^workers=.*$/workers=%d/\" %s", workers, path),
			),
			Wrong: commands(
				fmt.Sprintf("sed -i 's/^workers=.*/workers=%d/' services/*.conf", workers),
				fmt.Sprintf("echo workers=%d >> %s", workers, path),
				fmt.Sprintf("sed -i 's/^workers=.*/workers: %d/' %s", workers, path),
				fmt.Sprintf("sed 's/^workers=.*/workers=%d/' %s", workers, path),
			),
		}); !done {
			return
		}
	}
	s.finish()
}

func countErrors(s *Conversation) {
	paths := listFiles(s)
	var report strings.Builder
	for _, path := range paths {
		if !strings.HasPrefix(path, "logs/") {
			continue
		}
		count, done := s.do(Step{
			Kind: Write, Name: "count " + path,
			Right: commands("grep -c ' ERROR ' "+path, "grep ' ERROR ' "+path+" | wc -l", "awk '$2 == \"ERROR\"' "+path+" | wc -l"),
			Wrong: commands("grep -ci error "+path, "grep -c 'WARN\\|ERROR' "+path, "wc -l < "+path, "grep -c ERROR "+filepath.Base(path)),
		})
		if !done {
			return
		}
		fmt.Fprintf(&report, "%s=%s\n", strings.TrimSuffix(filepath.Base(path), ".log"), strings.TrimSpace(count))
	}
	text := report.String()
	s.do(Step{
		Kind: Act, Name: "report", Right: calls("write_file", args{"path": "report.txt", "content": text}, args{"path": "report.txt", "content": strings.TrimSuffix(text, "\n") + "\n"}),
		Wrong: calls("write_file", args{"path": "report.txt", "content": strings.ReplaceAll(text, "=", ": ")},
			args{"path": "logs/report.txt", "content": text}, args{"path": "report.txt", "content": strings.ReplaceAll(text, "=", ".log=")}),
	})
	s.finish()
}

func renameNotes(s *Conversation) {
	listFiles(s)
	s.do(Step{
		Kind: Write, Name: "rename",
		Right: commands("for f in notes/*.txt; do mv \"$f\" \"${f%.txt}.md\"; done", "cd notes && for f in *.txt; do mv $f ${f%.txt}.md; done"),
		Wrong: commands("for f in notes/*.txt; do mv \"$f\" \"$f.md\"; done", "mv notes/*.txt notes/*.md", "for f in notes/*.txt; do cp \"$f\" \"${f%.txt}.md\"; done", "rename txt md notes/*.txt"),
	})
	s.do(Step{
		Kind: Write, Name: "index",
		Right: commands("ls notes > index.txt", "ls notes | sort > index.txt", "ls -1 notes > index.txt"),
		Wrong: commands("ls notes/* > index.txt", "ls notes/*.md > index.txt", "ls notes > notes/index.txt", "ls -l notes > index.txt"),
	})
	s.finish()
}

// finish is the last step of an agent that answers with one word.
func (s *Conversation) finish() {
	s.do(Step{Kind: Answer, Name: "answer", Right: texts("DONE"), Wrong: texts("Shall I go on?", "The task is done, except for the last file.", "I have listed the files. What next?")})
}
