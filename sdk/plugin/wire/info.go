package wire

import (
	"cmp"
	"fmt"
	"slices"

	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Role is a role of a plugin.
type Role string

// The roles.
const (
	QualityEstimator Role = "quality-estimator"
	CostEstimator    Role = "cost-estimator"
	Verifier         Role = "verifier"
)

var rolesOnWire = map[Role]pb.PluginRole{
	QualityEstimator: pb.PluginRole_PLUGIN_ROLE_QUALITY_ESTIMATOR,
	CostEstimator:    pb.PluginRole_PLUGIN_ROLE_COST_ESTIMATOR,
	Verifier:         pb.PluginRole_PLUGIN_ROLE_VERIFIER,
}

func roleFromWire(r pb.PluginRole) Role {
	for role, wire := range rolesOnWire {
		if wire == r {
			return role
		}
	}
	return Role(r.String())
}

// Info is a plugin's description of itself.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Doc     string `json:"doc,omitempty"`
	// Roles are the plugin's roles, each with the schema of its config.
	Roles    []RoleInfo `json:"roles"`
	Features []string   `json:"features,omitempty"`
	// MaxConcurrency is the largest number of concurrent calls; 0 means no limit.
	MaxConcurrency int `json:"max_concurrency,omitempty"`
}

// RoleInfo is one role of a plugin.
type RoleInfo struct {
	Role   Role           `json:"role"`
	Config *schema.Schema `json:"config" wire:"Schema"`
}

// Schema returns the schema of a role's config, and false if the plugin does not have the role.
func (i *Info) Schema(role Role) (*schema.Schema, bool) {
	for _, r := range i.Roles {
		if r.Role == role {
			return r.Config, true
		}
	}
	return nil, false
}

// Has reports whether the plugin has the feature.
func (i *Info) Has(feature string) bool { return slices.Contains(i.Features, feature) }

// infoFromWire validates and converts a plugin's info, truncating long texts. Secrets stay: a value of a variable can also
// be the name of an argument.
func infoFromWire(i *pb.GetInfoResponse) (*Info, error) {
	clean := func(text string, limit int) string { return cleanText(text, limit, nil) }
	fields := len(i.GetRoles())
	for _, r := range i.GetRoles() {
		fields += countFields(r.GetSchema().GetFields())
	}
	switch {
	case clean(i.GetName(), maxName) == "":
		return nil, malformedf("info without a name")
	case fields > maxFields:
		return nil, malformedf("more than %d fields", maxFields)
	case len(i.GetRoles()) == 0:
		return nil, malformedf("info without roles")
	}
	out := fromWire[Info](i, func(text string) string { return clean(text, maxMessage) })
	out.Name, out.Version, out.Doc, out.Features = clean(i.GetName(), maxName), clean(i.GetVersion(), maxName), clean(i.GetDoc(), maxEvidence), cleanNames(i.GetFeatures(), clean)
	for k := range out.Roles {
		out.Roles[k].Config = cmp.Or(out.Roles[k].Config, &schema.Schema{})
	}
	return out, nil
}

func countFields(fields []*pb.ConfigField) int {
	n := len(fields)
	for _, f := range fields {
		n += countFields(f.GetFields())
	}
	return n
}

func diagnosticsFromWire(in []*pb.Diagnostic, clean func(text string, limit int) string) schema.Diagnostics {
	if left := len(in) - maxDiagnostics; left > 0 {
		in = append(in[:maxDiagnostics:maxDiagnostics], &pb.Diagnostic{Summary: fmt.Sprintf("and %d more", left)})
	}
	return *fromWire[schema.Diagnostics](in, func(text string) string { return clean(text, maxMessage) })
}
