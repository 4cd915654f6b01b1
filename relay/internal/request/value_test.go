package request

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1.50,"a":"\u0041\u00e4\u20ac"}`: `{"b":1.50,"a":"Aä€"}`,
		`"\ud83d\uDE00 \udb40\udc01"`:         "\"😀 \U000e0001\"",
		`"\u200b\u2028"`:                      "\"\u200b\u2028\"",
		`"\u0022\u005c\u0000\u000a\n\/"`:      `"\u0022\u005c\u0000\u000a\n\/"`,
		`"\\u0041\\\u0041"`:                   `"\\u0041\\A"`,
		`"\ud83d\u0041\udc00"`:                `"\ud83dA\udc00"`,
		`"\ufffd"`:                            `"\ufffd"`,
		`\u00`:                                `\u00`,
		`\`:                                   `\`,
	} {
		if got := string(Unescape([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzUnescape(f *testing.F) {
	f.Add([]byte(`{"\u0041":["\ud83d\ude00\u0022"]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var before, after any
		if json.Unmarshal(in, &before) != nil {
			return
		}
		out := Unescape(in)
		if err := json.Unmarshal(out, &after); err != nil || !reflect.DeepEqual(before, after) || len(out) > len(in) {
			t.Errorf("%q became %q: %v", in, out, err)
		}
	})
}
