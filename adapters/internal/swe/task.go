package swe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// Task is one task in the format of SWE-bench. A user's own task needs only ProblemStatement.
type Task struct {
	InstanceID string `json:"instance_id"`
	// Repo is the repository's name ("owner/name"), folder or URL.
	Repo             string `json:"repo"`
	BaseCommit       string `json:"base_commit"`
	ProblemStatement string `json:"problem_statement"`
	// TestPatch is a diff that adds the hidden tests; the agent does not see it.
	TestPatch  string `json:"test_patch,omitempty"`
	FailToPass Names  `json:"FAIL_TO_PASS,omitempty"`
	PassToPass Names  `json:"PASS_TO_PASS,omitempty"`
	// TestCommand overrides the command that runs the repository's tests.
	TestCommand []string `json:"test_command,omitempty"`
	// Image is the container image for the tests, where the data set names one. DockerImage is another spelling of
	// the field.
	Image       string `json:"image_name,omitempty"`
	DockerImage string `json:"docker_image,omitempty"`
}

// NameTask returns a name for a task without an instance ID: the repository's base name and a hash of the text, so that
// the traces of several tasks do not mix.
func NameTask(repo, text string) string {
	if abs, err := filepath.Abs(repo); err == nil && !isRemote(repo) {
		repo = abs
	}
	return strings.TrimSuffix(path.Base(filepath.ToSlash(repo)), ".git") + "-" + hashOf(text)[:8]
}

// fingerprint returns a hash of the task's text, base commit and tests, but not of its name.
func (t *Task) fingerprint(ctx context.Context, repo *Repository) (string, error) {
	commit := t.BaseCommit
	if !fullName.MatchString(commit) {
		var err error
		if commit, err = repo.Commit(ctx, commit); err != nil {
			return "", err
		}
	}
	own := *t
	own.InstanceID, own.Repo, own.BaseCommit = "", "", commit
	text, err := json.Marshal(&own)
	if err != nil {
		return "", err
	}
	return hashOf(string(text)), nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Names is a list of test names. The published data sets write it as a JSON list within a string; both forms are
// accepted.
type Names []string

// UnmarshalJSON reads a list, or a string that holds one.
func (n *Names) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		if strings.TrimSpace(text) == "" {
			*n = nil
			return nil
		}
		data = []byte(text)
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("test names: want a list of strings, or a string that holds one: %w", err)
	}
	*n = list
	return nil
}

// ReadTasks reads tasks as JSON lines or as one JSON list. The error lists every invalid task.
func ReadTasks(r io.Reader) ([]Task, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var tasks []Task
	decoder := json.NewDecoder(bytes.NewReader(data))
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		err = decoder.Decode(&tasks)
	}
	for err == nil && decoder.More() {
		var t Task
		err = decoder.Decode(&t)
		tasks = append(tasks, t)
	}
	if err != nil {
		return nil, fmt.Errorf("reading task %d: %w", max(1, len(tasks)), err)
	}
	if len(tasks) == 0 {
		return nil, errors.New("no tasks")
	}
	return tasks, checkTasks(tasks)
}

func checkTasks(tasks []Task) error {
	var faults []error
	seen := map[string]int{}
	for i, t := range tasks {
		switch {
		case t.InstanceID == "":
			faults = append(faults, fmt.Errorf("task %d has no instance_id", i+1))
		case seen[t.InstanceID] > 0:
			faults = append(faults, fmt.Errorf("tasks %d and %d are both called %s", seen[t.InstanceID], i+1, t.InstanceID))
		}
		if strings.TrimSpace(t.ProblemStatement) == "" {
			faults = append(faults, fmt.Errorf("task %d (%s) has no problem_statement", i+1, t.InstanceID))
		}
		seen[t.InstanceID] = i + 1
	}
	return errors.Join(faults...)
}

// Prediction is one line of the leaderboard's predictions file.
type Prediction struct {
	InstanceID string `json:"instance_id"`
	Model      string `json:"model_name_or_path"`
	Patch      string `json:"model_patch"`
}
