package pattern

import (
	"regexp"
	"testing"
)

func TestGlobHint(t *testing.T) {
	for expression, want := range map[string]string{
		"v*":       "v* matches v, vv, …, not v1; write v.*",
		"pr-*":     "pr-* matches pr-, pr--, …, not pr-1; write pr-.*",
		"v1*":      "v1* matches v1, v11, …, not v12; write v1.*",
		"v*-rc*":   "v*-rc*: a * repeats the character before it and does not stand for others; write v.*-rc.*",
		`v1\.*`:    `v1\.*: a * repeats the character before it and does not stand for others; write v1\..*`,
		"v1|pr-*":  "v1|pr-*: a * repeats the character before it and does not stand for others; write v1|pr-.*",
		"v.*":      "",
		".*":       "",
		`v\d*`:     "",
		"v[0-9*]*": "",
		"(v1)*":    "",
		"v[ab*]":   "",
		"latest":   "",
		`v\*`:      "",
	} {
		if got := GlobHint(expression); got != want {
			t.Errorf("%s: got %q, want %q", expression, got, want)
		}
		if _, err := regexp.Compile(expression); err != nil {
			t.Errorf("%s is no expression: %v", expression, err)
		}
	}
}
