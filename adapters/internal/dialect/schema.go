package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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
	members, isObject := decode(schema).(*orderedObject)
	if !isObject {
		return schema
	}
	properties := cmp.Or(members.object("properties"), &orderedObject{values: map[string]any{}}) // what are none are left out
	description := root.Get("description").Str
	for _, word := range notAtTop {
		alternatives, _ := members.get(word).([]any)
		for _, alternative := range alternatives {
			of, _ := alternative.(*orderedObject)
			properties.addMissing(of.object("properties"))
		}
		if members.has(word) {
			description = strings.TrimPrefix(description+"; "+word+": "+root.Get(word).Raw, "; ")
			members.set("description", description)
			members.remove(word)
		}
	}
	members.set("type", "object")
	members.set("properties", properties)
	return rawJSON(members)
}

// notAtTop are the words that a schema of arguments does not have at its top: "schema must have type 'object' and not
// have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"; https://github.com/langchain-ai/langchainjs/issues/9804
var notAtTop = []string{"allOf", "anyOf", "oneOf", "enum", "not"}

// requiresAll reports whether each object of a schema requires all its properties and allows no
// others.
func requiresAll(schema json.RawMessage) bool {
	all := json.Valid(schema)
	eachSchema(decode(schema), func(object *orderedObject) {
		required, _ := object.get("required").([]any)
		all = all && (!isObjectSchema(object) || object.get("additionalProperties") == false)
		if properties := object.object("properties"); properties != nil {
			for _, name := range properties.names {
				all = all && slices.Contains(required, any(name))
			}
		}
	})
	return all
}

// changeSchema returns a schema as visit changes it and those within it, and as it was where visit
// reports no change.
func changeSchema(schema json.RawMessage, visit func(object *orderedObject) (isChanged bool)) json.RawMessage {
	if !json.Valid(schema) {
		return schema
	}
	v, isChanged := decode(schema), false
	eachSchema(v, func(object *orderedObject) { isChanged = visit(object) || isChanged })
	if !isChanged {
		return schema
	}
	return rawJSON(v)
}

// withoutBooleans lets properties that may be anything be objects of a schema, and takes out those
// that may not be.
func withoutBooleans(schema json.RawMessage) json.RawMessage {
	return changeSchema(schema, func(object *orderedObject) (isChanged bool) {
		if properties := object.object("properties"); properties != nil {
			for _, name := range slices.Clone(properties.names) {
				if may, isFlag := properties.get(name).(bool); isFlag && may {
					properties.set(name, Object{})
					isChanged = true
				} else if isFlag {
					properties.remove(name)
					isChanged = true
				}
			}
		}
		if _, isFlag := object.get("items").(bool); isFlag {
			object.remove("items")
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
	return changeSchema(schema, func(object *orderedObject) bool {
		isOpen := isOfType(object, "array") && object.get("items") == nil && object.get("prefixItems") == nil
		if isOpen {
			object.set("items", Object{})
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
	return changeSchema(schema, func(object *orderedObject) (isChanged bool) {
		for exclusive, name := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
			is, isFlag := object.get(exclusive).(bool)
			if !isFlag {
				continue
			}
			isChanged = true
			if object.remove(exclusive); is && object.get(name) != nil {
				object.rename(name, exclusive)
			}
		}
		if _, isList := object.get("items").([]any); isList {
			isChanged = true
			if object.rename("items", "prefixItems"); object.get("additionalItems") != nil {
				object.rename("additionalItems", "items")
			}
		}
		return isChanged
	})
}

func isObjectSchema(schema *orderedObject) bool {
	return isOfType(schema, "object") || schema.get("type") == nil && schema.get("properties") != nil
}

func isOfType(schema *orderedObject, kind string) bool {
	switch own := schema.get("type").(type) {
	case string:
		return own == kind
	case []any:
		return slices.Contains(own, any(kind))
	}
	return false
}

// closedSchema says of each object of a schema that it has no further properties, where
// the schema does not say anything about it, and moves bounds into descriptions.
func closedSchema(schema json.RawMessage) json.RawMessage {
	return changeSchema(schema, func(object *orderedObject) bool {
		if isObjectSchema(object) && !object.has("additionalProperties") {
			object.set("additionalProperties", false)
		}
		if object.get("oneOf") != nil && object.get("anyOf") == nil { // Claude has the one word
			object.rename("oneOf", "anyOf")
		}
		for _, name := range bounds {
			bound := object.get(name)
			least, isNumber := bound.(json.Number)
			if n, _ := least.Float64(); !object.has(name) || name == "minItems" && isNumber && n <= 1 {
				continue
			}
			object.remove(name)
			text, _ := object.get("description").(string)
			object.set("description", strings.TrimPrefix(fmt.Sprintf("%s; %s: %v", text, name, bound), "; "))
		}
		return true
	})
}

// isOpen reports whether an object of a schema may have properties that it does not name.
func isOpen(schema json.RawMessage) (open bool) {
	eachSchema(decode(schema), func(object *orderedObject) {
		open = open || object.has("additionalProperties") && object.get("additionalProperties") != false
	})
	return open
}

// isRecursive reports whether a schema refers to one that it is within, or through more schemas
// than vendors follow.
func isRecursive(schema json.RawMessage) bool {
	root := decode(schema)
	return refersBack(root, root, map[*orderedObject]bool{}, 0)
}

// mostReferred is how deep objects and lists may be nested where each reference stands for its schema.
const mostReferred = 4 * deepest

// refersBack reports whether a part of a schema refers to one that it is within. Definitions are
// looked at from where they are used, each once: isWithin has the objects that were seen, and
// whether the part is within them.
func refersBack(v, root any, isWithin map[*orderedObject]bool, depth int) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return refersBack(inner, root, isWithin, depth+1) })
	case *orderedObject:
		if isBack, isSeen := isWithin[v]; isSeen || depth > mostReferred {
			return isBack || !isSeen
		}
		isWithin[v] = true
		for name, inner := range v.values {
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
		isWithin[v] = false
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
		members, _ := root.(*orderedObject)
		root = members.get(name)
	}
	return root
}

// bounds are the keywords that Claude's schemas lack, of minItems those above 1.
// https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
var bounds = strings.Fields("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties")

func eachSchema(v any, visit func(*orderedObject)) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			eachSchema(inner, visit)
		}
	case *orderedObject:
		visit(v)
		for name, inner := range v.values {
			switch members, isObject := inner.(*orderedObject); {
			case name == "enum", name == "const", name == "default", name == "examples": // they are no schemas
			case isObject && (name == "properties" || name == "$defs" || name == "definitions"):
				for _, schema := range members.values {
					eachSchema(schema, visit)
				}
			default:
				eachSchema(inner, visit)
			}
		}
	}
}
