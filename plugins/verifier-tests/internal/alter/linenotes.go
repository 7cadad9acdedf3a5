package alter

import (
	"regexp"
	"strconv"
	"strings"
)

// lineNotes has the code with which assertions of a language without a parser record what the code returned. @
// stands for the prefix of names.
type lineNotes struct {
	// truths are the assertions of a condition that can record it.
	truths []string
	// saw records $actual at $site and returns it; held records it and returns $other.
	saw, held string
	// helpers are the functions for that. They are inserted after the last line that after matches or, if
	// after is nil, at the beginning of each test.
	helpers string
	after   *regexp.Regexp
}

var (
	rustNotes = &lineNotes{truths: []string{"assert!"}, saw: "*@saw($site, &($actual))", held: "{ @saw($site, &($actual)); $other }", helpers: strings.ReplaceAll(rustHelpers, "\n", " ")}
	cNotes    = &lineNotes{saw: "@saw($site, ($actual))", held: "((void)@saw($site, ($actual)), $other)", helpers: cHelpers, after: regexp.MustCompile(`^\s*#\s*include\b`)}
	javaNotes = &lineNotes{truths: []string{"assertTrue", "assertFalse", "isTrue", "isFalse"}, saw: "@saw($site, $actual)", held: "@held(@saw($site, $actual), $other)", helpers: strings.ReplaceAll(javaHelpers, "\n", " "), after: regexp.MustCompile(`^\s*(?:(?:public|final|abstract)\s+)*class\s+\w+[^{]*\{\s*$`)}
)

// The helpers search for the file of notes in the working directory and its parents.
const (
	rustHelpers = `fn @saw<'a, T: ::std::fmt::Debug + ?Sized>(site: &str, v: &'a T) -> &'a T {
let own = ::std::any::type_name::<T>().trim_start_matches('&');
let mark = if own.contains("::") && !["alloc::", "core::", "std::"].iter().any(|s| own.starts_with(s)) { '~' } else { '=' };
let mut file = ::std::string::String::from(@record);
for _ in 0..20 {
if let Ok(mut f) = ::std::fs::OpenOptions::new().append(true).open(&file) {
use ::std::io::Write as _;
let _ = f.write_all(::std::format!("{}\t{}{}\n", site, mark, ::std::format!("{:?}", v).replace('\n', " ")).as_bytes());
break;
}
file.insert_str(0, "../");
}
v
}`
	cHelpers = `#include <stdio.h>
#include <string.h>
#define @saw(n, e) __extension__({ __typeof__((e) + 0) @v = (e); @note(n, _Generic(@v, char *: 1, const char *: 1, float: 2, double: 2, default: 0), _Generic(@v, char *: @v, const char *: @v, default: ""), _Generic(@v, char *: 0, const char *: 0, float: 0, double: 0, default: @v)); @v; })
static __attribute__((unused)) void @note(const char *n, int kind, const char *s, long long i) {
char file[256] = @record; FILE *f = 0;
for (int k = 0; k < 20 && !(f = fopen(file, "r+")); k++) { memmove(file + 3, file, strlen(file) + 1); memcpy(file, "../", 3); }
if (!f) return;
fseek(f, 0, SEEK_END);
if (kind == 1) fprintf(f, "%s\t=\"%s\"\n", n, s ? s : "(null)"); else if (kind == 2) fprintf(f, "%s\t?\n", n); else fprintf(f, "%s\t=%lld\n", n, i);
fclose(f);
}
`
	javaHelpers = `static <T> T @saw(String site, T v) {
try {
java.nio.file.Path file = java.nio.file.Paths.get("").toAbsolutePath();
while (file != null && !java.nio.file.Files.exists(file.resolve(@record))) file = file.getParent();
String mark = v == null || v.getClass().getName().startsWith("java.lang.") ? "=" : "?";
boolean isWhole = v instanceof Number && ((Number) v).doubleValue() == ((Number) v).longValue();
String text = v instanceof String ? "\"" + v + "\"" : isWhole ? String.valueOf(((Number) v).longValue()) : String.valueOf(v);
if (file != null) java.nio.file.Files.write(file.resolve(@record), (site + "\t" + mark + text.replace("\n", " ") + "\n").getBytes("UTF-8"), java.nio.file.StandardOpenOption.APPEND);
} catch (java.io.IOException e) { }
return v;
}
static int @saw(String site, int v) { return @saw(site, (Integer) v); }
static long @saw(String site, long v) { return @saw(site, (Long) v); }
static double @saw(String site, double v) { return @saw(site, (Double) v); }
static boolean @saw(String site, boolean v) { return @saw(site, (Boolean) v); }
static char @saw(String site, char v) { return @saw(site, (Character) v); }
static int @held(Object v, int other) { return other; }
static boolean @held(Object v, boolean other) { return other; }
static String @held(Object v, String other) { return other; }`
)

// valueOf returns the note of the expected value. In C a truth value is a number.
func (n *lineNotes) valueOf(c *lineComparison) string {
	if number, isTruth := map[string]string{"=true": "=1", "=false": "=0"}[c.note]; isTruth && n == cNotes {
		return number
	}
	return c.note
}

// withNote returns an assertion that records what it compares, altered according to the request.
func (a *lineAlteration) withNote(s *lineAssertion, c *lineComparison, place int) string {
	isTruth, isAltered, site := c.operator != "", a.request.Way != Record, a.source.Path+":"+strconv.Itoa(place)
	a.source.Compared = append(a.source.Compared, Comparison{Name: site, Test: a.name, Values: []string{a.language.notes.valueOf(c)}})
	mark(a.values, a.name, !isTruth)
	wanted, call, other := (c.note == "=true") != isAltered, a.language.notes.saw, ""
	edits := []edit{{c.expected[0], c.expected[1], ""}}
	if !isTruth {
		if other = s.textAt(c.leaves[0]); isAltered {
			other = a.otherLiteral(other)
		}
		edits = []edit{{c.leaves[0][0], c.leaves[0][1], other}}
	}
	switch {
	case a.request.Way != Hold && isTruth && c.call != s: // whose subject can be an object that holds the truth value
		if isAltered {
			edits = append(edits, c.call.inversion())
		}
	case a.request.Way != Hold && isTruth:
		call += " " + c.operator + " " + strconv.FormatBool(wanted)
	case a.request.Way == Hold && isTruth:
		call, other = a.language.notes.held, strconv.FormatBool(c.operator == "==")
	case a.request.Way == Hold:
		call = a.language.notes.held
	}
	text := strings.NewReplacer("@", a.prefix, "$site", strconv.Quote(site), "$actual", s.textAt(c.actual), "$other", other).Replace(call)
	return apply(s.text, append(edits, edit{c.actual[0], c.actual[1], text}))
}
