// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// checkSchema returns where a configuration breaks the schema, as JSON Pointers.
func checkSchema(t *testing.T, schema *jsonschema.Schema, config []byte) (broken []string) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(config)))
	if err != nil {
		t.Fatalf("%v in %s", err, config)
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value); err != nil && !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	if invalid == nil {
		return nil
	}
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			at := ""
			for _, name := range e.InstanceLocation {
				at += "/" + name
			}
			if unknown, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
				for _, name := range unknown.Properties {
					broken = append(broken, at+"/"+name)
				}
				return
			}
			broken = append(broken, at)
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(invalid)
	return broken
}

// validateAsCaddy does what "caddy validate" does.
func validateAsCaddy(config []byte) error {
	var parsed caddy.Config
	if err := caddy.StrictUnmarshalJSON(caddy.RemoveMetaFields(config), &parsed); err != nil {
		return err
	}
	discard := caddy.BaseLog{WriterRaw: json.RawMessage(`{"output":"discard"}`)}
	parsed.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: discard}}}
	return caddy.Validate(&parsed)
}

// place is where a value stands in a configuration.
type place struct {
	pointer string
	config  func(value any) object // with a value there
}

// within returns the place of a member of the object at p, which has further members, too.
func (p place) within(name string, others object) place {
	return place{p.pointer + "/" + name, func(value any) object {
		all := maps.Clone(others)
		if all == nil {
			all = object{}
		}
		all[name] = value
		return p.config(all)
	}}
}

// first returns the place of the only element of the array at p.
func (p place) first() place {
	return place{p.pointer + "/0", func(value any) object { return p.config([]any{value}) }}
}

// placeOf returns where a module stands in a configuration, and the members that name it.
func placeOf(t *testing.T, id string) (at place, named object) {
	t.Helper()
	root := place{"", func(value any) object { return value.(object) }}
	apps := root.within("apps", nil)
	name := caddy.ModuleID(id).Name()
	handler := apps.within("http", nil).within("servers", nil).within("s", nil).
		within("routes", object{"listen": []any{":8080"}}).first().within("handle", nil).first()
	switch caddy.ModuleID(id).Namespace() {
	case "":
		return apps.within(id, nil), object{}
	case "moderation.storage":
		return apps.within("moderation", nil).within("storage", nil), object{"module": name}
	case "moderation.classifiers":
		return apps.within("moderation", nil).within("classifier", nil), object{"module": name}
	case "http.handlers":
		// Deep inside other handlers, as the Caddyfile makes them.
		return handler.within("routes", object{"handler": "subroute"}).first().within("handle", nil).first(),
			object{"handler": name}
	case "http.matchers":
		return handler.within("routes", object{"handler": "subroute"}).first().within("match", object{
			"handle": []any{object{"handler": "static_response"}},
		}).first().within(name, nil), object{}
	case "http.authentication.providers":
		return handler.within("providers", object{"handler": "authentication"}).within(name, nil), object{}
	}
	t.Fatalf("%s: the test does not know where such modules stand", id)
	return place{}, nil
}

// TestSchemaAgreesWithCaddy tries good and bad values of each option of each module, and an option that does not exist
// wherever there may be some. What the schema and Caddy say must be the same: an editor that marks what Caddy accepts
// is switched off, and one that does not mark what Caddy refuses is of no use.
func TestSchemaAgreesWithCaddy(t *testing.T) {
	t.Setenv("ACME_MODERATION_KEY", acmeKey)
	t.Setenv("MODERATION_TEST_CERT", certificateFile(t))
	t.Setenv("MODERATION_TEST_REVIEW_KEY", strings.Repeat("0f", 32))
	t.Setenv("MODERATION_TEST_COOP_KEY", "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEArD1dfg+mCuQAXU2BXPoHPcMhcuW1+mnPhJz8QzubLHJ99tHE3tjkbD"+
		"mxW4Zhzyu4dEPKszc4+lVQl/6tvpoH/wIKs0vxU6qDuriJgTNTZiH6sx109nFEBRtvYf6ENjd0eI9piahRpGoP7f4D2eUwmq2f"+
		"AOHZ4oNPD2QQErAByJbyLCWYnUEv1+g+a58Mrn3ixR4iSrudzFE0xxdeFPAldibdF0xOJsWY8nzp513OzARS7WWIJbHuhKAXKR"+
		"xb//TYKPaMyryPB4g6AwDKHbvCB63u22ECH/P9QFi4BjSACQX8nCLGGqeBjYlyCy729KNM2ORwmES6bEPGuc0OtST+fQIDAQAB")
	t.Setenv("MODERATION_TEST_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	agreement := &schemaAgreement{schema: compiledSchema(t), modules: registered(t), seen: map[string]bool{}}
	agreement.docs = newModuleDocs(t, agreement.modules)
	for _, id := range slices.Sorted(maps.Keys(agreement.modules)) {
		if caddy.ModuleID(id).Namespace() == "admin.api" {
			continue
		}
		t.Run(id, func(t *testing.T) {
			at, named := placeOf(t, id)
			of := agreement.modules[id]
			full := agreement.try(t, at, of, of, named)
			agreement.accepts(t, "every option at once", at.config(full))
			full["@id"] = "named"
			agreement.accepts(t, "with an @id", at.config(full))
		})
	}
	for key := range schemaRules {
		if !agreement.seen[key] {
			t.Errorf("schemaRules has a rule for %s, which does not exist", key)
		}
	}
	for name, wrong := range map[string]struct{ config, at string }{
		"unknown top level":          {`{"app":{}}`, "/app"},
		"a schema in the file":       {`{"$schema":"caddy-moderation.schema.json"}`, "/$schema"},
		"handler in handle_response": {nested(`{"handler":"reverse_proxy","handle_response":[{"routes":[{"handle":[%]}]}]}`, `{"handler":"moderate","jsn":[]}`), "/jsn"},
		"handler in a named route":   {`{"apps":{"http":{"servers":{"s":{"named_routes":{"r":{"handle":[{"handler":"moderate","jsn":[]}]}}}}}}}`, "/jsn"},
		"handler in error routes":    {`{"apps":{"http":{"servers":{"s":{"errors":{"routes":[{"handle":[{"handler":"moderation_usage","x":1}]}]}}}}}}`, "/x"},
		"handler in on reject":       {nested(`{"handler":"moderate","on":{"reject":[{"handle":[%]}]}}`, `{"handler":"moderate_response","timeout":"3s"}`), "/timeout"},
		"route of on reject":         {nested(`{"handler":"moderate","on":{"reject":[%]}}`, `{"handlers":[]}`), "/handlers"},
		"limits without an account":  {nested(`%`, `{"handler":"moderate_response","enforce_quota":true}`), "/handle/0"},
		"matcher in not":             {`{"apps":{"http":{"servers":{"s":{"routes":[{"match":[{"not":[{"moderation":{"flaged":true}}]}]}]}}}}}`, "/flaged"},
		"matcher without conditions": {`{"apps":{"http":{"servers":{"s":{"routes":[{"match":[{"moderation":{"text":true}}]}]}}}}}`, "/moderation"},
		"handler in an array of app": {nested(`{"handler":"moderation_compare","proxy":%}`, `{"handler":"moderation_key_auth","querry":true}`), "/querry"},
	} {
		t.Run(name, func(t *testing.T) { agreement.refuses(t, name, wrong.at, []byte(wrong.config), true) })
	}
}

// certificateFile writes a certificate and its key to a file.
func certificateFile(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	content := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})...)
	file := filepath.Join(t.TempDir(), "certificate.pem")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// nested returns a configuration with a handler that holds another one.
func nested(outer, inner string) string {
	return `{"apps":{"http":{"servers":{"s":{"routes":[{"handle":[` + strings.Replace(outer, "%", inner, 1) + `]}]}}}}}`
}

// compiledSchema returns the schema of the modules as they are, which is committed unless [TestModuleSchema] fails.
func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(encodeJSON(t, schemaOf(t)))))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaID, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(schemaID)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// schemaAgreement compares the schema with Caddy.
type schemaAgreement struct {
	schema  *jsonschema.Schema
	modules map[string]reflect.Type
	docs    *moduleDocs
	seen    map[string]bool // the types and fields that there are, as keys of schemaRules
}

// accepts reports an error unless the schema and Caddy both accept a configuration.
func (a *schemaAgreement) accepts(t *testing.T, name string, config object) {
	t.Helper()
	encoded := encodeJSON(t, config)
	if broken := checkSchema(t, a.schema, encoded); broken != nil {
		t.Errorf("%s: the schema refuses it at %q, want it accepted:\n%s", name, broken, encoded)
	}
	if err := validateAsCaddy(encoded); err != nil {
		t.Errorf("%s: Caddy refuses it, want it accepted: %v\n%s", name, err, encoded)
	}
}

// refuses reports an error unless the schema and Caddy both refuse a configuration, the schema because of what is at or
// below a place, which may be given by its end. It returns Caddy's error.
func (a *schemaAgreement) refuses(t *testing.T, name, where string, config []byte, end bool) string {
	t.Helper()
	broken := checkSchema(t, a.schema, config)
	if !slices.ContainsFunc(broken, func(at string) bool {
		return at == where || strings.HasPrefix(at, where+"/") || end && strings.HasSuffix(at, where)
	}) {
		t.Errorf("%s: got no error of the schema at %s, only at %q:\n%s", name, where, broken, config)
	}
	err := validateAsCaddy(config)
	if err == nil {
		t.Errorf("%s: Caddy accepts what the schema refuses:\n%s", name, config)
		return ""
	}
	return err.Error()
}

// try tries the fields of a struct at a place, where it has other members, too. It returns the struct with every field
// set to a good value.
func (a *schemaAgreement) try(t *testing.T, at place, of, module reflect.Type, others object) object {
	t.Helper()
	needed := maps.Clone(others)
	maps.Copy(needed, decodeObject(t, schemaRules[of.String()].with))
	for _, field := range jsonFields(of) {
		if requiredSentence.MatchString(a.docs.docOf(field.owner).fields[field.Name]) {
			needed[jsonName(field)] = a.goodValues(t, field, module)[0]
		}
	}
	full := maps.Clone(needed)
	wrong := maps.Clone(needed)
	wrong["no_such_option"] = true
	a.seen[of.String()] = true
	a.refuses(t, "an unknown option", at.pointer+"/no_such_option", encodeJSON(t, at.config(wrong)), false)
	for _, field := range jsonFields(of) {
		for _, key := range []string{
			field.Type.String(), field.owner.String() + "." + field.Name, module.String() + "." + field.Name,
			element(field.Type).String(),
		} {
			a.seen[key] = true
		}
		name := jsonName(field)
		siblings := maps.Clone(needed)
		delete(siblings, name)
		rule := ruleOf(field, module)
		maps.Copy(siblings, decodeObject(t, rule.with))
		maps.Copy(full, decodeObject(t, rule.with))
		here := at.within(name, siblings)
		good := a.goodValues(t, field, module)
		for _, value := range good {
			a.accepts(t, here.pointer, here.config(value))
		}
		full[name] = good[0]
		for _, value := range a.badValues(t, field, module) {
			message := a.refuses(t, here.pointer, here.pointer, encodeJSON(t, here.config(value)), false)
			if value == unknownValue || reflect.DeepEqual(value, []any{unknownValue}) {
				checkClosed(t, here.pointer, message, rule.closed)
			}
		}
		if inner := a.inner(field.Type); inner != nil {
			owner := module
			switch element(field.Type).Kind() {
			case reflect.Slice:
				full[name] = []any{a.try(t, here.first(), inner, owner, object{})}
			case reflect.Map:
				full[name] = object{"free": a.try(t, here.within("free", nil), inner, owner, object{})}
			default:
				if slices.Contains(slices.Collect(maps.Values(a.modules)), inner) {
					owner = inner
				}
				full[name] = a.try(t, here, inner, owner, object{})
			}
		}
	}
	return full
}

// unknownValue is tried where only some values are allowed.
const unknownValue = "nosuchvalue"

// message words that name no value.
var connecting = strings.Fields("it is must be one of or and there are a no json invalid")

// words of an error.
var words = regexp.MustCompile(`[a-z][a-z_-]*`)

// checkClosed reports values that Caddy's error about an unknown one names and the schema does not have, and the other
// way round: the schema's list must grow with that of the module.
func checkClosed(t *testing.T, where, message string, values []string) {
	t.Helper()
	_, named, ok := strings.Cut(message, unknownValue)
	if !ok {
		t.Errorf("%s: got the error %q, want one that names the value", where, message)
		return
	}
	got := words.FindAllString(named, -1)
	for _, value := range values {
		if !slices.Contains(got, value) {
			t.Errorf("%s: the schema has the value %q, which Caddy's error does not name: %s", where, value, message)
		}
	}
	for _, word := range got {
		if !slices.Contains(values, word) && !slices.Contains(connecting, word) {
			t.Errorf("%s: Caddy's error names the value %q, which the schema does not have: %s", where, word, message)
		}
	}
}

// inner returns the struct of this project that a field holds, in an array or a map, too; nil if it holds none.
func (a *schemaAgreement) inner(of reflect.Type) reflect.Type {
	of = element(of)
	if of == reflect.TypeFor[caddyhttp.RouteList]() {
		return nil
	}
	if kind := of.Kind(); kind == reflect.Slice || kind == reflect.Map {
		of = element(of.Elem())
	}
	if of.Kind() == reflect.Struct && strings.HasPrefix(of.PkgPath(), modulePath+"/") {
		return of
	}
	return nil
}

func jsonName(field ownedField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func decodeObject(t *testing.T, text string) object {
	t.Helper()
	if text == "" {
		return object{}
	}
	return decodeValue(t, text).(object)
}

func decodeValue(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// goodValues returns values that a field may have: those of its rule, otherwise those of its Go type.
func (a *schemaAgreement) goodValues(t *testing.T, field ownedField, module reflect.Type) (values []any) {
	t.Helper()
	rule := ruleOf(field, module)
	texts := slices.Clone(rule.good)
	for _, value := range rule.closed {
		text := strconv.Quote(value)
		if field.Type.Kind() == reflect.Slice {
			text = "[" + text + "]"
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		texts, _ = valuesOfType(t, field.Type)
	}
	for _, text := range texts {
		values = append(values, decodeValue(t, text))
	}
	return values
}

// badValues returns values that a field may not have.
func (a *schemaAgreement) badValues(t *testing.T, field ownedField, module reflect.Type) (values []any) {
	t.Helper()
	rule := ruleOf(field, module)
	texts := slices.Clone(rule.bad)
	switch {
	case rule.closed != nil && field.Type.Kind() == reflect.Slice:
		texts = append(texts, strconv.Quote(rule.closed[0]), `["`+unknownValue+`"]`, `[1]`)
	case rule.closed != nil:
		texts = append(texts, `"`+unknownValue+`"`, `1`, `["`+rule.closed[0]+`"]`)
	case len(texts) == 0:
		_, texts = valuesOfType(t, field.Type)
	}
	for _, text := range texts {
		values = append(values, decodeValue(t, text))
	}
	return values
}

// valuesOfType returns JSON that a Go type takes, and JSON that it does not take.
func valuesOfType(t *testing.T, of reflect.Type) (good, bad []string) {
	t.Helper()
	of = element(of)
	if rule, ok := schemaRules[of.String()]; ok && len(rule.good) > 0 {
		return rule.good, rule.bad
	}
	switch {
	case of == reflect.TypeFor[caddy.Duration]():
		return []string{`"10s"`, `10000000000`, `"1h30m"`, `"1.5d"`, `"0"`},
			[]string{`"10 seconds"`, `"ten"`, `"10"`, `"-1s"`, `-1`, `1.5`, `[]`, `true`}
	case of == reflect.TypeFor[caddyhttp.RouteList]():
		return []string{`[{"match":[{"path":["/a"]}],"handle":[{"handler":"static_response","status_code":403}],"terminal":true}]`},
			[]string{`{}`, `["static_response"]`, `[{"handle":[{}]}]`}
	}
	switch of.Kind() {
	case reflect.Bool:
		return []string{`true`, `false`}, []string{`"yes"`, `1`}
	case reflect.String:
		return []string{`"a"`, `""`}, []string{`1`, `["a"]`}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return []string{`1`, `0`}, []string{`-1`, `1.5`, `"1"`}
	case reflect.Struct:
		return []string{`{}`}, []string{`[]`, `"a"`}
	case reflect.Slice:
		_, bad := valuesOfType(t, of.Elem())
		for i := range bad {
			bad[i] = "[" + bad[i] + "]"
		}
		return []string{`[]`}, append(bad, `1`)
	}
	t.Fatalf("%s: give its field a rule in schemaRules", of)
	return nil, nil
}

// TestSchemaTakesWhatIsAdapted checks the schema with the JSON of each Caddyfile of the repository, valid ones, so that
// no editor marks what people copy.
func TestSchemaTakesWhatIsAdapted(t *testing.T) {
	t.Setenv("ACME_MODERATION_KEY", acmeKey)
	t.Setenv("MODERATION_TEST_KEY", acmeKey)
	t.Setenv("MODERATION_TEST_SHORT", "short")
	schema := compiledSchema(t)
	check := func(name, text string) {
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if broken := checkSchema(t, schema, config); broken != nil {
			t.Errorf("%s: the schema refuses it at %q, want it accepted", name, broken)
		}
	}
	seen := 0
	for _, pattern := range []string{
		"../examples/*.caddyfile", "../testdata/modules/*.caddyfile", "../packaging/*/Caddyfile",
		"../packaging/*/*/Caddyfile",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			check(file, string(text))
			seen++
		}
	}
	example, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	check("Caddyfile.example", string(example))
	deployment := switchedOn(string(example))
	if !strings.Contains(deployment, "api.example.com {") {
		t.Fatalf("Caddyfile.example: got no deployment in it:\n%s", deployment)
	}
	check("the deployment in Caddyfile.example", deployment)

	files, err := filepath.Glob("../testdata/caddyfile/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		input, want, _ := strings.Cut(string(golden), separator)
		// A configuration that is adapted, but cannot be provisioned, has its error in a third part.
		if strings.HasPrefix(want, "{") && !strings.Contains(want, separator) {
			check(file, input)
			seen++
		}
	}
	if seen < 45 {
		t.Errorf("got %d files, want all of them", seen)
	}
}

// switchedOn returns the part of Caddyfile.example whose lines begin with "#" and no space, without that "#".
func switchedOn(example string) string {
	_, commented, _ := strings.Cut(example, "\n# A real deployment\n")
	var on strings.Builder
	for line := range strings.Lines(commented) {
		if rest, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(rest, " ") {
			on.WriteString(rest)
		}
	}
	return on.String()
}
