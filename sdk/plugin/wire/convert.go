package wire

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	unicode "unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// toWire converts a value of package sdk, schema or wire to the message M, matching fields by name.
func toWire[M any](from any) *M {
	out := new(M)
	copyInto(reflect.ValueOf(out).Elem(), reflect.ValueOf(from), validUTF8)
	return out
}

// fromWire converts a message to a T and applies text to each of its strings. A nil message becomes a zero T.
func fromWire[T any](message any, text func(string) string) *T {
	out := new(T)
	copyInto(reflect.ValueOf(out).Elem(), reflect.ValueOf(message), text)
	return out
}

// keepText is the text function for messages of the host, which is trusted.
func keepText(text string) string { return text }

// validUTF8 makes text valid in a protobuf string, so that invalid bytes of a model or tool do not make the
// whole request unsendable.
func validUTF8(s string) string {
	if unicode.ValidString(s) { // several times as fast as ToValidUTF8
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// copyInto copies from into to, which is settable. A zero struct becomes a nil message, an empty slice
// or map nil. Byte slices are shared.
func copyInto(to, from reflect.Value, text func(string) string) {
	copyBy(conversions()[typePair{to.Type(), from.Type()}], to, from, text)
}

// copyBy copies from into to with the conversion of their types, or field by field if convert is nil.
func copyBy(convert conversion, to, from reflect.Value, text func(string) string) {
	if convert != nil {
		convert(to, from)
		return
	}
	if from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return
		}
		if to.Kind() == reflect.Pointer {
			to.Set(reflect.New(to.Type().Elem()))
			to = to.Elem()
		}
		from = from.Elem()
	}
	switch to.Kind() {
	case reflect.Pointer:
		if !from.IsZero() {
			to.Set(reflect.New(to.Type().Elem()))
			copyInto(to.Elem(), from, text)
		}
	case reflect.Struct:
		for _, pair := range fieldPairs(to.Type(), from.Type()) {
			copyBy(pair.convert, to.Field(pair.to), from.Field(pair.from), text)
		}
	case reflect.Slice:
		copySlice(to, from, text)
	case reflect.Map:
		copyMap(to, from, text)
	case reflect.String:
		if from.Kind() == reflect.Slice {
			to.SetString(string(from.Bytes()))
		} else {
			to.SetString(text(from.String()))
		}
	default: // numbers of any size, and booleans
		to.Set(from.Convert(to.Type()))
	}
}

func copySlice(to, from reflect.Value, text func(string) string) {
	switch {
	case from.Len() == 0:
	case from.Kind() == reflect.String:
		to.SetBytes([]byte(from.String()))
	case to.Type().Elem().Kind() == reflect.Uint8:
		to.SetBytes(from.Bytes())
	default:
		to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		elements := typePair{to.Type().Elem(), from.Type().Elem()}
		convert := conversions()[elements]
		// In a slice, a zero struct is still an element.
		isMessage := elements.to.Kind() == reflect.Pointer && elements.from.Kind() == reflect.Struct && convert == nil
		for i := range from.Len() {
			element := to.Index(i)
			if isMessage {
				element.Set(reflect.New(elements.to.Elem()))
				element = element.Elem()
			}
			copyBy(convert, element, from.Index(i), text)
		}
	}
}

func copyMap(to, from reflect.Value, text func(string) string) {
	if from.Len() == 0 {
		return
	}
	to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
	for key, value := range from.Seq2() {
		element := reflect.New(to.Type().Elem()).Elem()
		copyInto(element, value, text)
		to.SetMapIndex(reflect.ValueOf(text(key.String())), element)
	}
}

type typePair struct{ to, from reflect.Type }

// fieldPair has the indexes of one field in two structs.
type fieldPair struct {
	to, from int
	convert  conversion
}

var pairCache sync.Map // typePair -> []fieldPair

// fieldPairs returns the fields that two structs have in common, matched by name or by the wire tag.
func fieldPairs(to, from reflect.Type) []fieldPair {
	if known, ok := pairCache.Load(typePair{to, from}); ok {
		return known.([]fieldPair)
	}
	nameOf := func(f reflect.StructField) string {
		if name, ok := f.Tag.Lookup("wire"); ok {
			return name
		}
		return f.Name
	}
	var pairs []fieldPair
	for i := range to.NumField() {
		for j := range from.NumField() {
			if a, b := to.Field(i), from.Field(j); a.IsExported() && b.IsExported() && strings.EqualFold(nameOf(a), nameOf(b)) {
				pairs = append(pairs, fieldPair{i, j, conversions()[typePair{a.Type, b.Type}]})
			}
		}
	}
	pairCache.Store(typePair{to, from}, pairs)
	return pairs
}

// Protobuf values, indexed by the values of packages sdk and schema.
var (
	outcomesOnWire   = []pb.Outcome{sdk.Inconclusive: pb.Outcome_OUTCOME_INCONCLUSIVE, sdk.Passed: pb.Outcome_OUTCOME_PASSED, sdk.Failed: pb.Outcome_OUTCOME_FAILED}
	severitiesOnWire = []pb.Diagnostic_Severity{schema.Error: pb.Diagnostic_SEVERITY_ERROR, schema.Warning: pb.Diagnostic_SEVERITY_WARNING}
)

type conversion func(to, from reflect.Value)

var (
	conversionsOnce  sync.Once
	knownConversions map[typePair]conversion
)

func conversions() map[typePair]conversion {
	conversionsOnce.Do(func() { knownConversions = newConversions() })
	return knownConversions
}

func newConversions() map[typePair]conversion {
	all := map[typePair]conversion{}
	addConversion(all, func(d time.Duration) *durationpb.Duration {
		if d == 0 {
			return nil
		}
		return durationpb.New(d)
	})
	addConversion(all, func(d *durationpb.Duration) time.Duration { return d.AsDuration() })
	addConversion(all, func(v any) *structpb.Value {
		if v == nil {
			return nil
		}
		out, err := structpb.NewValue(v)
		if err != nil {
			panic("wire: a value of a schema is not JSON: " + err.Error())
		}
		return out
	})
	addConversion(all, func(v *structpb.Value) any { return v.AsInterface() })
	addConversion(all, func(r Role) pb.PluginRole { return rolesOnWire[r] })
	addConversion(all, roleFromWire)
	addConversion(all, func(o sdk.Outcome) pb.Outcome { return outcomesOnWire[o] })
	addConversion(all, func(o pb.Outcome) sdk.Outcome { return sdk.Outcome(max(0, slices.Index(outcomesOnWire, o))) })
	addConversion(all, func(s schema.Severity) pb.Diagnostic_Severity { return severitiesOnWire[s] })
	addConversion(all, func(s pb.Diagnostic_Severity) schema.Severity {
		return schema.Severity(max(0, slices.Index(severitiesOnWire, s)))
	})
	addConversion(all, estimateToWire)
	addConversion(all, capabilityNames)
	addConversion(all, capabilitiesOf)
	addConversion(all, partToWire)
	addConversion(all, partFromWire)
	return all
}

func addConversion[From, To any](all map[typePair]conversion, convert func(From) To) {
	all[typePair{reflect.TypeFor[To](), reflect.TypeFor[From]()}] = func(to, from reflect.Value) {
		value, _ := reflect.TypeAssert[From](from)
		converted := convert(value)
		to.Set(reflect.ValueOf(&converted).Elem())
	}
}

func capabilityNames(c sdk.Capabilities) (names []string) {
	for field, has := range reflect.ValueOf(c).Fields() {
		if has.Bool() {
			names = append(names, capabilityName(field))
		}
	}
	return names
}

func capabilitiesOf(names []string) (c sdk.Capabilities) {
	for field, has := range reflect.ValueOf(&c).Elem().Fields() {
		has.SetBool(slices.Contains(names, capabilityName(field)))
	}
	return c
}

// capabilityName returns the name used in policies, traces and messages.
func capabilityName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func partToWire(p sdk.Part) *pb.Part {
	switch {
	case p.Kind == sdk.PartText:
		return &pb.Part{Part: &pb.Part_Text{Text: validUTF8(p.Text)}}
	case p.Kind == sdk.PartImageURL:
		return &pb.Part{Part: &pb.Part_ImageUrl{ImageUrl: validUTF8(p.URL)}}
	case p.Kind == sdk.PartBinary:
		return &pb.Part{Part: &pb.Part_Binary{Binary: toWire[pb.Binary](p)}}
	case p.Kind == sdk.PartToolCall && p.ToolCall != nil:
		return &pb.Part{Part: &pb.Part_ToolCall{ToolCall: toWire[pb.ToolCall](p.ToolCall)}}
	case p.Kind == sdk.PartToolResult && p.ToolResult != nil:
		return &pb.Part{Part: &pb.Part_ToolResult{ToolResult: toWire[pb.ToolResult](p.ToolResult)}}
	}
	return &pb.Part{}
}

func partFromWire(p *pb.Part) sdk.Part {
	switch v := p.GetPart().(type) {
	case *pb.Part_Text:
		return sdk.TextPart(v.Text)
	case *pb.Part_ImageUrl:
		return sdk.Part{Kind: sdk.PartImageURL, URL: v.ImageUrl}
	case *pb.Part_Binary:
		return sdk.Part{Kind: sdk.PartBinary, MIMEType: v.Binary.GetMimeType(), Data: v.Binary.GetData()}
	case *pb.Part_ToolCall:
		return sdk.Part{Kind: sdk.PartToolCall, ToolCall: fromWire[sdk.ToolCall](v.ToolCall, keepText)}
	case *pb.Part_ToolResult:
		return sdk.Part{Kind: sdk.PartToolResult, ToolResult: fromWire[sdk.ToolResult](v.ToolResult, keepText)}
	}
	return sdk.Part{}
}
