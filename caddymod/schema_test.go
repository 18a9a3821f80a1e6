// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"go/doc/comment"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

const (
	// schemaFile is the JSON schema that is generated.
	schemaFile = "../docs/caddy-moderation.schema.json"
	// schemaID is the address of the schema.
	schemaID = "https://raw.githubusercontent.com/caddy-moderation/caddy-moderation/main/docs/caddy-moderation.schema.json"
)

// object is a JSON object.
type object = map[string]any

// moduleSchema writes the JSON schema of Caddy's configuration. It is strict about the Caddy modules of this project,
// wherever they stand, and lets everything else be.
//
// It is of draft 7, the newest that the editors of VS Code and of JetBrains both know wholly. In it, what stands beside
// a $ref is ignored. An object that takes no unknown members must therefore list all of them itself.
type moduleSchema struct {
	*moduleDocs
	definitions object
}

// TestModuleSchema generates docs/caddy-moderation.schema.json from the modules and their doc comments, and fails when
// the file is stale.
func TestModuleSchema(t *testing.T) {
	t.Parallel()
	got := encodeJSON(t, schemaOf(t))
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale; write it anew with: go test ./caddymod -run TestModuleSchema -update", schemaFile)
	}
}

// encodeJSON returns a value as JSON in lines, with the members of objects in alphabetical order.
func encodeJSON(t *testing.T, value any) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// schemaOf returns the schema of a whole configuration.
func schemaOf(t *testing.T) object {
	t.Helper()
	s := &moduleSchema{newModuleDocs(t, registered(t)), object{}}
	places := map[string][]string{} // names of modules, by namespace
	for _, id := range slices.Sorted(maps.Keys(s.modules)) {
		namespace := caddy.ModuleID(id).Namespace()
		places[namespace] = append(places[namespace], caddy.ModuleID(id).Name())
		switch namespace {
		case "", "http.matchers", "http.authentication.providers":
			s.definitions[id] = s.module(id, "")
		case "http.handlers":
			s.definitions[id] = s.module(id, "handler")
		case "moderation.storage", "moderation.classifiers":
			s.definitions[id] = s.module(id, "module")
		case "admin.api": // it has no place in a configuration
		default:
			t.Errorf("%s: the schema has no place for modules of %s", id, namespace)
		}
	}
	s.definitions["value"] = s.anyValue(places)
	s.definitions["match"] = object{
		"if":   object{"type": "array"},
		"then": object{"items": ref("matchers")},
		"else": ref("value"),
	}
	matchers := object{"not": ref("match")}
	for _, name := range places["http.matchers"] {
		matchers[name] = ref("http.matchers." + name)
	}
	s.definitions["matchers"] = object{"properties": matchers, "additionalProperties": ref("value")}
	s.definitions["route"] = strict(object{
		"group":    object{"type": "string", "description": "Of the routes of a group only the first that matches runs."},
		"match":    ref("match"),
		"handle":   object{"type": "array", "items": ref("handler"), "description": "The handlers of the route."},
		"terminal": object{"type": "boolean", "description": "Whether no route after this one runs."},
	})
	s.definitions["handler"] = object{"allOf": []any{ref("value")}, "type": "object", "required": []any{"handler"}}
	apps := object{}
	for _, name := range places[""] {
		apps[name] = ref(name)
	}
	root := strict(object{
		"admin":   object{"description": "Caddy's admin endpoint."},
		"logging": object{"description": "The logs."},
		"storage": object{"description": "Where Caddy keeps certificates. It is not the store of the moderation app."},
		"apps":    object{"type": "object", "properties": apps, "additionalProperties": ref("value")},
	})
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["$id"] = schemaID
	root["$comment"] = "Generated from the modules. Write it anew with: go test ./caddymod -run TestModuleSchema -update"
	root["title"] = "Caddy's JSON configuration, with the modules of caddy-moderation"
	root["definitions"] = s.definitions
	return root
}

func ref(name string) object { return object{"$ref": "#/definitions/" + name} }

// strict returns the schema of an object with these members and no others. Caddy takes an @id out of any object before
// it decodes it.
func strict(members object) object {
	members["@id"] = object{
		"type":        []any{"string", "number"},
		"description": "A name for this object. Caddy's admin endpoint serves it at /id/<name>.",
	}
	return object{"type": "object", "properties": members, "additionalProperties": false}
}

// anyValue returns the schema of anything in Caddy's configuration: an object that is a handler of this project has the
// schema of that handler, and what is in any other object or array may be anything again.
func (s *moduleSchema) anyValue(places map[string][]string) object {
	var handlers, cases []any
	for _, name := range places["http.handlers"] {
		handlers = append(handlers, name)
		cases = append(cases, object{
			"if":   object{"properties": object{"handler": object{"const": name}}},
			"then": ref("http.handlers." + name),
		})
	}
	providers := object{}
	for _, name := range places["http.authentication.providers"] {
		providers[name] = ref("http.authentication.providers." + name)
	}
	return object{
		"if": object{
			"type": "object", "required": []any{"handler"},
			"properties": object{"handler": object{"enum": handlers}},
		},
		"then": object{"allOf": cases},
		"else": object{
			"if": object{
				"type": "object", "required": []any{"handler"},
				"properties": object{"handler": object{"const": "authentication"}},
			},
			"then": object{"properties": object{"providers": object{
				"properties": providers, "additionalProperties": ref("value"),
			}}},
			"else": object{
				"properties": object{
					// Editors propose these names.
					"handler": object{"anyOf": []any{object{"enum": handlers}, ref("value")}},
					"match":   ref("match"),
				},
				"additionalProperties": ref("value"),
				"items":                ref("value"),
			},
		},
	}
}

// module returns the schema of a module whose name is in the member key, if any.
func (s *moduleSchema) module(id, key string) object {
	of := s.modules[id]
	schema := s.structure(of, of)
	if key != "" {
		schema["properties"].(object)[key] = object{"const": caddy.ModuleID(id).Name()}
		required, _ := schema["required"].([]any)
		schema["required"] = append([]any{key}, required...)
	}
	schema["title"] = id
	description, _ := s.describe(id)
	var paragraphs []string
	for _, block := range description {
		if text := blockText(block); text != "" {
			paragraphs = append(paragraphs, text)
		}
	}
	schema["description"] = strings.Join(paragraphs, "\n\n")
	return schema
}

// structure returns the schema of a struct. module is the module that it belongs to.
func (s *moduleSchema) structure(of, module reflect.Type) object {
	members := object{}
	var required []any
	for _, field := range jsonFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		schema := s.field(field, module)
		text := s.docOf(field.owner).fields[field.Name]
		schema["description"] = strings.TrimSpace(oneLine(text))
		if requiredSentence.MatchString(text) {
			required = append(required, name)
		}
		members[name] = schema
	}
	schema := strict(members)
	if len(required) > 0 {
		schema["required"] = required
	}
	maps.Copy(schema, schemaRules[of.String()].rule)
	return schema
}

// ownedField is a field of a struct, or of one that is embedded in it.
type ownedField struct {
	reflect.StructField
	owner reflect.Type
}

// jsonFields returns the fields of a struct that stand in its JSON.
func jsonFields(of reflect.Type) (fields []ownedField) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "" && element(field.Type).Kind() == reflect.Struct:
			fields = append(fields, jsonFields(element(field.Type))...)
		case field.IsExported() && name != "-":
			fields = append(fields, ownedField{field, of})
		}
	}
	return fields
}

// ruleOf returns the rule of a field: that of the module, or that of the struct it stands in.
func ruleOf(field ownedField, module reflect.Type) schemaRule {
	if rule, ok := schemaRules[module.String()+"."+field.Name]; ok {
		return rule
	}
	return schemaRules[field.owner.String()+"."+field.Name]
}

// field returns the schema of a field's value.
func (s *moduleSchema) field(field ownedField, module reflect.Type) object {
	var schema object
	if options := field.Tag.Get("caddy"); options != "" {
		schema = s.guest(options)
	} else {
		schema = s.value(field.Type, module)
	}
	maps.Copy(schema, ruleOf(field, module).rule)
	if pattern, ok := schema[namePattern]; ok {
		delete(schema, namePattern)
		schema["patternProperties"] = object{pattern.(string): schema["additionalProperties"]}
		schema["additionalProperties"] = false
	}
	return schema
}

// guest returns the schema of a guest module. Those of others may have any members.
func (s *moduleSchema) guest(tag string) object {
	namespace, key, _ := strings.Cut(strings.TrimPrefix(tag, "namespace="), " ")
	key = strings.TrimPrefix(key, "inline_key=")
	if namespace == "http.handlers" {
		return object{"allOf": []any{ref("handler")}}
	}
	var names, cases []any
	for _, id := range slices.Sorted(maps.Keys(s.modules)) {
		if caddy.ModuleID(id).Namespace() == namespace {
			name := caddy.ModuleID(id).Name()
			names = append(names, name)
			cases = append(cases, object{
				"if":   object{"required": []any{key}, "properties": object{key: object{"const": name}}},
				"then": ref(id),
			})
		}
	}
	return object{
		"type": "object", "required": []any{key}, "allOf": cases,
		"properties": object{key: object{"type": "string", "anyOf": []any{object{"enum": names}, object{}}}},
	}
}

// value returns the schema of a Go type.
func (s *moduleSchema) value(of, module reflect.Type) object {
	switch {
	case of == reflect.TypeFor[caddy.Duration]():
		return duration()
	case of == reflect.TypeFor[caddyhttp.RouteList]():
		return object{"type": "array", "items": ref("route")}
	case of.Kind() == reflect.Pointer:
		return s.value(of.Elem(), module)
	}
	if rule, ok := schemaRules[of.String()]; ok && of.Kind() != reflect.Struct {
		return maps.Clone(rule.rule)
	}
	if of.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || of.Implements(reflect.TypeFor[json.Marshaler]()) {
		s.t.Errorf("%s: the schema does not know how it is written; give it a rule", of)
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.value(of.Elem(), module)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.value(of.Elem(), module)}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0} // no number in a configuration may be negative
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Struct:
		for _, known := range s.modules {
			if known == of {
				return s.structure(of, of)
			}
		}
		return s.structure(of, module)
	}
	s.t.Errorf("%s: the schema does not know such values", of)
	return object{}
}

// duration returns the schema of a duration as Caddy reads it. None of this project's may be negative.
func duration() object {
	return object{"anyOf": []any{
		object{
			"type":    "string",
			"pattern": `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+)$`,
		},
		object{"type": "integer", "minimum": 0},
	}}
}

// paragraphBreak stands between the paragraphs of a comment.
var paragraphBreak = regexp.MustCompile(`\n[ \t]*\n`)

// oneLine returns a comment with each of its paragraphs in one line.
func oneLine(text string) string {
	paragraphs := paragraphBreak.Split(strings.TrimSpace(text), -1)
	for i := range paragraphs {
		paragraphs[i] = strings.Join(strings.Fields(paragraphs[i]), " ")
	}
	return strings.Join(paragraphs, "\n\n")
}

// blockText returns a block of a doc comment as plain text.
func blockText(block comment.Block) string {
	switch block := block.(type) {
	case *comment.Paragraph:
		return strings.Join(strings.Fields(plainText(block.Text)), " ")
	case *comment.Heading:
		return plainText(block.Text)
	case *comment.Code:
		return strings.TrimSuffix(block.Text, "\n")
	case *comment.List:
		var items []string
		for _, item := range block.Items {
			for _, content := range item.Content {
				items = append(items, "- "+blockText(content))
			}
		}
		return strings.Join(items, "\n")
	}
	return ""
}
