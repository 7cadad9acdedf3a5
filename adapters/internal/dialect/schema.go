package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Adaptations of schemas to vendors that support only part of JSON Schema.

// objectSchema makes the schema of a tool's arguments an object schema with properties. Alternatives at its top
// level are replaced by all their properties, and described in the description.
func objectSchema(schema json.RawMessage) json.RawMessage {
	root := gjson.ParseBytes(schema)
	kind := root.Get("type")
	isObject := !kind.Exists() || kind.Str == "object" || strings.Contains(kind.Raw, `"object"`)
	alternatives := slices.ContainsFunc(topKeywords, func(word string) bool { return root.Get(word).Exists() })
	if !isObject || root.Get("$ref").Exists() || kind.Str == "object" && root.Get("properties").Exists() && !alternatives {
		return schema
	}
	members, isObject := decode(schema).(*orderedObject)
	if !isObject {
		return schema
	}
	properties := cmp.Or(members.object("properties"), &orderedObject{values: map[string]any{}}) // properties that are not an object are dropped
	description := root.Get("description").Str
	for _, word := range topKeywords {
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

// topKeywords are the keywords that are rejected at the top level of a schema of arguments: "schema must have type
// 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level";
// https://github.com/langchain-ai/langchainjs/issues/9804
var topKeywords = []string{"allOf", "anyOf", "oneOf", "enum", "not"}

// requiresAll reports whether all objects of a schema require all their properties and allow no others.
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

// changeSchema applies visit to a schema and all nested schemas. It returns the original if visit reports no
// change.
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

// withoutBooleans replaces properties whose schema is true by {}, and removes those whose schema is false.
func withoutBooleans(schema json.RawMessage) json.RawMessage {
	return changeSchema(schema, func(object *orderedObject) (isChanged bool) {
		if properties := object.object("properties"); properties != nil {
			for _, name := range slices.Clone(properties.names) {
				may, isFlag := properties.get(name).(bool)
				if isChanged = isChanged || isFlag; may {
					properties.set(name, Object{})
				} else if isFlag {
					properties.remove(name)
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

// withItems adds an empty schema for the items of arrays that have none.
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

// draft2020 converts boolean exclusive bounds and lists of items from older drafts to draft 2020-12.
func draft2020(schema json.RawMessage) json.RawMessage {
	if !bytes.Contains(schema, []byte(`"exclusiveM`)) && !bytes.Contains(schema, []byte(`"items"`)) {
		return schema
	}
	return changeSchema(schema, func(object *orderedObject) (isChanged bool) {
		for exclusive, name := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
			if is, isFlag := object.get(exclusive).(bool); isFlag {
				isChanged = true
				if object.remove(exclusive); is && object.get(name) != nil {
					object.rename(name, exclusive)
				}
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

// closedSchema sets additionalProperties to false in objects that do not set it, and moves bounds into
// descriptions.
func closedSchema(schema json.RawMessage) json.RawMessage {
	return changeSchema(schema, func(object *orderedObject) bool {
		if isObjectSchema(object) && !object.has("additionalProperties") {
			object.set("additionalProperties", false)
		}
		if object.get("oneOf") != nil && object.get("anyOf") == nil { // Claude supports only anyOf
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

// isOpen reports whether an object of a schema explicitly allows additional properties.
func isOpen(schema json.RawMessage) (open bool) {
	eachSchema(decode(schema), func(object *orderedObject) {
		open = open || object.has("additionalProperties") && object.get("additionalProperties") != false
	})
	return open
}

// isRecursive reports whether a schema refers to itself, or nests references deeper than maxReferenceDepth.
func isRecursive(schema json.RawMessage) bool {
	root := decode(schema)
	return refersBack(root, root, map[*orderedObject]bool{}, 0)
}

// maxReferenceDepth limits the depth of a schema with its references resolved.
const maxReferenceDepth = 4 * maxDepth

// refersBack reports whether a part of a schema refers to one that contains it. Definitions are visited where
// they are used, and once each: isWithin has the visited objects, with true for those that contain v.
func refersBack(v, root any, isWithin map[*orderedObject]bool, depth int) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return refersBack(inner, root, isWithin, depth+1) })
	case *orderedObject:
		if isBack, isSeen := isWithin[v]; isSeen || depth > maxReferenceDepth {
			return isBack || !isSeen
		}
		isWithin[v] = true
		for name, inner := range v.values {
			if to, isText := inner.(string); isText && name == "$ref" {
				inner = resolve(root, to)
			}
			if !slices.Contains(values, name) && !slices.Contains(definitions, name) && refersBack(inner, root, isWithin, depth+1) {
				return true
			}
		}
		isWithin[v] = false
	}
	return false
}

// resolve returns the target of a reference such as #/$defs/a, or nil if it is not in root.
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

// bounds are the keywords that Claude's schemas do not support; minItems up to 1 is supported.
// https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
var bounds = strings.Fields("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties")

// values are the keywords whose values are not schemas. definitions are those of named schemas, which only apply
// where they are referred to.
var (
	values      = []string{"enum", "const", "default", "examples"}
	definitions = []string{"$defs", "definitions"}
)

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
			case slices.Contains(values, name):
			case isObject && (name == "properties" || slices.Contains(definitions, name)):
				eachSchema(slices.Collect(maps.Values(members.values)), visit)
			default:
				eachSchema(inner, visit)
			}
		}
	}
}
