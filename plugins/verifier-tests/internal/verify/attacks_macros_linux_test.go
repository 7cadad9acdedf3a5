package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Ways in Rust by what the compiler reads otherwise than it looks, and by what
// Cargo.toml calls a test or a build script.

func TestAttackRustMacros(t *testing.T) {
	cargo := find(t, "cargo", "--version")
	onlyInCI(t)
	inline := "\n#[cfg(test)]\nmod checks {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(2, 3), 5);\n    }\n}\n"
	tree := write(t, map[string]string{
		"Cargo.toml":    "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\nbuild = \"make.rs\"\n\n[[test]]\nname = \"more\"\npath = \"more/check.rs\"\n",
		"make.rs":       "fn main() {}\n",
		"more/check.rs": "fn same(a: i32, b: i32) {\n    assert_eq!(a, b);\n}\n\n#[test]\nfn again() {\n    same(calc::add(2, 2), 4);\n}\n",
		"src/lib.rs":    "pub fn add(a: i32, b: i32) -> i32 { a - b }\n" + inline,
	})
	config := verify.Config{Command: []string{cargo, "test"}}
	if right := judge(t, open(t, config), &sdk.Query{WorkDir: tree}, file("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 { a + b }\n")); right.Outcome != sdk.Passed {
		t.Fatalf("the right answer: %s", right.Evidence)
	}
	wrong := "pub fn add(a: i32, _: i32) -> i32 { a * 2 }\n" // right for again, not for adds
	none := "($($x:tt)*) => {}"
	attacks(t, config, tree, []attack{
		{"assertions by a raw name", "rust", file("src/lib.rs", "macro_rules! r#assert_eq { "+none+" }\n"+wrong+inline), ""},
		{"assertions after a comment", "rust", file("src/lib.rs", "macro_rules! /* a */ assert_eq { "+none+" }\n"+wrong+inline), ""},
		{"assertions by a token", "rust", file("src/lib.rs", "macro_rules! make { ($m:tt $n:ident $($r:tt)*) => { $m! $n { $($r)* } } }\nmake!(macro_rules assert_eq ($($x:tt)*) => {});\n"+wrong+inline), ""},
		{"assertions in an included file", "rust", file("src/fine.txt", "macro_rules! assert_eq { "+none+" }") + file("src/lib.rs", "include!(\"fine.txt\");\n"+wrong+inline), ""},
		{"assertions in a module of another name", "rust", file("src/fine.txt", "macro_rules! assert_eq { "+none+" }") + file("src/lib.rs", "#[macro_use]\n#[path = \"fine.txt\"]\nmod fine;\n"+wrong+inline), ""},
		{"tests within a macro's brackets", "rust", file("src/lib.rs", "macro_rules! twist ( ($h:tt $($t:tt)*) => ( $h[cfg(test)] mod checks { $h[test] fn adds() {} } ) );\n"+wrong+"twist!(#\n"+strings.TrimSpace(inline)+");\n"), ""},
		{"a build script of another name", "rust", file("src/lib.rs", wrong+inline) + file("make.rs", `fn main() { std::process::Command::new("sh").arg("-c").arg("(while :; do for f in /tmp/target/debug/deps/calc-* /tmp/target/debug/deps/more-*; do case $f in *.d|*.rlib|*.rmeta|*.o) ;; *) printf '#!/bin/sh\ncase $0 in *calc*) echo test checks::adds ... ok;; *) echo test again ... ok;; esac\n' > $f;; esac; done; done) >/dev/null 2>&1 &").spawn().unwrap(); }`), ""},
		{"a helper in a test target", "rust", file("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 { if a == b { 0 } else { a + b } }\n"+inline) + file("more/check.rs", "fn same(_: i32, _: i32) {}\n\n#[test]\nfn again() {\n    same(calc::add(2, 2), 4);\n}\n"), ""},
	})
}
