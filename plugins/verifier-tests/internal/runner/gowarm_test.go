package runner

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCompileOnly(t *testing.T) {
	for command, want := range map[string]string{
		"go test ./...": "./...",
		"go test -race -tags=x,y -run TestA -count=1 ./a ./b":  "-race -tags=x,y -run TestA -count=1 ./a ./b",
		"go test -v -mod vendor -timeout 8s ./... -args -race": "-v -mod vendor -timeout 8s ./...",
		"go test":                         "",
		"go test -exec=sh -vet=off ./...": "none",
		"go test -toolexec=./evil ./...":  "none",
		"go test -vettool ./evil ./...":   "none",
		"go test -C=a -v ./...":           "-count=1 -v ./...",
		"go test -C a -tags x ./...":      "-exec=true -count=1 -tags x ./...",
	} {
		got := compileOnly(strings.Fields(command))
		if want == "none" {
			if got != nil {
				t.Errorf("%s: %q", command, got)
			}
			continue
		}
		if len(got) < 4 || !slices.Equal(got[4:], strings.Fields(want)) {
			t.Errorf("%s: %q, want %s", command, got, want)
		}
	}
}

// The go command takes -C before test, too.
func TestFoldersOfCommands(t *testing.T) {
	for command, want := range map[string]string{
		"go -C a test ./...": "go test -C a ./...", "/usr/bin/go -C=a test -v": "/usr/bin/go test -C=a -v",
		"go test -C a ./...": "go test -C a ./...", "go -C a vet ./...": "go -C a vet ./...", "make -C a test": "make -C a test", "go": "go", "go -C": "go -C",
	} {
		if got := strings.Join(MoveFolderFlag(strings.Fields(command)), " "); got != want {
			t.Errorf("%s became %s", command, got)
		}
	}
	for command, want := range map[string]string{"go test ./...": ".", "go test -C ./a/ ./...": "a", "go test -C=a/b": "a/b"} {
		if got := Folder(strings.Fields(command)); got != want {
			t.Errorf("%s is for %s", command, got)
		}
	}
}

// A command on a tree whose module is in a subfolder uses the caches, and is compiled first.
func TestModulesInFolders(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go here")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "svc"), 0o755), os.WriteFile(filepath.Join(dir, "svc", "go.mod"), []byte("module svc\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	plan, err := For([]string{"make", "check"}, Config{State: t.TempDir()}).Plan([]string{"make", "check"}, &Tree{Dir: dir, Files: []string{"Makefile", "svc/go.mod"}}, "x")
	if err != nil || len(plan.Caches) == 0 || !slices.Contains(plan.Compile, "-C=svc") {
		t.Errorf("%v %q", err, plan.Compile)
	}
}

// The run after the compiling one finds everything that a package needs, including go vet's facts about its imports.
func TestCompileOnlyVets(t *testing.T) {
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no Go here")
	}
	if os.Getenv("STEPFALL_ATTACKS") != "all" {
		t.Skip("it compiles the standard library")
	}
	dir := t.TempDir()
	source := "package m\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestF(*testing.T) { fmt.Println() }\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o644), os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(source), 0o644)); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	run := func(argv ...string) string {
		command := exec.Command(argv[0], argv[1:]...)
		command.Dir, command.Env = dir, append(os.Environ(), "GOCACHE="+cache)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return string(out)
	}
	run(compileOnly([]string{program, "test", "./..."})...)
	if out := run(program, "test", "-x", "-count=1", "./..."); strings.Contains(out, "/vet ") {
		t.Errorf("vetted again: %s", out)
	}
}
