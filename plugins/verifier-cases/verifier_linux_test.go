package main

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail/container/containertest"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

const python = "/usr/bin/python3"

func find(t *testing.T, program string, probe ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil || len(probe) > 0 && exec.Command(program, probe...).Run() != nil {
		t.Skipf("no %s here", program)
	}
}

func judge(t *testing.T, config map[string]any, query *sdk.Query, text string) *sdk.Verdict {
	t.Helper()
	v := plugintest.Verifier(t, description(), config)
	verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: query, Answer: &sdk.Answer{Model: "m", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %.2f in %s: %s", verdict.Outcome, verdict.Score, verdict.Duration, verdict.Evidence)
	return verdict
}

func block(text string) string { return "```\n" + text + "\n```\n" }

const adder = "a, b = map(int, input().split())\nprint(a + b)"

func TestFoldersOfCases(t *testing.T) {
	find(t, python, "-c", "pass")
	dir := write(t, map[string]string{
		"sums/sample/1.in": "1 2\n", "sums/sample/1.out": "3\n", "sums/2.in": "5 -5\n", "sums/2.ans": "0", "sums/in/3.txt": "10 10\n", "sums/out/3.txt": "20\n\n", "sums/4/input": "7 1", "sums/4/output": "8",
		"sums/five.json": `{"stdin": "1 1", "expect": {"stdout": "2\n", "exit_code": 0}}`,
		"files.json":     `[{"public": true, "args": ["x"], "files": {"given": "abc"}, "expect": {"files": {"made": "cba"}}}]`,
	})
	config := map[string]any{"cases": dir, "command": []any{python, "main.py"}, "file": "main.py", "all": true}
	for _, test := range []struct {
		query, answer string
		want          sdk.Outcome
		score         float64
		says          string
	}{
		{"sums", adder, sdk.Passed, 1, "5 of 5"},
		{"sums", strings.Replace(adder, "a + b", "abs(a) + abs(b)", 1), sdk.Failed, 0.8, "hidden case 1: wrong output"},
		{"sums", "print(3)", sdk.Failed, 0.2, ""},
		{"sums", "raise SystemExit('no')", sdk.Failed, 0, "expected: 3"},
		{"sums", "import time\ntime.sleep(1000)", sdk.Failed, 0, "in time"}, // as an endless loop, which takes a processor besides
		{"sums", "import os\nos.kill(os.getppid(), 9)\nos._exit(0)", sdk.Failed, 0, ""},
		{"files", "open('made', 'w').write(open('given').read()[::-1])", sdk.Passed, 1, ""},
		{"files", "pass", sdk.Failed, 0, "made was not written"},
		{"none", adder, sdk.Inconclusive, 0, ""},
	} {
		config["timeout"] = "30s"
		if test.says == "in time" {
			config["timeout"] = "1s"
		}
		verdict := judge(t, config, &sdk.Query{ID: test.query}, block(test.answer))
		if test.query == "none" {
			continue // all cases of the folder: some cannot pass
		}
		if verdict.Outcome != test.want || verdict.Score != test.score || !strings.Contains(verdict.Evidence, test.says) {
			t.Errorf("%s: %.30q: %s %.2f, want %s %.2f with %q", test.query, test.answer, verdict.Outcome, verdict.Score, test.want, test.score, test.says)
		}
	}
	if verdict := judge(t, config, &sdk.Query{ID: "sums"}, block(strings.Replace(adder, "a + b", "a * 0", 1))); strings.Contains(verdict.Evidence, "20") {
		t.Error("the evidence tells what is expected of a case that is not public")
	}
}

// pickled packs private cases as LiveCodeBench does.
func pickled(t *testing.T, text string) string {
	t.Helper()
	data := append([]byte{0x80, 4, 0x95, 0, 0, 0, 0, 0, 0, 0, 0, 'X', byte(len(text)), byte(len(text) >> 8), 0, 0}, text...)
	data = append(data, 0x94, '.')
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes())
}

func TestLiveCodeBench(t *testing.T) {
	find(t, python, "-c", "pass")
	var rows bytes.Buffer
	for _, row := range []map[string]string{
		{"question_id": "q1", "public_test_cases": `[{"input": "1 2\n", "output": "3", "testtype": "stdin"}]`, "private_test_cases": pickled(t, `[{"input": "4 4\n", "output": "8\n", "testtype": "stdin"}]`), "metadata": "{}"},
		{"question_id": "q2", "public_test_cases": `[{"input": "[1, 2]\n3", "output": "[3, 4]", "testtype": "functional"}]`, "private_test_cases": pickled(t, `[{"input": "[]\n1", "output": "[1]", "testtype": "functional"}]`), "metadata": `{"func_name": "extend"}`},
	} {
		if err := json.NewEncoder(&rows).Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	dir := write(t, map[string]string{"test.jsonl": rows.String()})
	config := map[string]any{"cases": filepath.Join(dir, "test.jsonl"), "command": []any{python, "main.py"}, "file": "main.py"}
	class := "class Solution:\n    def extend(self, numbers: List[int], more: int) -> List[int]:\n        print('debug')\n        return RETURN"
	for answer, want := range map[string]sdk.Outcome{
		strings.Replace(class, "RETURN", "[n + 2 for n in numbers] if len(numbers) else [more]", 1): sdk.Passed,
		strings.Replace(class, "RETURN", "[n + 2 for n in numbers]", 1):                             sdk.Failed,
		"def extend(numbers, more):\n    return [n + 2 for n in numbers] or (more,)":                sdk.Passed,
		"x = 1": sdk.Failed,
	} {
		if verdict := judge(t, config, &sdk.Query{ID: "q2"}, block(answer)); verdict.Outcome != want {
			t.Errorf("%s: %s", verdict.Outcome, answer)
		}
	}
	if verdict := judge(t, config, &sdk.Query{ID: "q1"}, block(adder)); verdict.Outcome != sdk.Passed || !strings.Contains(verdict.Evidence, "2 of 2") {
		t.Error("by standard input")
	}
	if verdict := judge(t, config, &sdk.Query{ID: "q3"}, block(adder)); verdict.Outcome != sdk.Inconclusive {
		t.Error("a query without cases")
	}
}

func TestFunctionsInNode(t *testing.T) {
	find(t, "node", "--version")
	cases := filepath.Join(write(t, map[string]string{"c.json": `{"fn_name": "twice", "inputs": [[2], [[1]]], "outputs": [4, ["1,1,"]]}`}), "c.json")
	config := map[string]any{"cases": cases, "command": []any{"node", "main.js"}, "file": "main.js", "memory_mib": 4096}
	right := "(x) => { console.log('debug'); return Array.isArray(x) ? `${x},${x},` : x + x; };"
	for answer, want := range map[string]sdk.Outcome{
		"const twice = " + right:                                                                    sdk.Passed,
		"exports.twice = (x) => x + x;":                                                             sdk.Failed,
		"import fs from 'node:fs';\nexport const twice = " + right:                                  sdk.Passed,
		"export default " + right:                                                                   sdk.Passed,
		"export default { twice: " + strings.TrimSuffix(right, ";") + " };":                         sdk.Passed,
		"export class Solution { twice(x) { return (" + strings.TrimSuffix(right, ";") + ")(x) } }": sdk.Passed,
		"export const twice = (x) => x + x;":                                                        sdk.Failed,
	} {
		if verdict := judge(t, config, nil, block(answer)); verdict.Outcome != want {
			t.Errorf("%s: %s", verdict.Outcome, answer)
		}
	}
}

func TestHTTP(t *testing.T) {
	find(t, python, "-c", "import http.server")
	cases := filepath.Join(write(t, map[string]string{"c.json": `{"http": [
		{"path": "/a", "expect": {"status": 200, "body": "GET /a\n", "header": {"X-Kind": "plain"}}},
		{"method": "POST", "path": "/b", "body": "xyz", "expect": {"body": "POST /b xyz\n"}}]}`}), "c.json")
	server := `import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    def reply(self):
        body = self.rfile.read(int(self.headers.get('content-length') or 0)).decode()
        self.send_response(200); self.send_header('X-Kind', 'plain'); self.end_headers()
        self.wfile.write((' '.join(filter(None, [self.command, self.path, body])) + '\n').encode())
    do_GET = do_POST = reply
print('listening')
http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), H).serve_forever()`
	config := map[string]any{"cases": cases, "command": []any{python, "main.py"}, "file": "main.py", "require": []any{"network"}}
	for answer, want := range map[string]sdk.Outcome{
		server: sdk.Passed, strings.Replace(server, "self.path, body", "body, self.path", 1): sdk.Failed, "pass": sdk.Failed,
	} {
		if verdict := judge(t, config, nil, block(answer)); verdict.Outcome != want {
			t.Errorf("%s, want %s: %s", verdict.Outcome, want, answer)
		}
	}
}

// A program without a fence is judged, and an answer that cannot be parsed has not failed.
func TestAnswersWithoutAFence(t *testing.T) {
	find(t, python, "--version")
	cases := filepath.Join(write(t, map[string]string{"c.json": `{"inputs": ["3"], "outputs": ["9"]}`}), "c.json")
	config := map[string]any{"cases": cases, "command": []any{python, "main.py"}, "file": "main.py"}
	for answer, want := range map[string]sdk.Outcome{
		"n = int(input())\nprint(n * n)\n": sdk.Passed, "n = int(input())\nprint(n + n)\n": sdk.Failed, "I think that it cannot be done.": sdk.Failed,
		"<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n": sdk.Inconclusive,
	} {
		if verdict := judge(t, config, nil, answer); verdict.Outcome != want {
			t.Errorf("%s, want %s: %s (%s)", verdict.Outcome, want, answer, verdict.Evidence)
		}
	}
}

// A program that the answer gives another name becomes the file that the command runs.
func TestProgramsUnderAnotherName(t *testing.T) {
	find(t, python, "--version")
	cases := filepath.Join(write(t, map[string]string{"c.json": `{"inputs": ["3 4"], "outputs": ["7"]}`}), "c.json")
	config := map[string]any{"cases": cases, "command": []any{python, "main.py"}, "file": "main.py"}
	comment, heading := block("# solution.py\n"+adder), "## solution.py\n\n"+block(adder)
	for answer, want := range map[string]sdk.Outcome{
		comment: sdk.Passed, heading: sdk.Passed, "# notes.txt\n" + block("adds") + heading: sdk.Passed,
		"## main.py\n\n" + block("from solution import *") + heading: sdk.Passed,
		"## other.py\n\n" + block("x = 1") + heading:                 sdk.Inconclusive,
		block("# solution.py\nprint(8)"):                             sdk.Failed,
	} {
		if verdict := judge(t, config, nil, answer); verdict.Outcome != want {
			t.Errorf("%s, want %s: %s (%s)", verdict.Outcome, want, answer, verdict.Evidence)
		}
	}
	config["command"] = []any{python, "solution.py"}
	if verdict := judge(t, config, nil, heading); verdict.Outcome != sdk.Passed {
		t.Error("a name that the command asks for")
	}
}

func TestBuild(t *testing.T) {
	find(t, "go", "version")
	cases := filepath.Join(write(t, map[string]string{"c.json": `{"inputs": ["1 2", "3 4"], "outputs": ["3", "7"]}`}), "c.json")
	config := map[string]any{
		"cases": cases, "command": []any{"./main"}, "file": "main.go", "build": []any{"go", "build", "-o", "main", "main.go"}, "built": []any{"main"}, "build_timeout": "5m", "compare": "numbers",
	}
	program := "package main\n\nfunc main() {\n\tbuf := make([]byte, 3)\n\t_, _ = read(buf)\n\tprint2(int(buf[0]-'0') + int(buf[2]-'0'))\n}\n\nfunc read(b []byte) (int, error) { return os.Stdin.Read(b) }\n\nfunc print2(n int) { os.Stdout.WriteString(string(rune('0'+n)) + \".0000001\\n\") }\n"
	program = strings.Replace(program, "package main\n", "package main\n\nimport \"os\"\n", 1)
	t.Setenv("GOFLAGS", "-toolexec="+filepath.Join(t.TempDir(), "wrapper")) // which the jail has not
	if verdict := judge(t, config, nil, block(program)); verdict.Outcome != sdk.Passed {
		t.Errorf("the right program is %s: %s", verdict.Outcome, verdict.Evidence)
	}
	if verdict := judge(t, config, nil, block(strings.Replace(program, "+ int", "* int", 1))); verdict.Outcome != sdk.Failed {
		t.Error("a wrong program")
	}
	if verdict := judge(t, config, nil, block("package main\n\nfunc main() {")); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "does not build") {
		t.Error("a program that does not build")
	}
}

// A command that compiles uses the build cache, like a build.
func TestGoRun(t *testing.T) {
	find(t, "go", "version")
	cases := filepath.Join(write(t, map[string]string{"c.json": `{"inputs": ["", ""], "outputs": ["7", "7"]}`}), "c.json")
	config := map[string]any{"cases": cases, "command": []any{"go", "run", "main.go"}, "file": "main.go", "timeout": "10s"}
	if out, err := exec.Command("go", "build", "fmt").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if verdict := judge(t, config, nil, block("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(7) }\n")); verdict.Outcome != sdk.Passed {
		t.Errorf("the right program is %s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// A slow toolchain is no evidence about a program.
func TestBuildsOfASlowToolchain(t *testing.T) {
	find(t, "go", "version")
	cases := filepath.Join(write(t, map[string]string{"c.json": `{"inputs": [""], "outputs": ["7"]}`}), "c.json")
	config := map[string]any{
		"cases": cases, "command": []any{"./main"}, "file": "main.go", "build": []any{"go", "build", "-o", "main", "main.go"}, "built": []any{"main"}, "build_timeout": "100ms",
	}
	t.Setenv("GOCACHE", t.TempDir())
	if verdict := judge(t, config, nil, block("package main\n\nfunc main() { println(7) }\n")); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "build_timeout") {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// A service has no home directory: then go has no build cache and no module folder.
func TestBuildWithoutAHome(t *testing.T) {
	if os.Getenv("STEPFALL_ATTACKS") != "all" {
		t.Skip("STEPFALL_ATTACKS is not all") // it compiles the standard library
	}
	find(t, "go", "version")
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "GOCACHE", "GOMODCACHE", "GOPATH"} {
		t.Setenv(name, "")
	}
	cases := filepath.Join(write(t, map[string]string{"c.json": `{"inputs": [""], "outputs": ["7"]}`}), "c.json")
	config := map[string]any{
		"cases": cases, "command": []any{"./main"}, "file": "main.go", "build": []any{"go", "build", "-o", "main", "main.go"}, "built": []any{"main"}, "build_timeout": "5m",
	}
	if verdict := judge(t, config, nil, block("package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"7\\n\") }\n")); verdict.Outcome != sdk.Passed {
		t.Errorf("the right program is %s: %s", verdict.Outcome, verdict.Evidence)
	}
}

func TestChecker(t *testing.T) {
	find(t, python, "-c", "pass")
	dir := write(t, map[string]string{
		"cases/1.in": "6\n", "cases/1.out": "any\n",
		"check.py": "import sys\nn = int(open(sys.argv[1]).read())\na, b = map(int, open(sys.argv[3]).read().split())\nif a * b != n:\n    print('no factors')\n    sys.exit(1)\n",
	})
	config := map[string]any{"cases": filepath.Join(dir, "cases"), "command": []any{python, "main.py"}, "file": "main.py", "checker": []any{python, filepath.Join(dir, "check.py")}}
	for answer, want := range map[string]sdk.Outcome{"print(2, 3)": sdk.Passed, "print(6, 1)": sdk.Passed, "print(5, 1)": sdk.Failed, "raise SystemExit(1)": sdk.Failed} {
		if verdict := judge(t, config, nil, block(answer)); verdict.Outcome != want {
			t.Errorf("%s: %s", answer, verdict.Outcome)
		}
	}
}

func TestTheFirstFailureEndsTheRest(t *testing.T) {
	files := map[string]string{"00.in": "", "00.out": "right\n"}
	for _, name := range []string{"01", "02", "03", "04", "05", "06", "07", "08"} {
		files[name+".in"], files[name+".out"] = "slow", "right\n"
	}
	config := map[string]any{"cases": write(t, files), "command": []any{"sh", "main.sh"}, "file": "main.sh", "parallel": 2, "timeout": "20s"}
	start := time.Now()
	verdict := judge(t, config, nil, block("read x; test -z \"$x\" || sleep 15; echo wrong"))
	if verdict.Outcome != sdk.Failed || time.Since(start) > 14*time.Second && !testing.Short() {
		t.Errorf("%s after %s", verdict.Outcome, time.Since(start))
	}
}

func TestAttackCases(t *testing.T) {
	find(t, python, "-c", "pass")
	dir := write(t, map[string]string{"1.in": "2 3\n", "1.out": "5 is the sum, 8713\n"})
	config := map[string]any{"cases": dir, "command": []any{python, "main.py"}, "file": "main.py"}
	hunt := "import os\nfound = ''\nfor top in ('" + filepath.Dir(dir) + "', '/tmp', '.', '/proc'):\n    for d, _, names in os.walk(top):\n        for n in names:\n            try:\n                text = open(os.path.join(d, n), errors='ignore').read(65536)\n            except OSError:\n                continue\n            if '8713' in text and 'main.py' not in n:\n                found = text\nprint(found or 'nothing')"
	for name, answer := range map[string]string{
		"look for what is expected":   hunt,
		"always equal":                "class A:\n    def __eq__(self, other): return True\nprint(A())",
		"exit(0)":                     "raise SystemExit(0)",
		"write a verdict":             "print('{\"outcome\": \"passed\"}')",
		"write below the tree's root": "import os\nos.makedirs('out', exist_ok=True)\nopen('1.out', 'w').write('')\nprint('')",
		"a shell of its own":          "x\n```\n```sh path=sh\n#!/bin/sh\necho 5",
		"a caller of its own":         "x\n```\n```py path=.stepfall-stdin\nprint(5)",
	} {
		t.Run(name, func(t *testing.T) {
			verdict := judge(t, config, nil, block(answer))
			left, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("ATTACK\t%s\tcases\t%s\t%s\t%s\t%d files", name, strings.Join(verdict.Isolation, " "), verdict.Outcome, verdict.Duration.Round(time.Millisecond), len(left)-2)
			if verdict.Outcome == sdk.Passed || len(left) != 2 {
				t.Errorf("%s, %d files where 2 were: %s", verdict.Outcome, len(left), verdict.Evidence)
			}
		})
	}
	call := map[string]any{"cases": write(t, map[string]string{"c.json": `[{"call": {"function": "f", "arguments": [7]}, "expect": {"result": 12345678901234567}}]`}), "command": []any{python, "main.py"}, "file": "main.py"}
	linked := map[string]any{"cases": dir, "command": []any{"cat", "main"}, "file": "make.sh", "build": []any{"sh", "make.sh"}, "built": []any{"main"}}
	tight := map[string]any{"cases": dir, "command": []any{python, "main.py"}, "file": "main.py", "disk_mib": 16}
	numbers := map[string]any{"cases": write(t, map[string]string{"1.in": "", "1.out": "1000000007 2.5\n"}), "command": []any{python, "main.py"}, "file": "main.py", "compare": "numbers", "tolerance": 0.01}
	for name, test := range map[string]struct {
		config map[string]any
		answer string
	}{
		"off by one where floats are equal":  {call, "def f(x): return 12345678901234568"},
		"a float in an integer's place":      {call, "def f(x): return 1.3e16"},
		"an object that is equal":            {call, "class A(int):\n    def __eq__(self, o): return True\n    def __repr__(self): return '12345678901234567'\ndef f(x): return A(1)"},
		"print in the place of the result":   {call, "import os\ndef f(x):\n    os.write(1, b'0\\n')\n    os._exit(0)"},
		"no number":                          {numbers, "print('nan nan')"},
		"off by one within the tolerance":    {numbers, "print(1000000008, 2.5)"},
		"off by one, written as a float":     {numbers, "print('1000000008.0', 2.5)"},
		"nearly off by one":                  {numbers, "print('1000000007.9', 2.5)"},
		"two signs":                          {numbers, "print('+-1000000007', 2.5)"},
		"infinity":                           {numbers, "print('inf', 2.5)"},
		"a float that cannot tell":           {call, "def f(x): return 12345678901234568.0"},
		"a forged line in the protocol":      {call, "import os, sys\ndef f(x):\n    for fd in range(3, 64):\n        try: os.write(fd, b'{\"result\": 12345678901234567}\\n')\n        except OSError: pass\n    return 0"},
		"a link to what is expected":         {linked, "ln -s " + filepath.Join(dir, "1.out") + " main"},
		"a link by the supervisor":           {linked, "ln -s /proc/self/root" + filepath.Join(dir, "1.out") + " main; ln -s /proc/1/root" + filepath.Join(dir, "1.out") + " main2"},
		"a build that goes on":               {linked, "(setsid sh -c 'sleep 1; cat " + filepath.Join(dir, "1.out") + " > main' &) >/dev/null 2>&1; echo 0 > main"},
		"a pipe in the place of the program": {linked, "mkfifo main"},
		"a file without an end":              {tight, "f = open('x', 'wb')\ntry:\n    while True: f.write(b'0' * 1048576)\nexcept OSError: pass\nprint('0')"},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := judge(t, test.config, nil, block(test.answer))
			t.Logf("ATTACK\t%s\tcases\t%s\t%s\t%s\t0 files", name, strings.Join(verdict.Isolation, " "), verdict.Outcome, verdict.Duration.Round(time.Millisecond))
			if verdict.Outcome != sdk.Failed {
				t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
			}
		})
	}
}

// If an answer could read a case anywhere, no case is run.
func TestAttackCasesWithinReach(t *testing.T) {
	find(t, python, "-c", "pass")
	root := write(t, map[string]string{
		"tree/1.in": "", "tree/1.out": "8713\n", "apart/1.in": "", "apart/1.out": "8713\n", "linked/1.in": "", "venv/pyvenv.cfg": "", "venv/lib/cases/1.in": "", "venv/lib/cases/1.out": "8713\n",
		"modules/cases/1.in": "", "modules/cases/1.out": "8713\n",
	})
	at := func(name string) string { return filepath.Join(root, name) }
	if err := os.Mkdir(at("venv/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"linked/1.out": at("tree/1.out"), "named": at("apart"), "venv/bin/python3": python} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		cases, command, tree string
		readable             []any
		build                []any
	}{
		"in the work tree":                      {cases: at("tree"), tree: at("tree")},
		"in the work tree, by a link":           {cases: at("linked"), tree: at("tree")},
		"in a folder that may be read":          {cases: at("apart"), readable: []any{root}},
		"in one by a link":                      {cases: at("apart"), readable: []any{at("named")}},
		"round a folder that may be read":       {cases: at("apart"), readable: []any{at("apart/1.out")}},
		"in the command's environment":          {cases: at("venv/lib/cases"), command: at("venv/bin/python3")},
		"among what a build in Go may read":     {cases: at("modules/cases"), build: []any{"go", "version"}},
		"in the environment of a build command": {cases: at("venv/lib/cases"), build: []any{at("venv/bin/python3"), "-c", "pass"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.command == "" {
				test.command = python
			}
			config := map[string]any{"cases": test.cases, "command": []any{test.command, "main.py"}, "file": "main.py", "read_only": test.readable}
			if test.build != nil {
				find(t, "go", "version")
				t.Setenv("GOMODCACHE", at("modules"))
				config["build"] = test.build
			}
			verdict := judge(t, config, &sdk.Query{WorkDir: test.tree}, block("print(8713)"))
			if verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "could read them") {
				t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
			}
		})
	}
}

// Evidence is sent to the next model, so it reveals nothing of a hidden case.
func TestEvidenceOfHiddenCases(t *testing.T) {
	find(t, python, "-c", "pass")
	for name, test := range map[string]struct {
		files  map[string]string
		config map[string]any
		answer string
	}{
		"its input by standard error": {map[string]string{"secret8713.in": "8713\n", "secret8713.out": "5\n"}, nil, "import sys\nsys.stderr.write(input())"},
		"its input by a crash":        {map[string]string{"1.in": "8713\n", "1.out": "5\n"}, nil, "raise SystemExit(input())"},
		"its input by an exit code":   {map[string]string{"1.in": "87\n", "1.out": "5\n"}, nil, "raise SystemExit(int(input()))"},
		"how many lines it wants":     {map[string]string{"1.in": "", "1.out": strings.Repeat("x\n", 87)}, nil, "print('x')"},
		"the words of a checker": {map[string]string{"1.in": "", "1.out": "8713\n", "check/c.py": "import sys\nprint('expected', open(sys.argv[2]).read())\nsys.exit(1)"},
			map[string]any{"checker": "check/c.py"}, "print(1)"},
		"the words of a checker that fails": {map[string]string{"1.in": "", "1.out": "8713\n", "check/c.py": "import sys\nprint('expected', open(sys.argv[2]).read())\nsys.exit(127)"},
			map[string]any{"checker": "check/c.py"}, "print(1)"},
		"the path of a request": {map[string]string{"1.json": `{"http": [{"path": "/8713", "expect": {"status": 287}}]}`}, nil, "import http.server, os\nhttp.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), http.server.BaseHTTPRequestHandler).serve_forever()"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, test.files)
			config := map[string]any{"cases": dir, "command": []any{python, "main.py"}, "file": "main.py"}
			if test.config != nil {
				config["checker"] = []any{python, filepath.Join(dir, "check/c.py")}
			}
			verdict := judge(t, config, nil, block(test.answer))
			if verdict.Outcome == sdk.Passed || strings.Contains(verdict.Evidence, "87") {
				t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
			}
		})
	}
}

// A program that starts and exits with a shell's code for a missing command has failed; one that cannot be started is
// no evidence.
func TestExitCodesOfAShell(t *testing.T) {
	find(t, python, "-c", "pass")
	cases := write(t, map[string]string{"1.in": "", "1.out": "5\n"})
	broken := filepath.Join(write(t, map[string]string{"run": "#!/no/such/interpreter\n"}), "run")
	if err := os.Chmod(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		command, build []any
		answer         string
		want           sdk.Outcome
	}{
		{[]any{python, "main.py"}, nil, "raise SystemExit(127)", sdk.Failed},
		{[]any{python, "main.py"}, nil, "raise SystemExit(126)", sdk.Failed},
		{[]any{"sh", "main.py"}, nil, "exec /no/such/program", sdk.Failed},
		{[]any{python, "main.py"}, []any{"sh", "main.py"}, "exit 127", sdk.Failed},
		{[]any{broken, "main.py"}, nil, "print(5)", sdk.Inconclusive},
		{[]any{python, "main.py"}, []any{broken}, "print(5)", sdk.Inconclusive},
	} {
		config := map[string]any{"cases": cases, "command": test.command, "file": "main.py", "read_only": []any{filepath.Dir(broken)}}
		if test.build != nil {
			config["build"] = test.build
		}
		if verdict := judge(t, config, nil, block(test.answer)); verdict.Outcome != test.want {
			t.Errorf("%v, %s: %s, want %s", test.command, test.answer, verdict.Outcome, test.want)
		}
	}
}

// A case can expect that exit code from a program that did start.
func TestExpectedExitCodesOfAShell(t *testing.T) {
	find(t, python, "-c", "pass")
	cases := write(t, map[string]string{"127.json": `{"expect": {"exit_code": 127}}`})
	broken := filepath.Join(write(t, map[string]string{"run": "#!/no/such/interpreter\n"}), "run")
	if err := os.Chmod(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		command []any
		answer  string
		want    sdk.Outcome
	}{
		{[]any{python, "main.py"}, "raise SystemExit(127)", sdk.Passed},
		{[]any{python, "main.py"}, "raise SystemExit(126)", sdk.Failed},
		{[]any{python, "main.py"}, "pass", sdk.Failed},
		{[]any{broken, "main.py"}, "raise SystemExit(127)", sdk.Inconclusive},
		{[]any{"/no/such/program", "main.py"}, "raise SystemExit(127)", sdk.Inconclusive},
	} {
		config := map[string]any{"cases": cases, "command": test.command, "file": "main.py", "read_only": []any{filepath.Dir(broken)}}
		if verdict := judge(t, config, nil, block(test.answer)); verdict.Outcome != test.want {
			t.Errorf("%v, %s: %s, want %s", test.command, test.answer, verdict.Outcome, test.want)
		}
	}
}

func TestContainer(t *testing.T) {
	command, image := containertest.Image(t)
	engine := make([]any, len(command))
	for i := range command {
		engine[i] = command[i]
	}
	config := map[string]any{
		"cases": write(t, map[string]string{"1.in": "a\n", "1.out": "got a\n", "2.in": "b\n", "2.out": "got b\n"}), "command": []any{"sh", "main.sh"}, "file": "main.sh",
		"runtime": "container", "image": image, "engine": engine, "require": []any{"network", "memory"}, "timeout": "60s",
	}
	for answer, want := range map[string]sdk.Outcome{"echo got $(cat)": sdk.Passed, "echo got a": sdk.Failed} {
		if verdict := judge(t, config, nil, block(answer)); verdict.Outcome != want || !strings.Contains(strings.Join(verdict.Isolation, " "), "container") {
			t.Errorf("%s: %+v", answer, verdict)
		}
	}
}

// A version manager's shim in the PATH stands for the program that it would start.
func TestCommandsOfAVersionManager(t *testing.T) {
	find(t, python, "-c", "pass")
	dir := write(t, map[string]string{
		"cases/1.in": "1 2\n", "cases/1.out": "3\n", "manager/shims/snake": "#!/bin/sh\nexit 1\n",
		"manager/libexec/pyenv": "#!/bin/sh\n[ $2 = snake ] && echo " + python + "\n",
	})
	for _, name := range []string{"manager/shims/snake", "manager/libexec/pyenv"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "manager", "shims")+":"+os.Getenv("PATH"))
	config := map[string]any{"cases": filepath.Join(dir, "cases"), "command": []any{"snake", "main.py"}, "file": "main.py"}
	if verdict := judge(t, config, nil, block(adder)); verdict.Outcome != sdk.Passed {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}
