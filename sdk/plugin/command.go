package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

const usage = `%s %s is a stepfall plugin: a policy names it and stepfall starts it.

Usage:
  %[1]s describe             what it is and the schemas of its configs, as JSON
  %[1]s docs                 its documentation, as Markdown
  %[1]s check [ROLE] FILE    check a config in JSON; - reads standard input
`

// command runs the plugin's command line for a person. It never reads a policy's config, so that it
// works without one.
func command(p *Plugin, args []string, in io.Reader, out, errOut io.Writer) int {
	info, err := p.Info()
	if err != nil {
		fmt.Fprintln(errOut, err)
		return exitFailure
	}
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch {
	case verb == "describe" && len(args) == 1:
		return printJSON(out, info)
	case verb == "docs" && len(args) == 1:
		fmt.Fprint(out, Docs(info))
		return exitOK
	case verb == "check" && (len(args) == 2 || len(args) == 3):
		return check(p, info, args[1:], in, out, errOut)
	case verb == "help", verb == "--help", verb == "-h":
		fmt.Fprintf(out, usage, p.Name, p.Version)
		return exitOK
	}
	fmt.Fprintf(errOut, usage, p.Name, p.Version)
	return exitUsage
}

func printJSON(out io.Writer, v any) int {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return exitFailure
	}
	return exitOK
}

// Docs returns the documentation of a plugin in Markdown: its purpose, its arguments and a policy
// block to start from.
func Docs(info *wire.Info) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nVersion %s.\n", info.Name, info.Version)
	if info.Doc != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(info.Doc))
	}
	for _, r := range info.Roles {
		block := "estimator"
		if r.Role == wire.Verifier {
			block = "verifier"
		}
		fmt.Fprintf(&b, "\n## As a %s\n\n%s\n```hcl\n%s \"example\" {\n  plugin = %q\n", strings.ReplaceAll(string(r.Role), "-", " "), r.Config.Markdown(), block, info.Name)
		if len(r.Config.Fields) > 0 {
			b.WriteString("  config {\n")
			for _, f := range r.Config.Fields {
				fmt.Fprintf(&b, "    %s = %s\n", f.Name, exampleValue(&f))
			}
			b.WriteString("  }\n")
		}
		b.WriteString("}\n```\n")
	}
	return b.String()
}

func exampleValue(f *schema.Field) string {
	v := f.Default
	if v == nil && len(f.Enum) > 0 {
		v = f.Enum[0]
	}
	if v == nil && f.Min != nil && (f.Type == "number" || f.Type == "integer") {
		v = *f.Min
	}
	if v == nil {
		kind, _, _ := strings.Cut(f.Type, "(")
		examples := map[string]any{"number": 0, "integer": 0, "bool": false, "list": []any{}, "map": struct{}{}, "object": struct{}{}, "duration": "10s"}
		if v = examples[kind]; v == nil {
			v = "..."
		}
	}
	data, _ := json.Marshal(v)
	return string(data)
}

func check(p *Plugin, info *wire.Info, args []string, in io.Reader, out, errOut io.Writer) int {
	kind := info.Roles[0].Role
	if len(args) == 2 {
		kind, args = wire.Role(args[0]), args[1:]
	}
	if _, ok := p.role(kind); !ok {
		fmt.Fprintf(errOut, "%s has no role %s\n", p.Name, kind)
		return exitUsage
	}
	read := func() ([]byte, error) { return os.ReadFile(args[0]) }
	if args[0] == "-" {
		read = func() ([]byte, error) { return io.ReadAll(in) }
	}
	data, err := read()
	var config map[string]any
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		err = dec.Decode(&config)
	}
	if err != nil {
		fmt.Fprintf(errOut, "reading the config: %v\n", err)
		return exitFailure
	}
	server, closeAll, err := NewServer(*p, nil)
	if err != nil {
		fmt.Fprintln(errOut, err)
		return exitFailure
	}
	_, ds := server.Configure(context.Background(), &wire.ConfigureRequest{Instance: "check", Role: kind, Config: config}, nil)
	for _, d := range ds {
		fmt.Fprintf(out, "%s: %s\n", d.Severity, d)
	}
	if ds.HasErrors() {
		return exitFailure
	}
	_ = closeAll()
	fmt.Fprintln(out, "the config is good")
	return exitOK
}
