package runner

import (
	"strings"
	"testing"
)

func TestRustTestsAreThoseOfTheCleanTree(t *testing.T) {
	const code = "#![allow(x)]\nuse std::fmt;\n\n// not #[cfg(test)] mod a {}\nfn f<'a>(x: &'a str) -> char { '}' }\n"
	const tests = "/// Doc.\n#[cfg(test)]\n#[allow(y)]\nmod tests {\n    fn q() -> char { '\\'' }\n    #[test]\n    fn a() { assert!(\"}\".len() == 1); }\n}\n"
	const after = "\nconst _: () = ();\n"
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing to restore": {code, code + tests, code + tests},
		"the same":           {code + tests, strings.Replace(code, "use", "pub use", 1) + tests, strings.Replace(code, "use", "pub use", 1) + tests},
		"left out":           {code + tests, code, code + after + tests},
		"changed":            {code + tests, code + strings.Replace(tests, "== 1", "== 2", 1), code + after + tests},
		"a function":         {"#[test]\nfn a() {}\n", "#[tokio::test(flavor = \"x\")]\nasync fn a() {\n    let x = [0; 2];\n}\nfn b() {}\n", "fn b() {}\n" + after + "#[test]\nfn a() {}\n"},
		"an import":          {"#[cfg(test)]\nuse a::{\n    b,\n};\nfn c() {\n}\n", "fn c() {\n    d();\n}\n", "fn c() {\n    d();\n}\n" + after + "#[cfg(test)]\nuse a::{\n    b,\n};\n"},
		"a file":             {"#[cfg(all(test, unix))]\nmod tests;\n", "", after + "#[cfg(all(test, unix))]\nmod tests;\n"},
	} {
		if got := string(RestoreTests("src/lib.rs", []byte(c.before), []byte(c.after))); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	for text, want := range map[string]bool{
		"mod inner {\n    #[cfg(test)]\n    mod tests {\n        #[test]\n        fn a() {}\n    }\n}\n": true, code + tests: false, "#![cfg(test)]\n": true,
	} {
		if Decides("src/a.rs", []byte(text), nil) != want {
			t.Errorf("decides: %t, want %t:\n%s", !want, want, text)
		}
	}
}

func TestSourcesOfModules(t *testing.T) {
	const before = "module a\n\ngo 1.22\n\nrequire b v1.0.0\n\nreplace b => ./b\n"
	for after, want := range map[string]bool{
		before: false, strings.Replace(before, "v1.0.0", "v1.1.0", 1) + "require (\n\tc v1.0.0 // indirect\n)\n": false, strings.Replace(before, "1.22", "1.24", 1): false,
		strings.Replace(before, "1.22", "1.21", 1): true, strings.Replace(before, "./b", "./c", 1): true, before + "ignore ./x\n": true, before + "toolchain go1.99.0\n": true, "module": true,
	} {
		if Decides("go.mod", []byte(before), []byte(after)) != want {
			t.Errorf("decides: %t, want %t:\n%s", !want, want, after)
		}
	}
}
