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
		"go test -race -tags=x,y -run TestA -count=1 ./a ./b":  "-race -tags=x,y ./a ./b",
		"go test -v -mod vendor -timeout 8s ./... -args -race": "-mod vendor ./...",
		"go test":                         "",
		"go test -exec=sh -vet=off ./...": "./...",
		"go test -toolexec=./evil ./...":  "none",
		"go test -unheard ./...":          "none",
		"go test -C=a -v ./...":           "-f= ./...",
		"go test -C a -tags x ./...":      "-test -f= -tags x ./...",
	} {
		got := compileOnly(strings.Fields(command))
		if want == "none" {
			if got != nil {
				t.Errorf("%s: %q", command, got)
			}
			continue
		}
		if len(got) < 7 || !slices.Equal(got[7:], strings.Fields(want)) {
			t.Errorf("%s: %q, want %s", command, got, want)
		}
	}
}

// What a user has compiled is of use to a run that has the user's flags of builds.
func TestFlagsOfBuilds(t *testing.T) {
	if got := flagsOfBuilds("-trimpath -tags=x,y -count=3 -overlay=o.json -run=None -exec=sh"); got != "-buildvcs=false -trimpath -tags=x,y" {
		t.Error(got)
	}
}

// A command on a tree whose module lies in a folder finds the caches, and is compiled first.
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
