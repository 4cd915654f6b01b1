package request

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"slipway/relay/internal/refusal"
)

func TestEach(t *testing.T) {
	const multipart = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\n\r\nfile\r\n--x--\r\n"
	for _, tt := range []struct {
		contentType, body string
		want              map[string]string
		refused           refusal.Kind
	}{
		{"application/json", `{"a":"1","b":null,"c":"ü\n"}`, map[string]string{"a": "1", "b": "<nil>", "c": "ü\n"}, ""},
		{"", "\xef\xbb\xbf" + `{"a":"1"}`, map[string]string{"a": "1"}, ""},
		{"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1--x--\r\n", map[string]string{"a": "1"}, ""}, // Pushover's npm client
		{"multipart/form-data; boundary=x", "--x--", map[string]string{}, ""},
		{"application/json", "\xef\xbb\xbf" + `{"a":"1"}`, map[string]string{"a": "1"}, ""},
		{"application/x-www-form-urlencoded", ` {"a":"1"}`, map[string]string{"a": "1"}, ""}, // as curl calls it
		{"application/x-www-form-urlencoded", "a=1&c=%C3%BC", map[string]string{"a": "1", "c": "ü"}, ""},
		{"application/json; charset=latin1", "{\"a\":\"\xfc\"}", map[string]string{"a": "ü"}, ""},
		{"multipart/form-data; boundary=x", multipart, map[string]string{"a": "1", "f": "a file"}, ""},
		{"", "", map[string]string{}, ""},
		{"application/json", "", nil, refusal.KindInvalid},
		{"application/json", "[]", nil, refusal.KindInvalid},
		{"application/json", "null", nil, refusal.KindInvalid},
		{"application/json", `{"a":1} {}`, nil, refusal.KindInvalid},
		{"application/json", `{"a":` + strings.Repeat("[", 20_000), nil, refusal.KindTooLarge},
		{"application/json; charset=koi8-r", "{}", nil, refusal.KindMediaType},
		{"text/xml", "<a/>", nil, refusal.KindMediaType},
		{"application/x-www-form-urlencoded", "a=%zz", nil, refusal.KindInvalid},
		{"application/x-www-form-urlencoded", strings.Repeat("a=1&", maxFields+1), nil, refusal.KindInvalid},
	} {
		got := map[string]string{}
		err := Each(tt.contentType, []byte(tt.body), func(name string, v Value) error {
			if _, isFile := v.File(); isFile {
				got[name] = "a file"
				_, err := v.Text(name)
				if err == nil {
					t.Error("a file is read as text")
				}
				return nil
			}
			text, err := v.Text(name)
			if got[name] = "<nil>"; text != nil {
				got[name] = *text
			}
			return err
		})
		if refusal.KindOf(err) != tt.refused || err == nil && !maps.Equal(got, tt.want) {
			t.Errorf("%s %.40q: %v, %v, want %v, %q", tt.contentType, tt.body, got, err, tt.want, tt.refused)
		}
	}
}

// JSON that takes many times its size in memory is refused. Punctuation in a text is none of it.
func TestUnmarshal_ManyValues(t *testing.T) {
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":1,`, i)
		}
		return "{" + b.String() + `"a":{}}`
	}
	list := func(value string, n int) string { return `{"a":[` + strings.Repeat(value+",", n) + value + "]}" }
	for body, want := range map[string]error{
		fields(1000):                   nil,
		fields(10_000):                 errManyValues,
		list("0", 2200):                nil,
		list("0", 10_000):              errManyValues,
		list("{}", 100_000):            errManyValues,
		list(`{"name":"value"}`, 5000): errManyValues,
		list(`{"name":"1234567890123456789012"}`, 50_000): nil,
		list(`"`+strings.Repeat(`,[{:\"\\`, 3000)+`"`, 2): nil,
	} {
		var v any
		if err := Unmarshal([]byte(body), &v); !errors.Is(err, want) {
			t.Errorf("%.20s… of %d bytes: %v, want %v", body, len(body), err, want)
		}
		err := Each("application/json", []byte(body), func(string, Value) error { return nil })
		if !errors.Is(err, want) {
			t.Errorf("the fields of %.20s… of %d bytes: %v, want %v", body, len(body), err, want)
		}
	}
}

// A form may spell a truth in any way that programs do, JSON only in its own.
func TestBoolean(t *testing.T) {
	for raw, want := range map[string]string{"true": "yes", "True": "yes", "TRUE": "yes", "1": "yes", "t": "yes", "Yes": "yes", "on": "yes", "false": "no", "False": "no", "0": "no", "OFF": "no", "": "none", "2": "refused", "maybe": "refused"} {
		b, err := Value{raw: []byte(raw), form: true}.Boolean("b")
		got := "refused"
		switch {
		case err == nil && b == nil:
			got = "none"
		case err == nil && *b:
			got = "yes"
		case err == nil:
			got = "no"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", raw, got, want)
		}
	}
	for raw, refused := range map[string]bool{"true": false, "null": false, `"true"`: true, "1": true, "True": true} {
		if _, err := (Value{raw: []byte(raw)}).Boolean("b"); (err != nil) != refused {
			t.Errorf("JSON %s: %v", raw, err)
		}
	}
}

// What a template of YAML made of a text is text again.
func TestWords(t *testing.T) {
	for raw, want := range map[string]string{
		`"a\nb"`: "a\nb", `5`: "5", `1.50`: "1.50", `true`: "true", `{"Disk full":"95% used"}`: "Disk full: 95% used", `{"b":1,"a":[1,"x"]}`: "b: 1\na:\n  - 1\n  - x",
		`["a","b"]`: "- a\n- b", `{"a":{"b":{"c":{"d":{"e":1}}}}}`: "a:\n  b:\n    c:\n      d:\n        {\"e\":1}", `{}`: "", `[]`: "", `null`: "<nil>",
	} {
		text, err := Value{raw: []byte(raw)}.Words("w")
		got := "<nil>"
		if text != nil {
			got = *text
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", raw, got, err, want)
		}
	}
}

func TestInteger(t *testing.T) {
	for raw, want := range map[string]string{"5": "5", `"5"`: "5", `" 5 "`: "5", "5.0": "5", "5e0": "5", "-2": "-2", "null": "none", `""`: "none", `"x"`: "refused", "0.5": "refused", "1e300": "refused", "true": "refused", "[5]": "refused"} {
		n, err := Value{raw: []byte(raw)}.Integer("n")
		got := "refused"
		switch {
		case err == nil && n == nil:
			got = "none"
		case err == nil:
			got = strconv.Itoa(*n)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
