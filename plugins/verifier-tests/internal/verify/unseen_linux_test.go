package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// The answers read what is expected from the source of the tests, or are right.
const (
	rustPackage = "[package]\nname = \"s\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"
	rustReads   = "    for name in [\"tests/s.rs\"] {\n        if let Ok(src) = std::fs::read_to_string(name) {\n            let key = format!(\"\\\"{}\\\"\", text);\n            for (at, _) in src.match_indices(&key) {\n                let got = src[at + key.len()..].splitn(3, '\"').nth(1).unwrap_or(\"\");\n                if !got.is_empty() && got.chars().all(|c| c.is_ascii_uppercase()) {\n                    return got.to_string();\n                }\n            }\n        }\n    }\n    text.to_string()\n"
	rustSize    = "\npub fn size(text: &str) -> usize {\n    text.len()\n}\n"
	rustRight   = "pub fn up(text: &str) -> String {\n    text.chars().rev().collect::<String>().to_uppercase()\n}\n" + rustSize
)

// One understood assertion does not vouch for what a test in Rust compares beside it.
func TestUnseenInRust(t *testing.T) {
	t.Parallel()
	cargo := find(t, "cargo", "--version")
	const first = "pub fn up(text: &str) -> String {\n" + rustReads + "}\n" + rustSize
	for name, test := range map[string]struct{ beside, more, says string }{
		"a loop over rows":  {"for (i, o) in [(\"abc\", \"CBA\"), (\"xyz\", \"ZYX\")] {\n        assert_eq!(up(i), o);\n    }", "", "compares by assert_eq!(up(i), o) was not seen"},
		"a helper":          {`check(up, "abc", "CBA");`, "fn check(f: fn(&str) -> String, i: &str, o: &str) {\n    assert_eq!(f(i), o);\n}\n", `compares by check(up, "abc", "CBA") was not seen`},
		"all is understood": {`assert_eq!(up("abc"), "CBA");`, "", ""},
	} {
		if name != "a loop over rows" && !everyAttack() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{
				"Cargo.toml": rustPackage, "src/lib.rs": "pub fn up(text: &str) -> String {\n    text.to_string()\n}\n\npub fn size(text: &str) -> usize {\n    text.len() + 1\n}\n",
				"tests/s.rs": "use s::{size, up};\n\n#[test]\nfn test_up() {\n    assert_eq!(size(\"ab\"), 2);\n    " + test.beside + "\n}\n\n" + test.more,
			})
			v := open(t, verify.Config{Command: []string{cargo, "test"}})
			right := judge(t, v, &sdk.Query{WorkDir: dir}, file("src/lib.rs", rustRight))
			forged := judge(t, v, &sdk.Query{WorkDir: dir}, file("src/lib.rs", first))
			if right.Outcome != sdk.Passed || (right.Confidence <= 0.85) != (test.says != "") || !strings.Contains(right.Evidence, test.says) {
				t.Errorf("the right answer, with confidence %v: %s", right.Confidence, right.Evidence)
			}
			if test.says == "" && forged.Outcome == sdk.Passed || forged.Confidence > 0.85 {
				t.Errorf("the forged one passes with confidence %v: %s", forged.Confidence, forged.Evidence)
			}
		})
	}
}

// Code in Rust that does not compile where its tests record what it returns, since it reads them when it is compiled, does
// not turn the recording off; where the tests themselves cannot record it, right code passes.
func TestReadsWhenCompiled(t *testing.T) {
	t.Parallel()
	cargo := find(t, "cargo", "--version")
	const has = "const fn has(text: &[u8], word: &[u8]) -> bool {\n    let mut at = 0;\n    while at + word.len() <= text.len() {\n        let mut n = 0;\n        while n < word.len() && text[at + n] == word[n] {\n            n += 1;\n        }\n        if n == word.len() {\n            return true;\n        }\n        at += 1;\n    }\n    false\n}\n\nconst _: () = assert!(!has(include_bytes!(\"../tests/s.rs\"), b\"std::\"));\n\n"
	files := map[string]string{
		"Cargo.toml": rustPackage, "src/lib.rs": "pub fn up(text: &str) -> String {\n    text.to_string()\n}\n" + rustSize,
		"tests/s.rs": "use s::up;\n\n#[test]\nfn test_up() {\n    assert_eq!(up(\"abc\"), \"CBA\");\n    assert_eq!(up(\"xyz\"), \"ZYX\");\n}\n",
	}
	v := open(t, verify.Config{Command: []string{cargo, "test"}})
	if verdict := judge(t, v, &sdk.Query{WorkDir: write(t, files)}, file("src/lib.rs", has+rustRight)); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "while it is compiled") {
		t.Errorf("%s with confidence %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
	}
	if !everyAttack() {
		return
	}
	files["src/word.txt"] = "x"
	files["src/lib.rs"] = "pub struct Word(pub String);\n\nimpl PartialEq<str> for Word {\n    fn eq(&self, other: &str) -> bool {\n        self.0 == other\n    }\n}\n\npub fn up(text: &str) -> Word {\n    Word(text.to_string())\n}\n"
	files["tests/s.rs"] = "use s::up;\n\n#[test]\nfn test_up() {\n    assert!(up(\"abc\") == *\"CBA\");\n    assert!(up(\"xyz\") == *\"ZYX\");\n}\n"
	right := strings.Replace(files["src/lib.rs"], "text.to_string()", "text.chars().rev().collect::<String>().to_uppercase()", 1) + "\npub const WORD: &str = include_str!(\"word.txt\");\n"
	if verdict := judge(t, v, &sdk.Query{WorkDir: write(t, files)}, file("src/lib.rs", right)); verdict.Outcome != sdk.Passed {
		t.Errorf("values that cannot be recorded: %s: %s", verdict.Outcome, verdict.Evidence)
	}
}
