package runner

import (
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
