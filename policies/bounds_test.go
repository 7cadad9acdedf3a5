package policies_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/policies"
)

// bombs are policies that would exhaust a reader without limits, named by their cost, with the expected diagnostic.
// A few are harmless after all and get the same diagnostic as an ordinary mistake.
var bombs = []struct{ name, text, want string }{
	{"parentheses", "a = " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000), "nested too deeply"},
	{"parentheses that never close", "a = " + strings.Repeat("(", 5_000), "nested too deeply"},
	{"lists", "locals {\n  a = " + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + "\n}", "nested too deeply"},
	{"objects", "locals {\n  a = " + strings.Repeat("{a=", 5_000) + "1" + strings.Repeat("}", 5_000) + "\n}", "nested too deeply"},
	{"blocks", strings.Repeat("a {\n", 5_000) + strings.Repeat("}\n", 5_000), "nested too deeply"},
	{"not", "locals {\n  a = " + strings.Repeat("!", 500_000) + "true\n}", "nested too deeply"},
	{"minus", "locals {\n  a = " + strings.Repeat("-", 5_000) + "1\n}", "nested too deeply"},
	{"minus in a list", "locals {\n  a = [" + strings.Repeat("-\n", 5_000) + "1]\n}", "nested too deeply"},
	{"sum", "locals {\n  a = " + strings.Repeat("1+", 5_000) + "1\n}", "nested too deeply"},
	{"conditions", "locals {\n  a = " + strings.Repeat("true ? 1 : ", 5_000) + "1\n}", "nested too deeply"},
	{"conditions in conditions", "locals {\n  a = " + strings.Repeat("true ? ", 5_000) + "1" + strings.Repeat(" : 1", 5_000) + "\n}", "nested too deeply"},
	{"comparisons", "locals {\n  a = " + strings.Repeat("1 == ", 5_000) + "1\n}", "nested too deeply"},
	{"templates", "locals {\n  a = " + strings.Repeat(`"${`, 5_000) + "1" + strings.Repeat(`}"`, 5_000) + "\n}", "nested too deeply"},
	{"template conditions", "locals {\n  a = \"" + strings.Repeat("%{ if true }", 5_000) + strings.Repeat("%{ endif }", 5_000) + "\"\n}", "nested too deeply"},
	{"template loops", "locals {\n  a = <<X\n" + strings.Repeat("%{ for i in [1] }\n", 5_000) + "X\n}", "nested too deeply"},
	{"heredocs", "locals {\n  a = " + strings.Repeat("<<X\n${", 5_000) + "\n}", "nested too deeply"},
	{"a heredoc of many lines", "locals {\n  a = <<X\n" + strings.Repeat("  a\n", 250_000) + "X\n}", "a text of too many parts"},
	{"an indented heredoc of many lines", "locals {\n  a = <<-X\n" + strings.Repeat("  a\n", 250_000) + "X\n}", "a text of too many parts"},
	{"many heredocs", "locals {\n" + many(250, "a%d = <<X\n"+strings.Repeat("a\n", 1900)+"X\n") + "}", "no model"},
	{"insertions", "locals {\n  b = 1\n  a = \"" + strings.Repeat("${~local.b~}", 80_000) + "\"\n}", "a text of too many parts"},
	{"names that are nearly those of others", "locals {\n" + many(1900, strings.Repeat("n", 240)+"%d = 1\n") + many(1900, "b%d = local."+strings.Repeat("n", 240)+"x\n") + "}", "Define it"},
	{"many names that are nearly those of others", "locals {\n" + many(4000, strings.Repeat("n", 60)+"%d = 1\n") + many(4000, "b%d = local."+strings.Repeat("n", 60)+"x\n") + "}", "Define it"},
	{"indexes", "locals {\n  b = 0\n  a = local.b" + strings.Repeat("[local.b]", 5_000) + "\n}", "nested too deeply"},
	{"indexes of indexes", "locals {\n  b = 0\n  a = " + strings.Repeat("local.b[", 5_000) + "0" + strings.Repeat("]", 5_000) + "\n}", "nested too deeply"},
	{"splats", "locals {\n  b = []\n  a = local.b" + strings.Repeat("[*]", 5_000) + "\n}", "nested too deeply"},
	{"splats by name", "locals {\n  b = []\n  a = local.b" + strings.Repeat(".*.c", 5_000) + "\n}", "nested too deeply"},
	{"calls", "locals {\n  a = " + strings.Repeat("min(", 5_000) + "1" + strings.Repeat(")", 5_000) + "\n}", "nested too deeply"},
	{"loops in loops", "locals {\n  a = " + strings.Repeat("[for x in [1] : ", 5_000) + "1" + strings.Repeat("]", 5_000) + "\n}", "nested too deeply"},
	{"traversal", "locals {\n  b = {}\n  a = local.b" + strings.Repeat(".c", 20_000) + "\n}", "unsupported attribute"},
	{"traversal by number", "locals {\n  b = []\n  a = local.b" + strings.Repeat(".0", 20_000) + "\n}", "a number of 39999 digits"},
	{"a file of 2 MiB", strings.Repeat("# a comment that nobody reads\n", 70_000), "policy.hcl is larger than 1MiB"},
	{"a name", strings.Repeat("n", 300_000) + " = 1", "a name of 300000 bytes"},
	{"a label", "model \"" + strings.Repeat("n", 300_000) + "\" {\n}", "a name of 300000 bytes"},
	{"a choice", "mode = \"" + strings.Repeat("n", 300_000) + "\"", "mode cannot be"},
	{"digits", "locals {\n  a = " + strings.Repeat("9", 300_000) + "\n}", "a number of 300000 digits"},
	{"digits in a text", "locals {\n  a = \"${1e999999999}\"\n}", "a number out of range"},
	{"digits behind the point", "locals {\n  a = \"${1e-300000000}\"\n}", "a number out of range"},
	{"digits made", "locals {\n  a = 1e308\n  b = \"${local.a * local.a * local.a}\"\n}", "a number out of range"},
	{"digits made small", "locals {\n  a = 1e-308\n  b = { \"${local.a * local.a * local.a}\" = 1 }\n}", "a number out of range"},
	{"a text that doubles", doubling(`"${local.%[1]s}${local.%[1]s}"`, `"x"`, 60), "the expressions are too complex"},
	{"a list that doubles", doubling(`[local.%[1]s, local.%[1]s]`, `["x"]`, 60), "the expressions are too complex"},
	{"an object that doubles", doubling(`{ a = local.%[1]s, b = local.%[1]s }`, `{}`, 60), "the expressions are too complex"},
	{"a condition that doubles", doubling(`true ? [local.%[1]s, local.%[1]s] : null`, `[]`, 60), "the expressions are too complex"},
	{"a comparison that doubles", doubling(`[local.%[1]s, local.%[1]s]`, `[]`, 14) + "locals {\n  z = local.a14 == local.a14 ? local.a14 : local.a13\n  y = [local.z, local.z, local.z, local.z, local.z, local.z]\n}\n", "the expressions are too complex"},
	{"a splat that doubles", doubling(`[local.%[1]s[*], local.%[1]s[*]]`, `["x"]`, 60), "the expressions are too complex"},
	{"a list that grows", chain(5_000), "the expressions are too complex"},
	{"loops over lists", "locals {\n  n = " + list(300) + "\n  a = [for a in local.n : [for b in local.n : [for c in local.n : [for d in local.n : 1 if false]]]]\n}", "the expressions are too complex"},
	{"loops over objects", "locals {\n  n = " + list(300) + "\n  a = { for a in local.n : a => { for b in local.n : b => { for c in local.n : c => a } } }\n}", "the expressions are too complex"},
	{"loops that group", "locals {\n  n = " + list(300) + "\n  a = { for a in local.n : \"k\" => { for b in local.n : \"k\" => { for c in local.n : \"k\" => c... }... }... }\n}", "the expressions are too complex"},
	{"loops in a text", "locals {\n  n = " + list(300) + "\n  a = \"%{ for a in local.n }%{ for b in local.n }%{ for c in local.n }x%{ endfor }%{ endfor }%{ endfor }\"\n}", "the expressions are too complex"},
	{"loops with a literal", "locals {\n  n = " + list(300) + "\n  a = [for a in local.n : [for b in local.n : [for c in local.n : 1]]]\n}", "the expressions are too complex"},
	{"loops in an include", "include = [for a in " + list(300) + " : [for b in " + list(300) + " : [for c in " + list(300) + " : 1]]]", "the expressions are too complex"},
	{"expanded arguments", "locals {\n  n = " + list(300) + "\n  a = [for a in local.n : [for b in local.n : min(local.n...)]]\n}", "the expressions are too complex"},
	{"the environment read often", "locals {\n  n = " + list(300) + "\n  a = [for a in local.n : [for b in local.n : [for c in local.n : env(\"KEY\")]]]\n}", "the expressions are too complex"},
	{"faults", strings.Repeat("x\n", 50_000), "more than 100 errors"},
	{"faulty arguments", many(20_000, "a%d = 1\n"), "more than 100 errors"},
	{"arguments", "locals {\n" + many(30_000, "a%d = 1\n") + "}\n", "the policy is too large"},
	{"locals of all locals", "locals {\n" + many(8_000, "a%d = 1\n") + "}\n", "no model"},
	{"locals in a circle", "locals {\n" + circle(8_000) + "}\n", "refers to itself"},
	{"includes of itself", `include = ["policy.hcl"]`, "includes itself"},
	{"a NUL", "locals {\n  a = \"\x00\"\n}", ""},
	{"no UTF-8", "locals {\n  a = \"\xff\xfe\"\n}", ""},
	{"compressed", "\x1f\x8b\x08\x00\x00\x00\x00\x00", ""},
	{"JSON", strings.Repeat(`{"a":`, 5_000), "nested too deeply"},
}

// Values at a limit are accepted, and values one beyond it are rejected.
func TestBoundsAreWhereTheyAreSaidToBe(t *testing.T) {
	local := func(value string) string { return "locals {\n  a = " + value + "\n}\n" }
	name := func(n int) string { return strings.Repeat("n", n) }
	sum := func(n int) string { return local("[1" + strings.Repeat(" + 1", n) + "]") }
	work := func(n int) string { return local("[" + strings.Repeat("1 + 1, ", n) + "]") }
	for what, c := range map[string]struct {
		most, more string
		says       string
	}{
		"a name":             {"locals {\n  " + name(256) + " = 1\n}\n", "locals {\n  " + name(257) + " = 1\n}\n", "a name of 257 bytes"},
		"a label":            {"plugin \"" + name(256) + "\" {}\n", "plugin \"" + name(257) + "\" {}\n", "a name of 257 bytes"},
		"a variable's name":  {"trace {\n  file = \"${env(\"" + name(256) + "\")}\"\n}\n", "trace {\n  file = env(\"" + name(257) + "\")\n}\n", "is not a variable name"},
		"digits":             {local(strings.Repeat("0", 399) + "1"), local(strings.Repeat("0", 400) + "1"), "a number of 401 digits"},
		"brackets":           {local(strings.Repeat("[", 127) + strings.Repeat("]", 127)), local(strings.Repeat("[", 128) + strings.Repeat("]", 128)), "nested too deeply"},
		"operators":          {sum(126), sum(127), "nested too deeply"},
		"operators of lines": {"locals {\n  a = [" + strings.Repeat("-", 126) + "1]\n  b = [" + strings.Repeat("-", 126) + "1, " + strings.Repeat("-", 126) + "1]\n}\n", local("[1, " + strings.Repeat("-", 127) + "1]"), "nested too deeply"},
		"parts of a text":    {local("\"" + strings.Repeat("a${1}", 1000) + "\""), local("\"" + strings.Repeat("a${1}", 1000) + "a\""), "a text of too many parts"},
		"files":              {strings.Repeat("# a comment\n", 1<<20/12-100), strings.Repeat("# a comment\n", 1<<20/12+1), "policy.hcl is larger than 1MiB"},
		"a large number":     {local("\"${1e331}\""), local("\"${1e332}\""), "a number out of range"},
		"a small number":     {local("\"${1e-331}\""), local("\"${1e-332}\""), "a number out of range"},
		"work":               {work(12_000), work(25_000), "the expressions are too complex"},
		"arguments":          {"locals {\n" + many(9_000, "a%d = 1\n") + "}\n", "locals {\n" + many(10_001, "a%d = 1\n") + "}\n", "the policy is too large"},
		"faults, with two":   {strings.Repeat("x {}\n", 98), strings.Repeat("x {}\n", 99), "more than 100 errors"},
		"warnings":           {"locals {\n" + many(100, "a%d = 1\n") + "}\n", "locals {\n" + many(101, "a%d = 1\n") + "}\n", "more than 100 warnings"},
	} {
		for _, text := range []string{c.most, c.more} {
			_, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: []string{}})
			if err == nil {
				t.Fatalf("%s: there is no model, and nothing is said", what)
			}
			if got, want := strings.Contains(err.Error(), c.says), text == c.more; got != want {
				t.Errorf("%s: %d bytes, said %v, want %v: %.1000v", what, len(text), got, want, err)
			}
		}
	}
}

// doubling returns locals that each refer to the previous one.
func doubling(form, first string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "locals {\n  a0 = %s\n", first)
	for i := range n {
		fmt.Fprintf(&b, "  a%d = %s\n", i+1, fmt.Sprintf(form, fmt.Sprintf("a%d", i)))
	}
	return b.String() + "}\n"
}

func chain(n int) string { return doubling(`[local.%[1]s]`, `[]`, n) }

func circle(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d = local.a%d\n", i, (i+1)%n)
	}
	return b.String()
}

func many(n int, form string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, form, i)
	}
	return b.String()
}

func list(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d, ", i)
	}
	return "[" + b.String() + "]"
}

// atOnce is the time limit for reading one policy. It is far longer than any policy needs, because test machines
// have other load.
const atOnce = time.Minute

func TestAttackPolicy(t *testing.T) {
	for i, bomb := range bombs {
		if testing.Short() && i%8 != 0 {
			continue
		}
		t.Run(bomb.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "policy.hcl")
			if err := os.WriteFile(file, []byte(bomb.text), 0o600); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			_, err := policies.Load(file, policies.LoadOptions{Env: []string{"KEY=" + planted}})
			if took := time.Since(begun); took > atOnce && !testing.Short() {
				t.Errorf("it took %s", took)
			}
			if _, ok := errors.AsType[policies.Diagnostics](err); !ok {
				t.Fatalf("err = %v", err)
			}
			if said := strings.ReplaceAll(err.Error(), file, "policy.hcl"); !strings.Contains(said, bomb.want) || len(said) > 200_000 {
				t.Errorf("%d bytes, without %q: %.2000s", len(said), bomb.want, said)
			}
		})
	}
}

// Overrides come from the user who starts the process, but are limited all the same.
func TestAttackPolicyOverride(t *testing.T) {
	for _, set := range []string{
		"budget.step_usd=" + strings.Repeat("(", 100_000),
		"budget.step_usd=" + strings.Repeat("-", 50_000) + "1",
		strings.Repeat("a[", 100_000) + "=1",
		"model.small.price.input_usd_per_million=" + strings.Repeat("1+", 100_000) + "1",
		"trace.file=\"${1e999999999}\"",
		"verifier.tests.config.x=[for a in " + list(300) + " : [for b in " + list(300) + " : [for c in " + list(300) + " : 1]]]",
	} {
		t.Run(set[:20], func(t *testing.T) {
			begun := time.Now()
			_, err := policies.Parse("policy.hcl", []byte(sample), policies.LoadOptions{Env: []string{"OPENAI_API_KEY=k"}, Sets: []string{set}})
			if took := time.Since(begun); err == nil || len(err.Error()) > 200_000 || took > atOnce && !testing.Short() {
				t.Errorf("%s: %.1000v", took, err)
			}
		})
	}
}

func TestAttackPolicyFormat(t *testing.T) {
	if _, err := policies.Format("policy.hcl", []byte("a = "+strings.Repeat("(", 100_000))); err == nil || !strings.Contains(err.Error(), "nested too deeply") {
		t.Errorf("err = %v", err)
	}
}

// A policy of the largest realistic size loads quickly.
func TestLargePoliciesLoad(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "model \"m%d\" {\n  provider = \"openai\"\n  served = \"gpt-4o-mini\"\n  timeout = 2 * local.patience\n}\n", i)
	}
	b.WriteString("locals {\n  patience = duration(\"2s\")\n}\nstrategy \"cascade_route\" {\n  worth_usd = 0.05\n}\nverifier \"v\" {\n  plugin = \"verifier-tests\"\n" +
		"  config {\n    command = [for i in " + list(500) + " : \"test ${i} of ${i + 1}\" if i % 2 == 0]\n    nested = " + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "\n  }\n}\n")
	p, err := policies.Parse("policy.hcl", []byte(b.String()), policies.LoadOptions{Env: []string{}})
	if err != nil {
		t.Fatalf("%.2000v", err)
	}
	if command, ok := p.Verifiers[0].Config.Values()["command"].([]any); !ok || len(command) != 250 || command[1] != "test 2 of 3" || p.Models[299].Timeout != 4*time.Second {
		t.Errorf("%d, %v", len(command), p.Models[299].Timeout)
	}
}

// Files outside the folder are not read, by whatever path, and neither is anything but a regular file.
func TestAttackPolicyFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret.hcl")
	if err := os.WriteFile(secret, []byte("baseline = \""+planted+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ link, want string }{
		"a link to a file outside":   {secret, "is outside the policy's folder"},
		"a link to a folder":         {".", "is no regular file"},
		"a link to itself":           {"named", "cannot be read"},
		"a link to nothing":          {"nothing", "there is no file"},
		"a device":                   {os.DevNull, "is outside the policy's folder"},
		"the environment":            {"/proc/self/environ", "is outside the policy's folder"},
		"memory":                     {"/proc/self/mem", "is outside the policy's folder"},
		"a file of more than a MiB":  {"", "is larger than 1MiB"},
		"what makes the policy grow": {"#", "the policy is too large"},
	} {
		for _, how := range []string{"include = [\"named\"]\n", "trace {\n  file = file(\"named\")\n}\n"} {
			t.Run(name+"/"+how[:5], func(t *testing.T) {
				if strings.HasPrefix(c.link, "/proc") && runtime.GOOS != "linux" {
					t.Skip("no /proc")
				}
				dir := t.TempDir()
				text := how
				switch c.link {
				case "":
					if err := os.WriteFile(filepath.Join(dir, "named"), make([]byte, 2<<20), 0o600); err != nil {
						t.Fatal(err)
					}
				case "#":
					if how[:5] == "trace" {
						t.Skip("for include")
					}
					names := []string{}
					for i := range 300 {
						name := fmt.Sprintf("part%d.hcl", i)
						names = append(names, fmt.Sprintf("%q", name))
						if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
							t.Fatal(err)
						}
					}
					text = "include = [" + strings.Join(names, ", ") + "]\n"
				default:
					if err := os.Symlink(c.link, filepath.Join(dir, "named")); err != nil {
						t.Fatal(err)
					}
				}
				file := filepath.Join(dir, "policy.hcl")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				_, err := policies.Load(file, policies.LoadOptions{Env: []string{}})
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), planted) {
					t.Errorf("err = %v", err)
				}
			})
		}
	}
}

// A folder's name is not interpreted as a pattern.
func TestFolderNamedLikeAPattern(t *testing.T) {
	for _, name := range []string{"p[o]licy", "a{b,c}", "[", "[a-"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"a.hcl": "strategy \"route\" {\n  worth_usd = 1\n}\n", "b.hcl": "model \"m\" {\n  provider = \"ollama\"\n  price {\n    free = true\n  }\n}\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := policies.Load(dir, policies.LoadOptions{Env: []string{}}); err != nil || len(p.Models) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A folder that is a symbolic link works like its target, even if the policy in it is a link to elsewhere.
func TestPolicyFolderBehindALink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	real, elsewhere, link := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(
		os.WriteFile(filepath.Join(elsewhere, "policy.hcl"), []byte("include = [\"models.hcl\"]\n"), 0o600), os.WriteFile(filepath.Join(real, "models.hcl"), []byte(sample), 0o600),
		os.Symlink(filepath.Join(elsewhere, "policy.hcl"), filepath.Join(real, "policy.hcl")), os.Symlink(real, link),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := policies.Load(filepath.Join(link, "policy.hcl"), policies.LoadOptions{Env: withKey}); err != nil {
		t.Error(err)
	}
}

// Links within the folder are followed, like those with which Kubernetes mounts a policy. A policy that is a link
// itself finds the files beside the link and beside its target.
func TestPoliciesBehindLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	real, mount := t.TempDir(), t.TempDir()
	version := filepath.Join(mount, "..2026")
	for file, text := range map[string]string{
		filepath.Join(real, "policy.hcl"):    "include = [\"sub/models.hcl\"]\n" + sample,
		filepath.Join(real, "models.hcl"):    "",
		filepath.Join(version, "policy.hcl"): "include = [\"sub/models.hcl\"]\n" + sample,
		filepath.Join(version, "models.hcl"): "",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		os.Mkdir(filepath.Join(real, "sub"), 0o700), os.Symlink("../models.hcl", filepath.Join(real, "sub", "models.hcl")),
		os.Symlink(filepath.Join(real, "policy.hcl"), filepath.Join(mount, "elsewhere.hcl")), os.Symlink(filepath.Join(real, "sub"), filepath.Join(mount, "sub")),
		os.Symlink("..2026", filepath.Join(mount, "..data")), os.Symlink("..data/policy.hcl", filepath.Join(mount, "policy.hcl")),
	); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(real, "policy.hcl"), filepath.Join(mount, "elsewhere.hcl")} {
		if _, err := policies.Load(file, policies.LoadOptions{Env: []string{"OPENAI_API_KEY=k"}}); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(mount, "sub")), os.Mkdir(filepath.Join(mount, "sub"), 0o700),
		os.Symlink("../..data/models.hcl", filepath.Join(mount, "sub", "models.hcl"))); err != nil {
		t.Fatal(err)
	}
	if _, err := policies.Load(filepath.Join(mount, "policy.hcl"), policies.LoadOptions{Env: []string{"OPENAI_API_KEY=k"}}); err != nil {
		t.Error(err)
	}
}
