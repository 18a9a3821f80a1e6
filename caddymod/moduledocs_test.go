// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// moduleDocs writes the page that documents the Caddy modules, out of their types and doc comments.
type moduleDocs struct {
	t        *testing.T
	modules  map[string]reflect.Type
	examples map[string]moduleExample
	sources  map[string]source // by import path
	out      bytes.Buffer
}

// source has the doc comments of a package's types, by their names.
type source map[string]*typeDoc

// typeDoc has the doc comments of a type.
type typeDoc struct {
	text   string
	fields map[string]string // by Go name
	syntax string            // the comment of UnmarshalCaddyfile
}

// docsWidth is where prose in the page is wrapped.
const docsWidth = 120

func newModuleDocs(t *testing.T, modules map[string]reflect.Type) *moduleDocs {
	return &moduleDocs{
		t: t, modules: modules, examples: map[string]moduleExample{}, sources: map[string]source{},
	}
}

// docOf returns the doc comments of a type of this project.
func (d *moduleDocs) docOf(of reflect.Type) *typeDoc {
	d.t.Helper()
	parsed, ok := d.sources[of.PkgPath()]
	if !ok {
		dir := filepath.Join("..", filepath.FromSlash(strings.TrimPrefix(of.PkgPath(), modulePath+"/")))
		parsed = parseSource(d.t, dir)
		d.sources[of.PkgPath()] = parsed
	}
	found := parsed[of.Name()]
	if found == nil {
		d.t.Fatalf("%s is not in the sources of its package", of)
	}
	return found
}

// parseSource parses the doc comments of a folder's types.
func parseSource(t *testing.T, dir string) source {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	types := source{}
	methods := map[string]string{} // comments of UnmarshalCaddyfile, by type
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			switch declaration := declaration.(type) {
			case *ast.FuncDecl:
				if declaration.Name.Name == "UnmarshalCaddyfile" && declaration.Recv != nil {
					methods[receiver(declaration)] = declaration.Doc.Text()
				}
			case *ast.GenDecl:
				for _, spec := range declaration.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						types[spec.Name.Name] = parseType(declaration, spec)
					}
				}
			}
		}
	}
	for name, text := range methods {
		if types[name] != nil {
			types[name].syntax = text
		}
	}
	return types
}

// receiver returns the name of the type that a method belongs to.
func receiver(method *ast.FuncDecl) string {
	of := method.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// parseType returns the doc comments of a type.
func parseType(declaration *ast.GenDecl, spec *ast.TypeSpec) *typeDoc {
	text := spec.Doc.Text()
	if text == "" {
		text = declaration.Doc.Text()
	}
	parsed := &typeDoc{text: text, fields: map[string]string{}}
	if structure, ok := spec.Type.(*ast.StructType); ok {
		for _, field := range structure.Fields.List {
			for _, name := range field.Names {
				parsed.fields[name.Name] = field.Doc.Text()
			}
		}
	}
	return parsed
}

// write returns the page.
func (d *moduleDocs) write() []byte {
	d.out.WriteString(`<!-- SPDX-FileCopyrightText: 2026 The caddy-moderation authors -->
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Generated from the doc comments of the modules. Write it anew with: go test ./caddymod -run TestModulesPage -update -->

# The Caddy modules

`)
	d.wrap("", `What each Caddy module of this project does, and how it is configured in the Caddyfile and in JSON. Options
that are not given have their defaults. In the syntax of a Caddyfile, replace what stands in angle brackets; what stands in
square brackets may be left out, and three dots mean that more of the same may follow.`)
	d.out.WriteString("\n| Module | Caddyfile |\n| --- | --- |\n")
	ids := slices.SortedFunc(maps.Keys(d.modules), func(a, b string) int {
		if order := moduleOrder(a) - moduleOrder(b); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	for _, id := range ids {
		directive := "-"
		if _, syntax := d.describe(id); syntax != "" {
			directive = "`" + strings.TrimSuffix(strings.Fields(syntax)[0], "{") + "`"
		}
		fmt.Fprintf(&d.out, "| [%s](#%s) | %s |\n", id, strings.ReplaceAll(id, ".", ""), directive)
	}
	for _, id := range ids {
		d.writeModule(id)
	}
	return d.out.Bytes()
}

// moduleOrder puts the app first, then its guests, and then what people put into their sites.
func moduleOrder(id string) int {
	for i, namespace := range []string{"", "moderation.", "http.handlers.moderate", "http.matchers.", "http."} {
		if namespace == "" && id == "moderation" || namespace != "" && strings.HasPrefix(id, namespace) {
			return i
		}
	}
	return 99
}

// writeModule writes what there is to say about a module.
func (d *moduleDocs) writeModule(id string) {
	module := d.modules[id]
	description, syntax := d.describe(id)
	fmt.Fprintf(&d.out, "\n## %s\n", id)
	if len(description) == 0 {
		d.t.Errorf("%s (%s) has no doc comment", id, module)
	}
	d.writeBlocks("", description)
	example := d.examples[id]
	_, unmarshals := reflect.New(module).Interface().(caddyfile.Unmarshaler)
	if unmarshals && syntax == "" {
		d.t.Errorf("%s (%s) has no block behind \"Syntax:\" in its doc comment", id, module)
	}
	if syntax != "" {
		d.checkSyntax(id, module, syntax)
		fmt.Fprintf(&d.out, "\n### Caddyfile\n\n```text\n%s```\n", syntax)
	}
	before := d.out.Len()
	d.writeFields("", module)
	fields := bytes.Clone(d.out.Bytes()[before:])
	d.out.Truncate(before)
	if len(fields) > 0 {
		fmt.Fprintf(&d.out, "\n### JSON\n\n%s", fields)
	} else {
		d.out.WriteString("\nIt has no options in JSON.\n")
	}
	if example.json == "" {
		if unmarshals || len(fields) > 0 {
			d.t.Errorf("%s has no example: write %s/%s.caddyfile", id, moduleExamples, id)
		}
		return
	}
	d.out.WriteString("\n### Example\n")
	if example.caddyfile != "" {
		fmt.Fprintf(&d.out, "\n```caddyfile\n%s```\n\nThe same in JSON:\n", example.caddyfile)
	}
	fmt.Fprintf(&d.out, "\n```json\n%s```\n", strings.ReplaceAll(example.json, "\t", "  "))
}

// checkSyntax reports the options that a module parses but its syntax does not show. The module names them in the error
// about an option that it does not know.
func (d *moduleDocs) checkSyntax(id string, module reflect.Type, syntax string) {
	d.t.Helper()
	parsed, ok := reflect.New(module).Interface().(caddyfile.Unmarshaler)
	if !ok {
		return
	}
	directive, _, _ := strings.Cut(syntax, " ")
	err := parsed.UnmarshalCaddyfile(caddyfile.NewTestDispenser(directive + " {\n\tno_such_option\n}"))
	_, options, ok := strings.Cut(fmt.Sprint(err), "the options are ")
	if !ok {
		return // it has none
	}
	options, _, _ = strings.Cut(options, ", at ")
	shown := map[string]bool{}
	for line := range strings.Lines(syntax) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, name := range strings.Split(first, "|") {
			shown[name] = true
		}
	}
	for _, name := range strings.Split(options, ", ") {
		if !shown[name] {
			d.t.Errorf("the syntax of %s: got no option %q, want every option that UnmarshalCaddyfile parses", id, name)
		}
	}
}

// describe returns the description of a module, and the syntax of its Caddyfile, which stands in a block of its type's
// comment or in that of UnmarshalCaddyfile.
func (d *moduleDocs) describe(id string) (description []comment.Block, syntax string) {
	of := d.docOf(d.modules[id])
	description, syntax = cutSyntax(parseComment(of.text))
	if syntax == "" {
		_, syntax = cutSyntax(parseComment(of.syntax))
	}
	return description, syntax
}

// parseComment parses a doc comment.
func parseComment(text string) []comment.Block {
	parser := comment.Parser{
		LookupPackage: func(name string) (string, bool) { return name, true },
		LookupSym:     func(string, string) bool { return true },
	}
	return parser.Parse(text).Content
}

// cutSyntax takes the block behind "Syntax:" out of a comment.
func cutSyntax(blocks []comment.Block) (rest []comment.Block, syntax string) {
	for i, block := range blocks {
		code, isCode := block.(*comment.Code)
		if !isCode || i == 0 || syntax != "" {
			rest = append(rest, block)
			continue
		}
		before, isParagraph := blocks[i-1].(*comment.Paragraph)
		if !isParagraph {
			rest = append(rest, block)
			continue
		}
		text, found := strings.CutSuffix(strings.TrimSpace(plainText(before.Text)), "Syntax:")
		if !found {
			rest = append(rest, block)
			continue
		}
		syntax = strings.ReplaceAll(code.Text, "\t", "    ")
		rest = rest[:len(rest)-1]
		if text = strings.TrimSpace(text); text != "" {
			rest = append(rest, &comment.Paragraph{Text: []comment.Text{comment.Plain(text)}})
		}
	}
	return rest, syntax
}

// writeFields writes the JSON fields of a struct as a list, those of embedded structs like its own.
func (d *moduleDocs) writeFields(indent string, of reflect.Type) {
	comments := d.docOf(of)
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "" && element(field.Type).Kind() == reflect.Struct:
			d.writeFields(indent, element(field.Type))
			continue
		case !field.IsExported() || name == "-":
			continue
		}
		text := strings.TrimSpace(comments.fields[field.Name])
		if text == "" {
			d.t.Errorf("the field %s of %s has no comment", field.Name, of)
		}
		if rest, ok := strings.CutPrefix(text, field.Name+" "); ok && unicode.IsLower([]rune(rest)[0]) {
			d.t.Errorf("the field %s of %s: got a comment that begins with its Go name, want the style of Caddy's site", field.Name, of)
		}
		text, properties := cutDefault(text)
		kind, inner := d.typeName(field)
		blocks := parseComment(text)
		head := "**`" + name + "`** (" + strings.Join(append([]string{kind}, properties...), "; ") + ")"
		if len(blocks) > 0 {
			if first, ok := blocks[0].(*comment.Paragraph); ok {
				head += ": " + markdown(first.Text)
				blocks = blocks[1:]
			}
		}
		d.wrap(indent+"- ", head)
		d.writeBlocks(indent+"  ", blocks)
		if inner != nil {
			d.writeFields(indent+"  ", inner)
		}
	}
}

// What the last sentences of a field's comment say.
var (
	defaultSentence  = regexp.MustCompile(`(?s)(?:^|\s)Default:?\s(.*?)\.(\s|$)`)
	requiredSentence = regexp.MustCompile(`(?:^|\s)Required\.(\s|$)`)
)

// cutDefault takes the sentence about the default out of a comment, and whether the field is required.
func cutDefault(text string) (rest string, properties []string) {
	if found := requiredSentence.FindStringSubmatchIndex(text); found != nil {
		properties = append(properties, "required")
		text = text[:found[0]] + text[found[2]:]
	}
	if found := defaultSentence.FindStringSubmatchIndex(text); found != nil {
		value := strings.Join(strings.Fields(text[found[2]:found[3]]), " ")
		properties = append(properties, "default: "+markdown([]comment.Text{comment.Plain(value)}))
		text = text[:found[0]] + text[found[4]:]
	}
	return strings.TrimSpace(text), properties
}

// typeName returns what a field holds, in words, and the struct whose fields are to be listed below it.
func (d *moduleDocs) typeName(field reflect.StructField) (name string, inner reflect.Type) {
	if options := field.Tag.Get("caddy"); options != "" {
		namespace, _, _ := strings.Cut(strings.TrimPrefix(options, "namespace="), " ")
		return "a module of `" + namespace + "`", nil
	}
	return d.nameOf(field.Type)
}

func (d *moduleDocs) nameOf(of reflect.Type) (name string, inner reflect.Type) {
	switch {
	case of == reflect.TypeFor[caddy.Duration]():
		return "duration", nil
	case of == reflect.TypeFor[caddyhttp.RouteList]():
		return "[routes](https://caddyserver.com/docs/json/apps/http/servers/routes/)", nil
	case of.Kind() == reflect.Pointer:
		return d.nameOf(of.Elem())
	case of.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string", nil
	case of.Implements(reflect.TypeFor[json.Marshaler]()):
		return "JSON", nil
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array:
		name, inner = d.nameOf(of.Elem())
		return "array of " + plural(name), inner
	case reflect.Map:
		name, inner = d.nameOf(of.Elem())
		return "object of " + plural(name), inner
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return "integer", nil
	case reflect.Float32, reflect.Float64:
		return "number", nil
	case reflect.Struct:
		for id, module := range d.modules {
			if module == of {
				return "the options of [" + id + "](#" + strings.ReplaceAll(id, ".", "") + ")", nil
			}
		}
		if strings.HasPrefix(of.PkgPath(), modulePath+"/") {
			return "object", of
		}
	}
	return of.String(), nil
}

// plural returns the plural of the name of a type.
func plural(name string) string {
	if of, ok := strings.CutPrefix(name, "array of "); ok {
		return "arrays of " + of
	}
	return name + "s"
}

// element returns what a pointer points to, and any other type as it is.
func element(of reflect.Type) reflect.Type {
	if of.Kind() == reflect.Pointer {
		return of.Elem()
	}
	return of
}

// writeBlocks writes the blocks of a comment, each after an empty line.
func (d *moduleDocs) writeBlocks(indent string, blocks []comment.Block) {
	for _, block := range blocks {
		d.out.WriteByte('\n')
		switch block := block.(type) {
		case *comment.Paragraph:
			d.wrap(indent, markdown(block.Text))
		case *comment.Heading:
			d.wrap(indent, "**"+markdown(block.Text)+"**")
		case *comment.Code:
			text := strings.ReplaceAll(strings.TrimSuffix(block.Text, "\n"), "\t", "    ")
			text = indent + strings.ReplaceAll(text, "\n", "\n"+indent)
			fmt.Fprintf(&d.out, "%s```text\n%s\n%s```\n", indent, text, indent)
		case *comment.List:
			for _, item := range block.Items {
				for _, content := range item.Content {
					if paragraph, ok := content.(*comment.Paragraph); ok {
						d.wrap(indent+"- ", markdown(paragraph.Text))
					}
				}
			}
		}
	}
}

// wrap writes a paragraph in lines; those after the first are indented like the text of the first.
func (d *moduleDocs) wrap(prefix, text string) {
	line, indent := prefix, strings.Repeat(" ", len(prefix))
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > docsWidth {
			d.out.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	d.out.WriteString(line + "\n")
}

// plainText returns the text of a comment without its links.
func plainText(parts []comment.Text) string {
	var text strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case comment.Plain:
			text.WriteString(string(part))
		case comment.Italic:
			text.WriteString(string(part))
		case *comment.DocLink:
			text.WriteString(plainText(part.Text))
		case *comment.Link:
			text.WriteString(plainText(part.Text))
		}
	}
	return text.String()
}

// codeWord is a word that is code: a placeholder, or a name with an underscore.
var codeWord = regexp.MustCompile(`\{[a-z][^{}\s]*\}|[A-Za-z0-9.]*_[A-Za-z0-9_.]*[A-Za-z0-9_]\*?`)

// markdown returns the text of a comment as Markdown: code as code, and nothing that means something else in Markdown.
func markdown(parts []comment.Text) string {
	text := strings.Join(strings.Fields(plainText(parts)), " ")
	escape := strings.NewReplacer("<", `\<`, "*", `\*`, "`", "\\`")
	var out strings.Builder
	end := 0
	for _, at := range codeWord.FindAllStringIndex(text, -1) {
		out.WriteString(escape.Replace(text[end:at[0]]) + "`" + text[at[0]:at[1]] + "`")
		end = at[1]
	}
	out.WriteString(escape.Replace(text[end:]))
	return out.String()
}
