package runner

import (
	"strings"
	"testing"
)

func TestRustTestsAreThoseOfTheCleanTree(t *testing.T) {
	const code = "#![allow(x)]\nuse std::fmt;\n\n// not #[cfg(test)] mod a {}\nconst A: &str = \"#[test] fn b() {\";\nconst B: &str = r#\"}\" #[test] \"#;\nfn f<'a>(x: &'a str) -> char { '}' }\n/* /* } */ #[test] */\n"
	const tests = "/// Doc.\n#[cfg(test)]\n#[allow(y)]\nmod tests {\n    fn q() -> char { '\\'' }\n    #[test]\n    fn a() { assert!(\"}\".len() == 1); }\n}"
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing to restore": {code, code + tests, code + tests},
		"the same":           {code + tests, strings.Replace(code, "use", "pub use", 1) + tests, strings.Replace(code, "use", "pub use", 1) + tests},
		"left out":           {code + tests, code, code + "\nconst _: () = ();\n\n" + tests + "\n"},
		"changed":            {code + tests, code + strings.Replace(tests, "== 1", "== 2", 1), code + "\nconst _: () = ();\n\n" + tests + "\n"},
		"a function":         {"#[test]\nfn a() {}\n", "#[tokio::test(flavor = \"x\")]\nasync fn a() { let x = [0; 2]; }\nfn b() {}", "\nfn b() {}\nconst _: () = ();\n\n#[test]\nfn a() {}\n"},
		"a file":             {"#[cfg(all(test, unix))]\nmod tests;\n", "", "\nconst _: () = ();\n\n#[cfg(all(test, unix))]\nmod tests;\n"},
	} {
		if got := string((&cargo{}).Restore("src/lib.rs", []byte(c.before), []byte(c.after))); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	if !(&cargo{}).Decides("src/a.rs", []byte("mod inner {\n"+tests+"\n}\n"), nil) || (&cargo{}).Decides("src/a.rs", []byte(code+tests), nil) || !(&cargo{}).Decides("src/a.rs", []byte("#![cfg(test)]\n"), nil) {
		t.Error("a file whose tests cannot be told from the rest is not kept")
	}
}

// FuzzRustTests: whatever the sources, what is restored holds the tests of the clean one.
func FuzzRustTests(f *testing.F) {
	f.Add("#[test]\nfn a() {}", "fn b() { '\\'' }")
	f.Add("#[cfg(test)] mod t { r##\"\"# }", "/* /* */ b'x' \"\\\"")
	f.Fuzz(func(t *testing.T, before, after string) {
		tests, _ := rustTests([]byte(before))
		out := string((&cargo{}).Restore("a.rs", []byte(before), []byte(after)))
		for _, item := range tests {
			if !strings.Contains(out, before[item.from:item.to]) {
				t.Errorf("%q is not in %q", before[item.from:item.to], out)
			}
		}
	})
}

// A word that is longer than any bound ends where it ends: what follows is read from there.
func TestRustWordsAreReadWhole(t *testing.T) {
	src := []byte(strings.Repeat("a", 200) + `r"\" #[test] fn hidden() {}"` + "\n#[test]\nfn seen() {}\n")
	items, ok := rustTests(src)
	if !ok || len(items) != 1 || !strings.Contains(string(src[items[0].from:items[0].to]), "seen") {
		t.Errorf("%d items, %t", len(items), ok)
	}
}
