// Command verifier-schema is a stepfall plugin that validates JSON answers against a schema, and tool calls
// against the query's tools.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Config is the plugin's config block in a policy.
type Config struct {
	Schema       any    `stepfall:"schema" doc:"JSON schema of the answer's text, as an object or as JSON text; by default the one of the query's response format."`
	SchemaFile   string `stepfall:"schema_file" doc:"A file with that schema."`
	Extract      bool   `stepfall:"extract,default=true" doc:"Extract the JSON if the answer is a code block."`
	RequireCall  bool   `stepfall:"require_tool_call,default=false" doc:"An answer without a tool call has failed when the query offers tools."`
	UnknownTools bool   `stepfall:"allow_unknown_tools,default=false" doc:"Accept calls of tools that the query does not offer."`
	MayPass      bool   `stepfall:"may_pass,default=false" doc:"Answer passed when the schemas are kept; by default the verdict is then inconclusive, because well-formed is not yet right."`
}

func main() {
	plugin.Main(description())
}

func description() plugin.Plugin {
	return plugin.Plugin{
		Name: "verifier-schema", Version: "1.0.0",
		Doc:   "Checks JSON answers against a JSON schema, and tool calls against the schemas of the query's tools. An answer that violates a schema has failed. One that conforms is inconclusive unless may_pass is set.",
		Roles: []plugin.Role{plugin.Verifier(open)},
	}
}

func open(_ context.Context, c Config) (sdk.Verifier, error) {
	v := &verifier{config: c}
	text, argument, err := c.readSchema()
	if err == nil && text != nil {
		v.schema, err = text, v.schemas.Compile(text)
	}
	if err != nil {
		return nil, schema.Errorf([]string{argument}, "%v", err)
	}
	return v, nil
}

// readSchema returns the schema, or nil, and the argument that it comes from.
func (c *Config) readSchema() (text []byte, argument string, err error) {
	given, isText := c.Schema.(string)
	switch {
	case c.Schema != nil && c.SchemaFile != "":
		return nil, "schema_file", errors.New("schema and schema_file are mutually exclusive")
	case c.SchemaFile != "":
		text, err = os.ReadFile(c.SchemaFile)
		return text, "schema_file", err
	case isText:
		return []byte(given), "schema", nil
	case c.Schema != nil:
		text, err = json.Marshal(c.Schema)
	}
	return text, "schema", err
}
