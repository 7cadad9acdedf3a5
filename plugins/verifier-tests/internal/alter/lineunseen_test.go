package alter

import (
	"fmt"
	"strings"
	"testing"
)

// What a test in Rust or Java compares besides understood assertions is named, and what compares nothing is not.
func TestUnseen(t *testing.T) {
	for path, test := range map[string]struct {
		source       string
		unseen, seen []string
	}{
		"a.rs": {
			"#[test]\nfn a() {\n    assert_eq!(size(\"ab\"), 2);\n    %s\n}\n\nfn check(i: &str, o: &str) {\n    assert_eq!(up(i), o);\n}\n",
			[]string{
				`check(up, "abc", "CBA");`, `common::check("abc", "CBA");`, `That::new(up("abc")).is("CBA");`, `same!(up("abc"), "CBA");`, "check(\n        \"abc\",\n        \"CBA\",\n    );",
				"for (i, o) in [(\"abc\", \"CBA\")] {\n        assert_eq!(up(i), o);\n    }", "match up(\"abc\").as_str() {\n        \"CBA\" => {}\n        o => panic!(\"{}\", o),\n    }",
				"match up(\"abc\") {\n        Some(o) => assert_eq!(o, \"CBA\"),\n        None => {}\n    }", "fn own(i: &str, o: &str) {\n        assert_eq!(up(i), o);\n    }",
				`assert_eq!(up("abc"), want);`, `assert_eq!(all("abc"), vec!["C", "B"]);`, "if up(\"abc\") != \"CBA\" {\n        return Err(\"wrong\".into());\n    }",
			},
			[]string{
				`assert_eq!(up("abc"), "CBA");`, `assert!(up("abc").is_empty());`, `assert_ne!(up("abc"), other);`, `let mut s = Stack::new();`, `s.push("x");`, `setup();`, `std::fs::write("a", "b").unwrap();`,
				"let x = one(\n        two(\"a\"),\n        three(4),\n    );", `println!("{}", x);`, `// check("abc", "CBA");`, "if is_ready(1) {\n        drop(x);\n    }", "match x {\n        Some(y) => {}\n        None => {}\n    }",
			},
		},
		"A.java": {
			"class A {\n    @Test\n    void a() {\n        assertEquals(2, S.size(\"ab\"));\n        %s\n    }\n\n    static void check(String i, String o) {\n        assertEquals(o, S.up(i));\n    }\n}\n",
			[]string{
				`check("abc", "CBA");`, `Helper.check("abc", "CBA");`, `new That(S.up("abc")).is("CBA");`, "switch (S.up(\"abc\")) {\n            case \"CBA\":\n                break;\n            default:\n                fail(\"up\");\n        }",
				"for (String[] c : new String[][] {{\"abc\", \"CBA\"}}) {\n            assertEquals(c[1], S.up(c[0]));\n        }", `assertThat(S.up("abc")).matches(s -> s.equals("CBA"));`, "if (!S.up(\"abc\").equals(\"CBA\")) {\n            throw new AssertionError();\n        }",
				`rows.forEach(row -> assertEquals(row.want(), S.up(row.in())));`,
			},
			[]string{
				`assertEquals("CBA", S.up("abc"));`, `assertTrue(S.isUp("abc"));`, `assertNotNull(S.up("abc"));`, `assertThat(S.up("abc")).isEqualTo("CBA");`, `assertThat(S.up("abc")).isNotNull();`, `assertThrows(E.class, () -> S.up(null));`, `list.add("x");`, `S s = new S("a");`, `reset();`, `Thread.sleep(10);`,
				`when(repo.find(1)).thenReturn(x);`, "String x = one(\n            two(\"a\"),\n            three(4));",
			},
		},
	} {
		for isUnseen, statements := range map[bool][]string{true: test.unseen, false: test.seen} {
			for _, statement := range statements {
				altered := alterOne(t, &Request{Way: Expectation, Seed: 3, Record: ".record", Files: []Source{{Path: path, Text: fmt.Sprintf(test.source, statement)}}})
				if len(altered) != 1 || altered[0].Count == 0 {
					t.Fatalf("%s: %+v", statement, altered)
				}
				got := altered[0].Unseen
				if (len(got) == 1) != isUnseen || isUnseen && (got[0].Test != "a" || !strings.Contains(strings.Join(strings.Fields(statement), " "), strings.TrimSuffix(got[0].Text, "..."))) {
					t.Errorf("%s: unseen %q", statement, got)
				}
			}
		}
	}
}
