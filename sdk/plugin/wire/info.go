package wire

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Role is what a plugin can do.
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

// Info is what a plugin says of itself.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Doc     string `json:"doc,omitempty"`
	// Roles are what the plugin can do, each with the schema of its config.
	Roles    []RoleInfo `json:"roles"`
	Features []string   `json:"features,omitempty"`
	// MaxConcurrency is the most calls at one time; 0 means no limit.
	MaxConcurrency int `json:"max_concurrency,omitempty"`
}

// RoleInfo is one role of a plugin.
type RoleInfo struct {
	Role   Role           `json:"role"`
	Config *schema.Schema `json:"config"`
}

// Schema returns the schema of a role's config, and false when the plugin does
// not have that role.
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

func infoToWire(i *Info) (*pb.GetInfoResponse, error) {
	out := &pb.GetInfoResponse{
		Name: utf8(i.Name), Version: utf8(i.Version), Doc: utf8(i.Doc), Features: i.Features,
		MaxConcurrency: uint32(i.MaxConcurrency),
	}
	for _, r := range i.Roles {
		fields, err := fieldsToWire(r.Config.Fields)
		if err != nil {
			return nil, err
		}
		out.Roles = append(out.Roles, &pb.RoleInfo{Role: rolesOnWire[r.Role], Schema: &pb.ConfigSchema{Doc: utf8(r.Config.Doc), Fields: fields}})
	}
	return out, nil
}

func infoFromWire(i *pb.GetInfoResponse) (*Info, error) {
	out := &Info{
		Name: visible(i.GetName(), maxName), Version: visible(i.GetVersion(), maxName), Doc: visible(i.GetDoc(), maxEvidence), Features: visibleAll(i.GetFeatures()),
		MaxConcurrency: int(i.GetMaxConcurrency()),
	}
	if out.Name == "" {
		return nil, malformedf("info without a name")
	}
	left := maxFields
	for _, r := range i.GetRoles() {
		out.Roles = append(out.Roles, RoleInfo{
			Role:   roleFromWire(r.GetRole()),
			Config: &schema.Schema{Doc: visible(r.GetSchema().GetDoc(), maxEvidence), Fields: fieldsFromWire(r.GetSchema().GetFields(), &left)},
		})
	}
	if left -= len(out.Roles); left < 0 {
		return nil, malformedf("more than %d fields", maxFields)
	}
	if len(out.Roles) == 0 {
		return nil, malformedf("info without roles")
	}
	return out, nil
}

func fieldsToWire(in []schema.Field) ([]*pb.ConfigField, error) {
	var out []*pb.ConfigField
	for _, f := range in {
		w := &pb.ConfigField{
			Name: utf8(f.Name), Type: f.Type, Required: f.Required, Min: f.Min, Max: f.Max,
			Sensitive: f.Sensitive, Deprecated: utf8(f.Deprecated), Doc: utf8(f.Doc),
		}
		var err error
		if f.Default != nil {
			if w.Default, err = structpb.NewValue(f.Default); err != nil {
				return nil, err
			}
		}
		for _, e := range f.Enum {
			v, err := structpb.NewValue(e)
			if err != nil {
				return nil, err
			}
			w.Enum = append(w.Enum, v)
		}
		if w.Fields, err = fieldsToWire(f.Fields); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// fieldsFromWire counts the fields down in left, and takes no more when there are none.
func fieldsFromWire(in []*pb.ConfigField, left *int) []schema.Field {
	var out []schema.Field
	for _, w := range in {
		if *left--; *left < 0 {
			return out
		}
		f := schema.Field{
			Name: visible(w.GetName(), maxName), Type: w.GetType(), Required: w.GetRequired(), Min: w.Min, Max: w.Max,
			Sensitive: w.GetSensitive(), Deprecated: visible(w.GetDeprecated(), maxMessage), Doc: visible(w.GetDoc(), maxMessage),
		}
		if w.GetDefault() != nil {
			f.Default = w.GetDefault().AsInterface()
		}
		for _, e := range w.GetEnum() {
			f.Enum = append(f.Enum, e.AsInterface())
		}
		if len(w.GetFields()) > 0 {
			f.Fields = fieldsFromWire(w.GetFields(), left)
		}
		out = append(out, f)
	}
	return out
}

func diagnosticsToWire(in schema.Diagnostics) []*pb.Diagnostic {
	var out []*pb.Diagnostic
	for _, d := range in {
		severity := pb.Diagnostic_SEVERITY_ERROR
		if d.Severity == schema.Warning {
			severity = pb.Diagnostic_SEVERITY_WARNING
		}
		out = append(out, &pb.Diagnostic{Severity: severity, Path: utf8All(d.Path), Summary: utf8(d.Summary), Detail: utf8(d.Detail)})
	}
	return out
}

func diagnosticsFromWire(in []*pb.Diagnostic) schema.Diagnostics {
	var out schema.Diagnostics
	if len(in) > maxDiagnostics {
		left := len(in) - maxDiagnostics
		in = append(in[:maxDiagnostics:maxDiagnostics], &pb.Diagnostic{Summary: fmt.Sprintf("and %d more", left)})
	}
	for _, d := range in {
		severity := schema.Error
		if d.GetSeverity() == pb.Diagnostic_SEVERITY_WARNING {
			severity = schema.Warning
		}
		out = append(out, schema.Diagnostic{Severity: severity, Path: visibleAll(d.GetPath()), Summary: visible(d.GetSummary(), maxMessage), Detail: visible(d.GetDetail(), maxMessage)})
	}
	return out
}
