package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// What the schemas of tools and answers are made for vendors that take less of JSON Schema.

// objectSchema is a schema of a tool's arguments that says that it is one of an object. The
// arguments of alternatives at its top are all of them allowed, and the description has
// what they were.
func objectSchema(schema json.RawMessage) json.RawMessage {
	root := gjson.ParseBytes(schema)
	kind := root.Get("type")
	isObject := !kind.Exists() || kind.Str == "object" || strings.Contains(kind.Raw, `"object"`)
	alternatives := slices.ContainsFunc(notAtTop, func(word string) bool { return root.Get(word).Exists() })
	if !root.IsObject() || !isObject || root.Get("$ref").Exists() || kind.Str == "object" && root.Get("properties").Exists() && !alternatives {
		return schema
	}
	members, properties := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if json.Unmarshal(schema, &members) != nil {
		return schema
	}
	_ = json.Unmarshal(members["properties"], &properties) // what are none are left out
	description := root.Get("description").Str
	for _, word := range notAtTop {
		for _, alternative := range root.Get(word).Array() {
			alternative.Get("properties").ForEach(func(name, property gjson.Result) bool {
				if properties[name.Str] == nil {
					properties[name.Str] = json.RawMessage(property.Raw)
				}
				return true
			})
		}
		if members[word] != nil {
			description = strings.TrimPrefix(description+"; "+word+": "+string(members[word]), "; ")
			members["description"] = rawJSON(description)
			delete(members, word)
		}
	}
	members["type"], members["properties"] = json.RawMessage(`"object"`), rawJSON(properties)
	return rawJSON(members)
}

// notAtTop are the words that a schema of arguments does not have at its top: "schema must have type 'object' and not
// have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; https://github.com/langchain-ai/langchainjs/issues/9804
var notAtTop = []string{"allOf", "anyOf", "oneOf", "enum", "not"}

// requiresAll reports whether each object of a schema requires all its properties and allows no
// others.
func requiresAll(schema json.RawMessage) bool {
	var v any
	all := json.Unmarshal(schema, &v) == nil
	eachSchema(v, func(object map[string]any) {
		properties, _ := object["properties"].(map[string]any)
		required, _ := object["required"].([]any)
		all = all && (!isObjectSchema(object) || object["additionalProperties"] == false)
		for name := range properties {
			all = all && slices.Contains(required, any(name))
		}
	})
	return all
}

// changeSchema returns a schema as visit changes it and those within it, and as it was where visit
// reports no change.
func changeSchema(schema json.RawMessage, visit func(object map[string]any) (isChanged bool)) json.RawMessage {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return schema
	}
	isChanged := false
	eachSchema(v, func(object map[string]any) { isChanged = visit(object) || isChanged })
	if !isChanged {
		return schema
	}
	return rawJSON(v)
}

// withoutBooleans lets properties that may be anything be objects of a schema, and takes out those
// that may not be.
func withoutBooleans(schema json.RawMessage) json.RawMessage {
	return changeSchema(schema, func(object map[string]any) (isChanged bool) {
		properties, _ := object["properties"].(map[string]any)
		for name, property := range properties {
			if may, isFlag := property.(bool); isFlag && may {
				properties[name], isChanged = map[string]any{}, true
			} else if isFlag {
				delete(properties, name)
				isChanged = true
			}
		}
		if _, isFlag := object["items"].(bool); isFlag {
			delete(object, "items")
			isChanged = true
		}
		return isChanged
	})
}

// withItems lets lists of which a schema does not say what they hold hold anything.
func withItems(schema json.RawMessage) json.RawMessage {
	if !bytes.Contains(schema, []byte(`"array"`)) {
		return schema
	}
	return changeSchema(schema, func(object map[string]any) bool {
		isOpen := isOfType(object, "array") && object["items"] == nil && object["prefixItems"] == nil
		if isOpen {
			object["items"] = map[string]any{}
		}
		return isOpen
	})
}

// draft2020 says what drafts before 2020-12 had other words for: limits that are not reached, and
// lists whose first members have schemas of their own.
func draft2020(schema json.RawMessage) json.RawMessage {
	if !bytes.Contains(schema, []byte(`"exclusiveM`)) && !bytes.Contains(schema, []byte(`"items"`)) {
		return schema
	}
	return changeSchema(schema, func(object map[string]any) (isChanged bool) {
		for exclusive, name := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
			is, isFlag := object[exclusive].(bool)
			if !isFlag {
				continue
			}
			isChanged = true
			if delete(object, exclusive); is && object[name] != nil {
				object[exclusive] = object[name]
				delete(object, name)
			}
		}
		if list, isList := object["items"].([]any); isList {
			object["prefixItems"], isChanged = list, true
			if delete(object, "items"); object["additionalItems"] != nil {
				object["items"] = object["additionalItems"]
				delete(object, "additionalItems")
			}
		}
		return isChanged
	})
}

func isObjectSchema(schema map[string]any) bool {
	return isOfType(schema, "object") || schema["type"] == nil && schema["properties"] != nil
}

func isOfType(schema map[string]any, kind string) bool {
	kinds, _ := schema["type"].([]any)
	return schema["type"] == kind || slices.Contains(kinds, any(kind))
}

// closedSchema says of each object of a schema that it has no further properties, where
// the schema does not say anything about it, and moves bounds into descriptions.
func closedSchema(schema json.RawMessage) json.RawMessage {
	return changeSchema(schema, func(object map[string]any) bool {
		if _, said := object["additionalProperties"]; isObjectSchema(object) && !said {
			object["additionalProperties"] = false
		}
		if object["oneOf"] != nil && object["anyOf"] == nil { // Claude has the one word
			object["anyOf"] = object["oneOf"]
			delete(object, "oneOf")
		}
		for _, name := range bounds {
			bound, said := object[name]
			if n, isNumber := bound.(float64); !said || name == "minItems" && isNumber && n <= 1 {
				continue
			}
			delete(object, name)
			text, _ := object["description"].(string)
			object["description"] = strings.TrimPrefix(fmt.Sprintf("%s; %s: %v", text, name, bound), "; ")
		}
		return true
	})
}

// isOpen reports whether an object of a schema may have properties that it does not name.
func isOpen(schema json.RawMessage) (open bool) {
	var v any
	_ = json.Unmarshal(schema, &v) // what is none is open to nothing
	eachSchema(v, func(object map[string]any) {
		further, said := object["additionalProperties"]
		open = open || said && further != false
	})
	return open
}

// isRecursive reports whether a schema refers to one that it is within, or through more schemas
// than vendors follow.
func isRecursive(schema json.RawMessage) bool {
	var root any
	return json.Unmarshal(schema, &root) == nil && refersBack(root, root, map[uintptr]bool{}, 0)
}

// mostReferred is how deep objects and lists may be nested where each reference stands for its schema.
const mostReferred = 4 * deepest

// refersBack reports whether a part of a schema refers to one that it is within. Definitions are
// looked at from where they are used, each once: isWithin has the objects that were seen, and
// whether the part is within them.
func refersBack(v, root any, isWithin map[uintptr]bool, depth int) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return refersBack(inner, root, isWithin, depth+1) })
	case map[string]any:
		at := reflect.ValueOf(v).Pointer()
		if isBack, isSeen := isWithin[at]; isSeen || depth > mostReferred {
			return isBack || !isSeen
		}
		isWithin[at] = true
		for name, inner := range v {
			if to, isText := inner.(string); isText && name == "$ref" {
				inner = resolve(root, to)
			}
			switch name {
			case "enum", "const", "default", "examples", "$defs", "definitions":
			default:
				if refersBack(inner, root, isWithin, depth+1) {
					return true
				}
			}
		}
		isWithin[at] = false
	}
	return false
}

// resolve returns what a reference such as #/$defs/a stands for; nil for what is elsewhere.
func resolve(root any, reference string) any {
	path, isLocal := strings.CutPrefix(reference, "#/")
	switch {
	case reference == "#":
		return root
	case !isLocal:
		return nil
	}
	for name := range strings.SplitSeq(path, "/") {
		members, _ := root.(map[string]any)
		root = members[name]
	}
	return root
}

// bounds are the keywords that Claude's schemas lack, of minItems those above 1.
// https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
var bounds = strings.Fields("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties")

func eachSchema(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			eachSchema(inner, visit)
		}
	case map[string]any:
		visit(v)
		for name, inner := range v {
			switch members, isObject := inner.(map[string]any); {
			case name == "enum", name == "const", name == "default", name == "examples": // they are no schemas
			case isObject && (name == "properties" || name == "$defs" || name == "definitions"):
				for _, schema := range members {
					eachSchema(schema, visit)
				}
			default:
				eachSchema(inner, visit)
			}
		}
	}
}
