package config

import (
	"strings"
	"testing"
)

// The line is that of the mistake, where the parser names none or another one.
func TestSyntaxError_NamesTheLine(t *testing.T) {
	long := strings.Repeat("# a comment\n", 500)
	for name, tt := range map[string]struct{ source, want string }{
		"colon in a value":    {"a: 1\nb: c: d\ne: 2\n", "line 2: mapping values are not allowed in this context (put a value with a colon into quotes"},
		"indented too little": {"http:\n  addr: x\n tls: y\nlog: z\n", "line 3: did not find expected key (correct the indentation"},
		"tab":                 {"http:\n  addr: x\n\ttls: y\nlog: z\n", "line 3: found a tab character that violates indentation (indent with spaces)"},
		"tab below a key":     {"http:\n\taddr: x\nlog: z\n", "line 2: found character that cannot start any token (a tab: indent with spaces)"},
		"at sign":             {"a: 1\nb: @c\nd: 2\n", "line 2: found character that cannot start any token"},
		"open quote":          {"a: 1\nb: \"open\nc: 2\nd: 3\n", "line 2: found unexpected end of stream"},
		"open list":           {"a: 1\nb: [x, y\nc: 2\nd: 3\n", "line 2: did not find expected ',' or ']'"},
		"missing comma":       {"a: 1\nb: {x: 1,\n  y: 2\n  z: 3}\nc: 2\n", "line 3: did not find expected ',' or '}', in what begins on line 2"},
		"unknown anchor":      {"a: 1\n\n# c\nb: *nope\nc: 2\n", "line 4: unknown anchor 'nope' referenced"},
		"control character":   {"a: 1\nb: x\x01y\nc: 2\n", "line 2: control characters are not allowed"},
		"first line":          {"a: 'it's'\nb: 1\n", "line 1: did not find expected key"},
		"no colon":            {"a: 1\nb\nc: 2\n", "line 2: could not find expected ':'"},
		"end of a long file":  {long + "a: 1\nb: c: d\n" + long, "line 502: mapping values"},
	} {
		for _, source := range []string{tt.source, strings.TrimSuffix(tt.source, "\n"), strings.ReplaceAll(tt.source, "\n", "\r\n")} {
			err := yamlProblem([]byte(source))
			if err == nil {
				t.Fatalf("%s can be read", name)
			}
			if got := syntaxError([]byte(source), err).Error(); !strings.HasPrefix(got, "not YAML: "+tt.want) {
				t.Errorf("%s: got %q, want %q", name, got, tt.want)
			}
		}
	}
}
