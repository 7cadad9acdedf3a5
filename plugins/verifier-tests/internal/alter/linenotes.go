package alter

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lineNotes is how a language without a parser notes what the code returned, in assertions that
// stand on a line of their own. @ stands for the prefix of names.
type lineNotes struct {
	// find returns what the assertion on a line compares.
	find func(line string) (lineComparison, bool)
	// saw notes $actual at $site and is equal to it, held notes it and is equal to $other.
	saw, held string
	// helpers are the functions for that, which are put behind the last line that after matches,
	// or, where that is nil, at the beginning of each test.
	helpers string
	after   *regexp.Regexp
}

// lineComparison is what stands on a line: an expression, what it is compared with, and the
// literal in that; or a truth, which an operator has come out as it must, with a ! before it.
type lineComparison struct {
	actual, expected, leaf [2]int
	note, operator         string
}

var (
	rustEqual    = regexp.MustCompile(`^\s*assert_eq!\s*\(`)
	rustAssert   = regexp.MustCompile(`^\s*assert!\s*\(`)
	cAssert      = regexp.MustCompile(`^\s*(?i:assert|check|expect|require)\s*\(`)
	javaAssert   = regexp.MustCompile(`^\s*(?:\w+\.)?assert(Equals|True|False)\s*\(`)
	literalValue = regexp.MustCompile(`^\s*(-?\d+|"[^"\\]*"|true|false)\s*$`)
	// A ! before it is about a simple call as a whole.
	notCall = regexp.MustCompile(`^\s*!\s*[\w.:]+\([^()]*\)\s*$`)
	// What compares returns nothing but whether it is so.
	cComparer = regexp.MustCompile(`(?i)(cmp|equals?|same)\w*\s*\(`)
	cString   = regexp.MustCompile(`^\s*(!?)\s*strcmp\s*\((.*)\)\s*(==\s*0)?\s*$`)
)

// arguments are where those of a call stand, of which a text goes on behind the opening
// bracket; none where nothing but the end follows the call.
func arguments(text string, from int) (all [][2]int) {
	depth, start, quoted := 0, from, false
	for i := from; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			if depth--; depth < 0 && strings.TrimSpace(text[i+1:]) == ";" {
				return append(all, [2]int{start, i})
			} else if depth < 0 {
				return nil
			}
		case c == ',' && depth == 0:
			all, start = append(all, [2]int{start, i}), i+1
		}
	}
	return nil
}

// equality is a comparison of two sides, of which one is a literal.
func equality(line string, sides [][2]int) (lineComparison, bool) {
	for i, side := range sides {
		match, other := literalValue.FindStringSubmatchIndex(line[side[0]:side[1]]), sides[1-i]
		if match != nil && !literalValue.MatchString(line[other[0]:other[1]]) {
			leaf := [2]int{side[0] + match[2], side[0] + match[3]}
			return lineComparison{actual: other, expected: side, leaf: leaf, note: "=" + line[leaf[0]:leaf[1]]}, true
		}
	}
	return lineComparison{}, false
}

// truth is what must be so, or must not.
func truth(line string, at [2]int, wanted bool) lineComparison {
	operator := map[bool]string{true: "==", false: "!="}[wanted]
	not := [2]int{at[0], at[0]}
	if notCall.MatchString(line[at[0]:at[1]]) {
		at[0] += strings.IndexByte(line[at[0]:], '!') + 1
		not[1], wanted = at[0], !wanted
	}
	return lineComparison{actual: at, expected: not, operator: operator, note: "=" + strconv.FormatBool(wanted)}
}

func findRust(line string) (lineComparison, bool) {
	if at := rustEqual.FindStringIndex(line); at != nil {
		if all := arguments(line, at[1]); len(all) > 1 {
			return equality(line, all[:2])
		}
	}
	if at := rustAssert.FindStringIndex(line); at != nil {
		if all := arguments(line, at[1]); len(all) > 0 {
			return truth(line, all[0], true), true
		}
	}
	return lineComparison{}, false
}

func findJava(line string) (lineComparison, bool) {
	at := javaAssert.FindStringSubmatchIndex(line)
	if at == nil {
		return lineComparison{}, false
	}
	name, all := line[at[2]:at[3]], arguments(line, at[1])
	if name == "Equals" && len(all) == 2 {
		return equality(line, all)
	}
	if name != "Equals" && len(all) == 1 {
		return truth(line, all[0], name == "True"), true
	}
	return lineComparison{}, false
}

func findC(line string) (lineComparison, bool) {
	at := cAssert.FindStringIndex(line)
	if at == nil {
		return lineComparison{}, false
	}
	all := arguments(line, at[1])
	if len(all) != 1 || strings.Contains(line, "&&") || strings.Contains(line, "||") {
		return lineComparison{}, false
	}
	from, whole := all[0][0], line[all[0][0]:all[0][1]]
	if call := cString.FindStringSubmatchIndex(whole); call != nil && (call[2] < call[3]) != (call[6] >= 0) {
		if sides := arguments(line[:from+call[5]]+");", from+call[4]); len(sides) == 2 {
			return equality(line, sides)
		}
		return lineComparison{}, false
	}
	left, right, isEquality := strings.Cut(whole, "==")
	if !isEquality || strings.Contains(right, "==") || cComparer.MatchString(whole) {
		return lineComparison{}, false
	}
	return equality(line, [][2]int{{from, from + len(left)}, {from + len(left) + len("=="), all[0][1]}})
}

var (
	rustNotes = &lineNotes{find: findRust, saw: "*@saw($site, &($actual))", held: "{ @saw($site, &($actual)); $other }", helpers: strings.ReplaceAll(rustHelpers, "\n", " ")}
	cNotes    = &lineNotes{find: findC, saw: "@saw($site, ($actual))", held: "((void)@saw($site, ($actual)), $other)", helpers: cHelpers, after: regexp.MustCompile(`^\s*#\s*include\b`)}
	javaNotes = &lineNotes{find: findJava, saw: "@saw($site, $actual)", held: "@held(@saw($site, $actual), $other)", helpers: strings.ReplaceAll(javaHelpers, "\n", " "), after: regexp.MustCompile(`^\s*(?:(?:public|final|abstract)\s+)*class\s+\w+[^{]*\{\s*$`)}
)

// The file of notes is the one of its name in a folder above that of the run.
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
java.nio.file.Path file = java.nio.file.Path.of("").toAbsolutePath();
while (file != null && !java.nio.file.Files.exists(file.resolve(@record))) file = file.getParent();
String mark = v == null || v.getClass().getName().startsWith("java.lang.") ? "=" : "?";
String text = v instanceof String ? "\"" + v + "\"" : String.valueOf(v);
if (file != null) java.nio.file.Files.writeString(file.resolve(@record), site + "\t" + mark + text.replace("\n", " ") + "\n", java.nio.file.StandardOpenOption.APPEND);
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

// keeps reports whether a comparison expects what it did, by a coin where nothing tells that.
func (a *lineAlteration) keeps(c *lineComparison, others []string, place int) bool {
	return a.request.Way == Record || (c.operator != "" || len(others) > 0) && a.request.isHeads(a.source.Path, place)
}

// noteLine returns a line that notes what it compares, and expects what this draw does.
func (a *lineAlteration) noteLine(line string, c *lineComparison, place int) string {
	others := slices.DeleteFunc(slices.Clone(a.pool), func(note string) bool { return note == c.note || kindOf(note[1:]) != kindOf(c.note[1:]) })
	keeps := a.keeps(c, others, place)
	site := a.source.Path + ":" + strconv.Itoa(place)
	a.source.Compared = append(a.source.Compared, Comparison{Name: site, Test: a.name, Values: []string{c.note}})
	a.source.Borrows = a.source.Borrows || c.operator != "" || len(others) > 0
	a.changed[a.name] = a.changed[a.name] || !keeps
	a.values[a.name] = a.values[a.name] || c.operator == ""
	edits := []edit{{c.expected[0], c.expected[1], ""}}
	call, other := a.language.notes.saw, ""
	if c.operator == "" {
		other = line[c.leaf[0]:c.leaf[1]]
		if !keeps {
			other = a.otherValue(other, others)
		}
		edits = []edit{{c.leaf[0], c.leaf[1], other}}
	}
	if a.request.Way == Hold {
		call = a.language.notes.held
		if c.operator != "" {
			other = strconv.FormatBool(c.operator == "==")
		}
	}
	text := strings.NewReplacer("@", a.prefix, "$site", strconv.Quote(site), "$actual", line[c.actual[0]:c.actual[1]], "$other", other).Replace(call)
	if c.operator != "" && a.request.Way != Hold {
		text += " " + c.operator + " " + strconv.FormatBool((c.note == "=true") == keeps)
	}
	return apply(line, append(edits, edit{c.actual[0], c.actual[1], text}))
}

func kindOf(literal string) string {
	switch {
	case literal == "true" || literal == "false":
		return boolSort
	case literal[0] == '"':
		return "text"
	}
	return "number"
}

// otherValue returns what the file expects elsewhere, or a literal that has nothing of its own.
func (a *lineAlteration) otherValue(literal string, others []string) string {
	switch {
	case literal == "true" || literal == "false":
		return strconv.FormatBool(literal != "true")
	case len(others) > 0 && a.random.IntN(2) == 0:
		return others[a.random.IntN(len(others))][1:]
	case literal[0] == '"':
		return farLiteral(&ast.BasicLit{Kind: token.STRING, Value: literal}, a.random)
	}
	return farLiteral(&ast.BasicLit{Kind: token.INT, Value: strings.TrimPrefix(literal, "-")}, a.random)
}
