package swe

import "testing"

// A note before a model is paid names the cause if the tests do not run.
func TestUntouchedNote(t *testing.T) {
	repo := &Repository{ignored: func() (ignoredFiles, error) {
		return ignoredFiles{other: []string{"build", ".cache", "a_pb2.py"}, included: []string{"a_pb2.py"}}, nil
	}}
	for evidence, want := range map[string]string{
		"the tests do not run:\nImportError\n  E   No module named attr\n": "the tests do not run: E   No module named attr (work trees lack what git ignores, such as build: list what the tests need in .worktreeinclude)",
		"1 of 2 tests pass\nT failed":                                      "1 of 2 tests pass; a patch must fix at least one of the others, and those that fail as before do not count: name all that it must fix with --fail-to-pass",
	} {
		if note := untouchedNote(evidence, repo); note != want {
			t.Errorf("%q, want %q", note, want)
		}
	}
}
