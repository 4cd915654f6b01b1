package config

import (
	"encoding/json"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// JSONSchema writes a JSON Schema (draft 7) of the configuration that target points to, indented,
// for editors and charts. It knows every key and the form of each value; rules about several keys
// are left to the service. Values may be quoted, and may hold a ${VARIABLE}.
func JSONSchema(w io.Writer, target any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(schemaOf(reflect.ValueOf(target).Elem().Type()).jsonSchema())
}

func (f *field) jsonSchema() map[string]any {
	switch f.kind {
	case section:
		properties := map[string]any{}
		types := []string{"object", "null"}
		for _, c := range f.children {
			for _, name := range c.names {
				properties[name] = c.jsonSchema()
			}
			if c.optional && len(types) == 2 { // its name can stand for the section
				types = append(types, "string")
			}
		}
		return map[string]any{"type": types, "properties": properties, "additionalProperties": false}
	case list:
		return map[string]any{"type": []string{"array", "null"}, "items": f.elem.jsonSchema()}
	case dict:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": f.elem.jsonSchema()}
	case dead:
		return map[string]any{}
	case refused:
		return map[string]any{"enum": []any{nil, false, "", map[string]any{}, []any{}}}
	case secretFile:
		return map[string]any{"type": []string{"string", "null"}}
	}
	return f.leafSchema()
}

// leafSchema describes a single value, in the forms that read takes.
func (f *field) leafSchema() map[string]any {
	const variable = `|\$\{`
	form := func(typ, pattern string) map[string]any {
		return map[string]any{"anyOf": []any{map[string]any{"type": []string{typ, "null"}}, map[string]any{"type": "string", "pattern": pattern + variable}}}
	}
	if choices := words(f.tag, "choices"); choices != nil {
		values := []any{nil, ""}
		for _, choice := range choices {
			var plain any // as YAML reads it unquoted: 0.1, true
			_ = yaml.Unmarshal([]byte(choice), &plain)
			if values = append(values, choice); plain != choice {
				values = append(values, plain)
			}
		}
		return map[string]any{"anyOf": []any{map[string]any{"enum": values}, map[string]any{"type": "string", "pattern": variable[1:]}}}
	}
	switch {
	case f.typ.Kind() == reflect.Interface:
		return map[string]any{}
	case f.typ == durationType:
		return map[string]any{"anyOf": []any{
			map[string]any{"enum": []any{0, nil}},
			map[string]any{"type": "string", "pattern": `^[+-]?([0-9.]+(ns|us|µs|μs|ms|s|m|h))+$|^[0-9]+d([0-9.]+(ns|us|µs|μs|ms|s|m|h))*$|^[+-]?0$` + variable},
		}}
	case f.typ == sizeType:
		return form("integer", `^[0-9]+ *(([KMGT]i|[kKMGT])?B)?$`)
	case f.typ.Kind() == reflect.Bool:
		return form("boolean", `^(true|false|True|False|TRUE|FALSE)$`)
	case f.typ.Kind() == reflect.Int, f.typ.Kind() == reflect.Int64:
		return form("integer", `^[+-]?[0-9][0-9a-fA-FxXoO_]*$`)
	}
	return map[string]any{"type": []string{"string", "number", "boolean", "null"}}
}
