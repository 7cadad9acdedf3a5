package runner

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

// What does not compile is removed round by round; a file that is not there, or does not parse, stays.
func TestPrune(t *testing.T) {
	tree := fstest.MapFS{
		"p/a_test.go": {Data: []byte("package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar (\n\ta = 1\n\tb = New()\n)\n\nfunc TestOld(t *testing.T) {}\n\nfunc TestNew(t *testing.T) {\n\t_ = os.Args\n\tNew()\n}\n")},
		"p/b_test.go": {Data: []byte("package p {\n")},
	}
	read := func(file string) ([]byte, error) { return fs.ReadFile(tree, file) }
	var g goTest
	for _, round := range []struct{ broken, want string }{
		{"# p [p.test]\n./p/a_test.go:10:6: undefined: New\n./p/a_test.go:17:2: undefined: New\n./p/b_test.go:1:11: no\n./p/c_test.go:1:1: no\np/a.go:1:1: no", "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar (\n\ta = 1\n\t\n)\n\nfunc TestOld(t *testing.T) {}\n\n\n"},
		{"./p/a_test.go:4:2: \"os\" imported and not used", "package p\n\nimport (\n\t\n\t\"testing\"\n)\n\nvar (\n\ta = 1\n\t\n)\n\nfunc TestOld(t *testing.T) {}\n\n\n"},
	} {
		changes := g.Prune(&Report{Broken: round.broken, Tests: []Test{{Name: "TestOld", Status: Pass, Output: "\t/p/a_test.go:9 +0x1\n"}}}, nil, read)
		if len(changes) != 1 || changes[0].Path != "p/a_test.go" || string(changes[0].Data) != round.want {
			t.Fatalf("%v", changes)
		}
		tree["p/a_test.go"].Data = changes[0].Data
	}
}

// A test that panics is removed, whatever the paths in its trace are relative to.
func TestPrunePanics(t *testing.T) {
	tree := fstest.MapFS{"p/a_test.go": {Data: []byte("package p\n\nfunc TestOld(t *testing.T) {}\n\nfunc TestPanic(t *testing.T) {\n\tpanic(1)\n}\n")}}
	for _, file := range []string{"/home/me/tree/p/a_test.go", "example.com/m/p/a_test.go"} {
		output := "panic: 1\n\ngoroutine 7 [running]:\nexample.com/m/p.TestPanic(0x1)\n\t" + file + ":6 +0x1d\n\t/usr/local/go/src/testing/testing.go:1 +0xf\n"
		changes := (*goTest)(nil).Prune(&Report{Tests: []Test{{Group: "example.com/m/p", Name: "TestPanic", Status: Fail, Output: output}}}, nil, func(file string) ([]byte, error) { return fs.ReadFile(tree, file) })
		if len(changes) != 1 || changes[0].Path != "p/a_test.go" || string(changes[0].Data) != "package p\n\nfunc TestOld(t *testing.T) {}\n\n\n" {
			t.Fatalf("%s: %v", file, changes)
		}
	}
}

// The compiler stops after ten errors: what uses the same undefined name is removed in the same round.
func TestPruneAllUses(t *testing.T) {
	source := "package p\n\nfunc TestA(t *testing.T) { New() }\n\nfunc TestB(t *testing.T) { x.New() }\n\nfunc TestC(t *testing.T) { New() }\n"
	changes := (*goTest)(nil).Prune(&Report{Broken: "./a_test.go:3:28: undefined: New\n"}, nil, func(string) ([]byte, error) { return []byte(source), nil })
	if len(changes) != 1 || string(changes[0].Data) != "package p\n\n\n\nfunc TestB(t *testing.T) { x.New() }\n\n\n" {
		t.Fatalf("%+v", changes)
	}
}

// A test in which the process ended is removed from its package.
func TestPruneTheLast(t *testing.T) {
	const source = "package p\n\nfunc TestOld(t *testing.T) {}\n\nfunc TestExit(t *testing.T) {\n\tos.Exit(1)\n}\n"
	tree := fstest.MapFS{"a_test.go": {Data: []byte(source)}, "p/a_test.go": {Data: []byte(source)}, "q/a_test.go": {Data: []byte(source)}}
	report := &Report{Tests: []Test{{Group: "m/p", Name: "TestOld", Status: Pass}, {Group: "m/p", Name: "TestExit/sub"}, {Group: "m/p", Name: PackageName, Status: Fail}}}
	changes := (*goTest)(nil).Prune(report, []string{"a_test.go", "p/a_test.go", "q/a_test.go"}, func(file string) ([]byte, error) { return fs.ReadFile(tree, file) })
	if len(changes) != 1 || changes[0].Path != "p/a_test.go" || string(changes[0].Data) != "package p\n\nfunc TestOld(t *testing.T) {}\n\n\n" {
		t.Fatalf("%+v", changes)
	}
}
