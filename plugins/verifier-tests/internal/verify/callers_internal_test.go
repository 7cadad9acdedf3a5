package verify

import "testing"

// Code that inspects the call stack is recognized in each language, and similar code is not.
func TestCountCallers(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       int
	}{
		{"a.go", "package a\nimport (rt \"runtime\"; \"runtime/debug\")\nfunc f() { rt.Caller(1) }\nfunc g() { print(debug.Stack()) }", 2},
		{"a.go", "package a\nimport \"runtime/debug\"\nfunc f() { defer func() { if recover() != nil { debug.PrintStack() } }() }", 0},
		{"a.go", "package a\nimport \"runtime\"\nfunc f() { runtime.GC(); var debug struct{ Stack int }; _ = debug.Stack }", 0},
		{"a.go", "package", 0},
		{"a.py", "f = sys._getframe(1)\ng = inspect.currentframe()", 2},
		{"a.py", "inspect.signature(f); traceback.format_exc()", 0},
		{"a.js", "const at = new Error('x').stack", 1},
		{"a.ts", "log(error.stack); Error.captureStackTrace(this)", 0},
		{"a.rs", "let at = Location::caller();\nlet thread = thread::current();\nlet name = thread.name();", 2},
		{"a.rs", "thread::spawn(|| thread::current().unpark())", 0},
		{"A.java", "StackWalker.getInstance()", 1},
		{"a.c", "backtrace(calls, 9)", 1},
		{"a.sh", "read -r line < <(caller)\n# the caller is asked\necho caller", 1},
		{"a.txt", "new Error().stack", 0},
	} {
		if got := countCallers(c.file, []byte(c.text)); got != c.want {
			t.Errorf("%s: %q: %d, want %d", c.file, c.text, got, c.want)
		}
	}
}
