package suite

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/swe"
)

// Materialise creates the repositories of the suite under dir, one folder each, and returns the tasks in SWE-bench's
// format. Each task's base commit follows the repository's first one and introduces the defect; commit hashes are
// reproducible.
func (s *Suite) Materialise(ctx context.Context, dir string) ([]swe.Task, error) {
	commits := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Repos)) {
		if err := s.makeRepo(ctx, filepath.Join(dir, name), name, commits); err != nil {
			return nil, fmt.Errorf("making repository %s: %w", name, err)
		}
	}
	var tasks []swe.Task
	for _, t := range s.Tasks {
		if commits[t.ID] == "" {
			return nil, fmt.Errorf("no commit for task %s", t.ID)
		}
		tasks = append(tasks, swe.Task{
			InstanceID: t.ID, Repo: t.Repo, BaseCommit: commits[t.ID], ProblemStatement: t.Statement,
			FailToPass: s.qualifyTests(t.Repo, t.FailToPass), PassToPass: s.qualifyTests(t.Repo, t.PassToPass), TestCommand: s.Repos[t.Repo].TestCommand(),
		})
	}
	return tasks, nil
}

// qualifyTests returns the names that test commands report: for Go "example.com/repo/folder.TestName".
func (s *Suite) qualifyTests(repo string, names []string) []string {
	if s.Repos[repo].Language != "go" {
		return names
	}
	out := make([]string, len(names))
	for i, name := range names {
		folder, test := path.Split(name)
		out[i] = path.Join("example.com", repo, folder) + "." + test
	}
	return out
}

// makeRepo creates one repository with a commit for each of its tasks, with one git fast-import.
func (s *Suite) makeRepo(ctx context.Context, dir, name string, commits map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if _, err := git(ctx, dir, "", "init", "--quiet", "--initial-branch=main", "."); err != nil {
		return err
	}
	repo := s.Repos[name]
	var in strings.Builder
	commit(&in, "refs/heads/main", "mark :1\n", repo.About, "", repo.Files, nil)
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Repo == name {
			commit(&in, "refs/heads/"+t.ID, "", "Release of the day before "+t.ID, "from :1\n", t.Files, repo.Files)
		}
	}
	if _, err := git(ctx, dir, in.String(), "fast-import", "--quiet"); err != nil {
		return err
	}
	if _, err := git(ctx, dir, "", "reset", "--quiet", "--hard", "main"); err != nil {
		return err
	}
	refs, err := git(ctx, dir, "", "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads")
	if err != nil {
		return err
	}
	for line := range strings.Lines(refs) {
		id, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		commits[id] = hash
	}
	return nil
}

// commit writes one commit of a fast-import stream: the files that differ from base.
func commit(in *strings.Builder, ref, mark, message, from string, files, base map[string]string) {
	fmt.Fprintf(in, "commit %s\n%scommitter stepfall <suite@example.com> 1767225600 +0000\ndata %d\n%s\n%s", ref, mark, len(message), message, from)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if old, ok := base[file]; !ok || old != files[file] {
			fmt.Fprintf(in, "M 100644 inline %s\ndata %d\n%s\n", file, len(files[file]), files[file])
		}
	}
	in.WriteByte('\n')
}

func git(ctx context.Context, dir, in string, args ...string) (string, error) {
	var out bytes.Buffer
	if said, err := swe.Git(ctx, dir, strings.NewReader(in), &out, args...); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(said))
	}
	return out.String(), nil
}
