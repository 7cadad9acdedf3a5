package swe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
	"github.com/stepfall/stepfall/sdk/regular"
)

// Limits of a tool result and of a file that is read, in bytes.
const (
	maxToolText = 12 << 10
	maxFile     = 1 << 20
)

// tools runs the agent's tool calls in one work tree.
type tools struct {
	dir string
	// readable lists the folders outside the tree that commands can read.
	readable []string
	// cache is the attempt's own build cache.
	cache string
	// compile, when not nil, fills the build cache that all attempts start with. It is called once, before the first
	// command that may need it.
	compile func(ctx context.Context) error
	jail    *Jail
	test    []string
	spent   time.Duration
	// passing reports that the last call was a passing test run.
	passing bool
	// code is the exit code of the last command, or -1.
	code int
}

func definitions() []llms.Tool {
	tool := func(name, description string, properties map[string]any, required ...string) llms.Tool {
		return llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: name, Description: description,
			// Vendors reject null where a list is required.
			Parameters: map[string]any{"type": "object", "properties": properties, "required": append([]string{}, required...)},
		}}
	}
	text := func(about string) map[string]any { return map[string]any{"type": "string", "description": about} }
	number := func(about string) map[string]any { return map[string]any{"type": "integer", "description": about} }
	return []llms.Tool{
		tool("shell", "Run a command with sh in the repository. No network.", map[string]any{"command": text("the command")}, "command"),
		tool("read", "Read a file, with line numbers.", map[string]any{"path": text("path in the repository"), "from": number("first line, from 1"), "to": number("last line")}, "path"),
		tool("edit", "Replace text in a file. The old text must stand there exactly once; with an empty old text a new file is made.",
			map[string]any{"path": text("path in the repository"), "old": text("the text to replace"), "new": text("what to put there")}, "path", "old", "new"),
		tool("test", "Run the repository's tests.", map[string]any{}),
	}
}

// errTool is wrapped by errors that the model caused and should see.
var errTool = errors.New("tool")

// applyBlocks applies the search/replace blocks of an answer without tool calls, and returns the last error. Whole
// files are ignored: they can be mere quotations.
func (t *tools) applyBlocks(text string) (fault string) {
	for _, e := range patch.Parse(&sdk.Answer{Text: text}, "") {
		if e.Kind != patch.Replace {
			continue
		}
		if _, err := t.edit(cmp.Or(e.Path, e.Spaced), e.Search, e.Content); err != nil {
			fault = err.Error()
		}
	}
	return fault
}

func (t *tools) runCalls(ctx context.Context, calls []llms.ToolCall) (results []llms.MessageContent, err error) {
	for _, c := range calls {
		out, err := t.run(ctx, c.FunctionCall.Name, c.FunctionCall.Arguments)
		if err != nil {
			return nil, err
		}
		results = append(results, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			llms.ToolCallResponse{ToolCallID: c.ID, Name: c.FunctionCall.Name, Content: out},
		}})
	}
	return results, nil
}

// run runs one tool call. Errors of the call go to the model as output; the returned error is that of the context.
func (t *tools) run(ctx context.Context, name, arguments string) (out string, err error) {
	var a struct {
		Command, Path, Old, New string
		From, To                int
	}
	if err := json.Unmarshal([]byte(cmp.Or(strings.TrimSpace(arguments), "{}")), &a); err != nil {
		return fmt.Sprintf("error: the arguments are no JSON object: %v", err), nil
	}
	t.passing = false
	switch name {
	case "shell":
		out, err = t.command(ctx, "sh", "-c", a.Command)
	case "test":
		out, err = t.command(ctx, t.test...)
		t.passing = t.code == 0
	case "read":
		out, err = t.read(a.Path, a.From, a.To)
	case "edit":
		out, err = t.edit(a.Path, a.Old, a.New)
	default:
		err = fmt.Errorf("%w: there is no tool %q; there are shell, read, edit and test", errTool, name)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "error: " + strings.TrimPrefix(err.Error(), errTool.Error()+": "), nil
	}
	return shorten(out, maxToolText), nil
}

// compilesGo matches commands that can compile Go, directly or through what they run.
var compilesGo = regexp.MustCompile(`\b(go|gotestsum|golangci-lint|make|just|mage|task|ginkgo|bazel|pre-commit)\b|\w\.sh\b|(^|[\s;&|(])\./`)

func (t *tools) command(ctx context.Context, args ...string) (string, error) {
	t.code = -1
	if len(args) == 0 || args[len(args)-1] == "" {
		return "", fmt.Errorf("%w: there is no command to run", errTool)
	}
	start := time.Now()
	if t.compile != nil && compilesGo.MatchString(strings.Join(args, " ")) {
		if err := t.compile(ctx); err != nil {
			return "", err
		}
		t.compile = nil
	}
	result, err := t.jail.Run(ctx, t.dir, t.readable, t.cache, toolTimeout, args...)
	t.spent += time.Since(start)
	if err != nil {
		return "", err
	}
	t.code = result.Code
	return result.describe(), nil
}

// describe returns the output, and how the command ended unless it exited with 0.
func (r *Ran) describe() string {
	switch {
	case r.TimedOut:
		return fmt.Sprintf("%s\n(stopped after %v)", r.Output, toolTimeout)
	case r.Code != 0:
		return fmt.Sprintf("%s\n(exit code %d)", r.Output, r.Code)
	}
	return cmp.Or(r.Output, "(no output)")
}

func (t *tools) readFile(root *os.Root, path, name string) (string, fs.FileInfo, error) {
	file, info, err := regular.Open(root.OpenFile, name)
	switch {
	case errors.Is(err, fs.ErrInvalid):
		return "", nil, fmt.Errorf("%w: %s is not a regular file", errTool, path)
	case err != nil:
		return "", nil, fmt.Errorf("%w: there is no file %s", errTool, path)
	}
	defer file.Close()
	if info.Size() > maxFile {
		return "", nil, fmt.Errorf("%w: %s is larger than %d bytes", errTool, path, maxFile)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	return string(data), info, err
}

// inTree calls do with the local form of path and with the tree, opened so that links cannot lead out of it. It
// refuses paths in .git.
func (t *tools) inTree(path string, do func(root *os.Root, name string) (string, error)) (string, error) {
	name := filepath.Clean(filepath.FromSlash(path))
	if path == "" || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%w: %q is no path in the repository", errTool, path)
	}
	if first, _, _ := strings.Cut(filepath.ToSlash(name), "/"); strings.EqualFold(first, ".git") {
		return "", fmt.Errorf("%w: %q belongs to git", errTool, path)
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	return do(root, name)
}

func (t *tools) read(path string, from, to int) (string, error) {
	text, err := t.inTree(path, func(root *os.Root, name string) (string, error) {
		text, _, err := t.readFile(root, path, name)
		return text, err
	})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		if number >= from && (to <= 0 || number <= to) {
			fmt.Fprintf(&b, "%d\t%s", number, line)
		}
	}
	return b.String(), nil
}

func (t *tools) edit(path, old, replacement string) (string, error) {
	return t.inTree(path, func(root *os.Root, name string) (string, error) {
		if _, err := root.Lstat(name); old == "" && errors.Is(err, fs.ErrNotExist) {
			if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return "", err
			}
			return "made " + path, write(root, name, replacement, os.O_CREATE|os.O_EXCL, 0o644)
		}
		text, info, err := t.readFile(root, path, name)
		if err != nil {
			return "", err
		}
		after, err := patch.ReplaceOnce(text, old, replacement)
		if err != nil {
			return "", fmt.Errorf("%w: %s: %w", errTool, path, err)
		}
		return "changed " + path, write(root, name, after, os.O_TRUNC, info.Mode().Perm())
	})
}

// write writes a file; on a pipe without a reader it fails instead of blocking.
func write(root *os.Root, name, text string, flag int, mode fs.FileMode) error {
	file, err := root.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK|flag, mode)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	half := limit / 2
	return strings.ToValidUTF8(text[:half], "") + fmt.Sprintf("\n... %d bytes left out ...\n", len(text)-2*half) + strings.ToValidUTF8(text[len(text)-half:], "")
}
