package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestJSONSchema(t *testing.T) {
	s := defaults()
	var out strings.Builder
	if err := JSONSchema(&out, &s); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	at := func(path ...string) any {
		value := got
		for _, key := range path {
			value, _ = value.(map[string]any)[key]
		}
		return value
	}
	every := at("properties", "checks", "items", "properties", "every", "anyOf")
	for _, tt := range []struct {
		what      string
		got, want any
	}{
		{"an unknown key", at("additionalProperties"), false},
		{"the values of log.level", at("properties", "log", "properties", "level", "anyOf").([]any)[0], map[string]any{"enum": []any{nil, "", "debug", "info"}}},
		{"a duration without a unit", every.([]any)[0], map[string]any{"enum": []any{0.0, nil}}},
		{"a refused section", at("properties", "storage", "properties", "swift", "enum"), []any{nil, false, "", map[string]any{}, []any{}}},
		{"a section that its name can stand for", at("properties", "auth", "type"), []any{"object", "null", "string"}},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
}
