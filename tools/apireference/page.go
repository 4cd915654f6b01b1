package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// reference returns the page about an OpenAPI document.
func reference(source []byte) (string, error) {
	d, err := parse(source)
	if err != nil {
		return "", err
	}
	p := &page{document: d, service: strings.ToLower(d.Info.Title)}
	p.printf("<!-- Made by `make docs` from %s/openapi/openapi.yml. -->\n\n# HTTP API of the %s\n\n%s\n", p.service, p.service, strings.TrimSpace(d.Info.Description))
	p.printf("\nBold fields are required in requests and always present in answers.\n")
	p.schemes()
	p.failures()
	for _, tag := range d.Tags {
		p.printf("\n## %s\n", tag.Description)
		for _, key := range d.Paths.keys {
			at := d.Paths.values[key]
			for _, method := range at.operations.keys {
				if o := at.operations.values[method]; slices.Contains(o.Tags, tag.Name) {
					p.operation(method, key, slices.Concat(at.parameters, o.Parameters), o)
				}
			}
		}
	}
	p.objects()
	return p.text.String(), nil
}

// page is a reference that is being written.
type page struct {
	*document
	service string
	text    strings.Builder
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

func (p *page) schemes() {
	p.printf("\n## Log in\n\n| | how | |\n|---|---|---|\n")
	for _, name := range p.Components.SecuritySchemes.keys {
		s := p.Components.SecuritySchemes.values[name]
		how := "`" + s.Name + "`, in the " + s.In
		switch s.Scheme {
		case "bearer":
			how = "`Authorization: Bearer TOKEN`"
		case "basic":
			how = "HTTP Basic"
		}
		p.printf("| %s | %s | %s |\n", name, how, cell(s.Description))
	}
}

func (p *page) operation(method, key string, parameters []parameter, o *operation) {
	p.printf("\n### %s %s\n\n%s.", method, key, strings.TrimSuffix(o.Summary, "."))
	if text := strings.TrimSpace(o.Description); text != "" {
		p.printf(" %s", text)
	}
	p.printf("\n\nLog in with: %s.\n\n", p.logins(o))
	p.example(method, key, parameters, o)
	if len(parameters) > 0 {
		p.printf("\n| parameter | in | value | |\n|---|---|---|---|\n")
		for _, q := range parameters {
			name := "`" + q.Name + "`"
			if q.Required {
				name = "**" + name + "**"
			}
			p.printf("| %s | %s | %s | %s |\n", name, q.In, p.kind(q.Schema), p.about(q.Schema, q.Description))
		}
	}
	if o.RequestBody != nil {
		p.body("Body", o.RequestBody.Content)
	}
	p.answers(o)
}

// logins returns the names of what authenticates an operation.
func (p *page) logins(o *operation) string {
	var names []string
	for _, way := range p.security(o) {
		if len(way) == 0 {
			names = append(names, "nothing")
		}
		for name := range way {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "nothing"
	}
	return either(names)
}

func (p *page) security(o *operation) []map[string][]string {
	if o.Security == nil {
		return p.Security
	}
	return o.Security
}

func either(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return words[0]
}

// body describes a content; types that have the same fields are named together.
func (p *page) body(what string, content ordered[media]) {
	for _, group := range p.groups(content) {
		p.printf("\n%s, %s: %s\n", what, either(group.types), p.content(group.schema))
		p.fieldsOf(group.schema)
	}
}

type group struct {
	types  []string
	schema *schema
}

func (p *page) groups(content ordered[media]) (all []group) {
	same := map[string]int{}
	for _, kind := range content.keys {
		s := content.values[kind].Schema
		key := p.content(s)
		if i, ok := same[key]; ok && (s == nil || s.Properties.keys == nil) {
			all[i].types = append(all[i].types, "`"+kind+"`")
			continue
		}
		same[key] = len(all)
		all = append(all, group{[]string{"`" + kind + "`"}, s})
	}
	return all
}

// content describes a body in a few words.
func (p *page) content(s *schema) string {
	if s == nil {
		return "not described here."
	}
	text := p.kind(*s)
	if s.Ref == "" && len(s.Properties.keys) > 0 {
		return text + ":"
	}
	if s.Description != "" && s.Ref == "" {
		text += ". " + s.Description
	}
	return strings.TrimSuffix(text, ".") + "."
}

// fieldsOf prints the fields of a schema that has no name.
func (p *page) fieldsOf(s *schema) {
	if s != nil && s.Ref == "" && len(s.Properties.keys) > 0 {
		p.printf("\n")
		p.fields(*s)
	}
}

func (p *page) fields(s schema) {
	p.printf("| field | value | |\n|---|---|---|\n")
	p.rows("", s)
}

func (p *page) rows(prefix string, s schema) {
	s = p.merged(s)
	for _, key := range s.Properties.keys {
		f := s.Properties.values[key]
		name := "`" + prefix + key + "`"
		if slices.Contains(s.Required, key) {
			name = "**" + name + "**"
		}
		p.printf("| %s | %s | %s |\n", name, p.kind(f), p.about(f, f.Description))
		switch {
		case f.Ref == "" && len(f.Properties.keys) > 0:
			p.rows(prefix+key+".", f)
		case f.Items != nil && f.Items.Ref == "" && len(f.Items.Properties.keys) > 0:
			p.rows(prefix+key+"[].", *f.Items)
		}
	}
}

// kind describes the values of a schema.
func (p *page) kind(s schema) string {
	target, name := p.resolve(s)
	if name != "" && p.isObject(target) {
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	s = target
	var kinds []string
	for _, one := range s.OneOf {
		kinds = append(kinds, p.kind(one))
	}
	if len(s.Enum) > 0 {
		kinds = append(kinds, values(s.Enum))
	}
	for _, t := range s.Type {
		switch {
		case t == "null":
			kinds = append(kinds, "null")
		case len(s.Enum) > 0:
		case t == "array" && s.Items != nil:
			kinds = append(kinds, "list of "+p.kind(*s.Items))
		case t == "string" && s.Format == "date-time":
			kinds = append(kinds, "time (RFC 3339)")
		case t == "string" && s.Format == "binary":
			kinds = append(kinds, "file")
		case t == "string":
			kinds = append(kinds, "text")
		case t == "boolean":
			kinds = append(kinds, "`true` or `false`")
		case t == "object" && s.AdditionalProperties != nil:
			kinds = append(kinds, "object of "+p.kind(*s.AdditionalProperties))
		default:
			kinds = append(kinds, t)
		}
	}
	if len(kinds) == 0 {
		return "anything"
	}
	return either(kinds) + limits(s)
}

func values(of []any) string {
	var all []string
	for _, v := range of {
		all = append(all, "`"+fmt.Sprint(v)+"`")
		if v == "" {
			all[len(all)-1] = "empty"
		}
	}
	return either(all)
}

func limits(s schema) string {
	var all []string
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		all = append(all, strconv.Itoa(*s.Minimum)+" to "+strconv.Itoa(*s.Maximum))
	case s.Minimum != nil:
		all = append(all, strconv.Itoa(*s.Minimum)+" or more")
	case s.Maximum != nil:
		all = append(all, strconv.Itoa(*s.Maximum)+" at most")
	}
	if s.MaxLength > 0 {
		all = append(all, strconv.Itoa(s.MaxLength)+" characters at most")
	}
	if s.MaxItems > 0 {
		all = append(all, strconv.Itoa(s.MaxItems)+" entries at most")
	}
	if s.Default != nil {
		all = append(all, "default "+fmt.Sprint(s.Default))
	}
	if len(all) == 0 {
		return ""
	}
	return ", " + strings.Join(all, ", ")
}

// about returns a description for a cell of a table, or that of the values if there is none.
func (p *page) about(s schema, description string) string {
	if target, name := p.resolve(s); description == "" && name != "" && !p.isObject(target) {
		description = target.Description
	}
	if s.Deprecated {
		description = strings.TrimSpace("Deprecated. " + description)
	}
	return cell(description)
}

// isObject reports whether a named schema has a section of its own.
func (p *page) isObject(s schema) bool {
	return len(s.Properties.keys) > 0 || len(s.AllOf) > 0 || len(s.OneOf) > 0 || len(s.Enum) > 0 || s.AdditionalProperties != nil
}

func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// failures prints the answers that operations share.
func (p *page) failures() {
	p.printf("\n## Failures\n")
	for _, name := range p.Components.Responses.keys {
		p.printf("\n%s", p.answer(p.Components.Responses.values[name]))
		p.printf("\n")
	}
}

// answers prints what succeeds in full, and the statuses of what fails in a line.
func (p *page) answers(o *operation) {
	var failures []string
	for _, status := range o.Responses.keys {
		r := o.Responses.values[status]
		if r.Ref != "" {
			failures = append(failures, strings.Replace(status, "default", "others", 1))
			continue
		}
		p.printf("\n**%s**: %s\n", status, p.answer(r))
		for _, g := range p.groups(r.Content) {
			p.fieldsOf(g.schema)
		}
	}
	if len(failures) > 0 {
		p.printf("\n[Failures](#failures): %s.\n", strings.Join(failures, ", "))
	}
}

// answer describes an answer with its headers and body.
func (p *page) answer(r response) string {
	text := strings.TrimSuffix(r.Description, ".") + "."
	for _, name := range r.Headers.keys {
		text += " Header `" + name + "`"
		if about := cell(r.Headers.values[name].Description); about != "" {
			text += ": " + strings.TrimSuffix(about, ".")
		}
		text += "."
	}
	for _, g := range p.groups(r.Content) {
		types := either(g.types)
		if types == "`application/json`" {
			types = "Body"
		}
		if g.schema == nil {
			text += " As " + types + "."
		} else {
			text += " " + types + ": " + p.content(g.schema)
		}
	}
	return text
}

func (p *page) objects() {
	p.printf("\n## Objects\n")
	names := slices.Sorted(slices.Values(p.Components.Schemas.keys))
	for _, name := range names {
		s := p.Components.Schemas.values[name]
		if !p.isObject(s) {
			continue
		}
		p.printf("\n### %s\n\n", name)
		if s.Description != "" {
			p.printf("%s\n\n", strings.TrimSpace(s.Description))
		}
		if all := p.merged(s); len(all.Properties.keys) > 0 {
			p.fields(all)
		} else {
			p.printf("%s.\n", p.kind(s))
		}
	}
}

// example prints a command that makes the request.
func (p *page) example(method, key string, parameters []parameter, o *operation) {
	query := ""
	for _, q := range parameters {
		switch {
		case q.In == "path":
			value := strings.ToUpper(q.Name)
			if target, _ := p.resolve(q.Schema); slices.Contains(target.Type, "integer") {
				value = "1"
			}
			key = strings.ReplaceAll(key, "{"+q.Name+"}", value)
		case q.In == "query" && q.Required:
			query += "&" + q.Name + "=" + strings.ToUpper(q.Name)
		}
	}
	if query != "" {
		key += "?" + query[1:]
	}
	words := []string{"curl"}
	if method != "GET" {
		words = append(words, "-X "+method)
	}
	body, isJSON := p.exampleBody(o)
	if !strings.Contains(body, `"token":`) {
		words = append(words, p.login(o)...)
	}
	if isJSON {
		words = append(words, "-H 'Content-Type: application/json'", "-d '"+strings.ReplaceAll(body, "'", `'\''`)+"'")
	} else if body != "" {
		words = append(words, body)
	}
	url := "https://" + p.service + ".example.org" + key
	if strings.Contains(url, "?") {
		url = "'" + url + "'"
	}
	p.printf("```sh\n%s %s\n```\n", strings.Join(words, " "), url)
}

// login returns the flags that authenticate the request of an example.
func (p *page) login(o *operation) []string {
	ways := p.security(o)
	if len(ways) == 0 {
		return nil
	}
	for name := range ways[0] {
		switch s := p.Components.SecuritySchemes.values[name]; s.Scheme {
		case "basic":
			return []string{"-u NAME:PASSWORD"}
		case "bearer":
			return []string{"-H 'Authorization: Bearer TOKEN'"}
		}
	}
	return nil
}

// exampleBody returns the JSON of the first example, or of the required fields, or the flags that send a file.
func (p *page) exampleBody(o *operation) (body string, isJSON bool) {
	if o.RequestBody == nil || len(o.RequestBody.Content.keys) == 0 {
		return "", false
	}
	content := o.RequestBody.Content
	kind := content.keys[0]
	if slices.Contains(content.keys, "application/json") {
		kind = "application/json"
	}
	m := content.values[kind]
	if !strings.HasSuffix(kind, "json") {
		return "-H 'Content-Type: " + kind + "' --data-binary @FILE", false
	}
	var value any
	if len(m.Examples.keys) > 0 {
		value = m.Examples.values[m.Examples.keys[0]].Value
	} else if m.Schema != nil {
		value = p.sample(*m.Schema, "TEXT")
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", false
	}
	return string(text), true
}

// sample returns a value of a schema: of an object the required fields, or the first one if none is.
func (p *page) sample(s schema, text string) any {
	s = p.merged(s)
	switch {
	case len(s.OneOf) > 0:
		return p.sample(s.OneOf[0], text)
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.Properties.keys) > 0:
		object := map[string]any{}
		for i, key := range s.Properties.keys {
			if slices.Contains(s.Required, key) || len(s.Required) == 0 && i == 0 {
				object[key] = p.sample(s.Properties.values[key], strings.ToUpper(key))
			}
		}
		return object
	case s.Items != nil:
		return []any{p.sample(*s.Items, text)}
	case slices.Contains(s.Type, "integer"):
		return 1
	case slices.Contains(s.Type, "boolean"):
		return true
	case slices.Contains(s.Type, "object"):
		return map[string]any{}
	}
	return text
}
