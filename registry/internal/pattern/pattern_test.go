package pattern

import (
	"testing"

	"slipway/registry/internal/oci"
)

func TestNames(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"app", "app", true},
		{"app", "app/x", false},
		{"app", "my-app", false},
		{"team/*", "team/app", true},
		{"team/*", "team/app/x", false},
		{"team/*", "team", false},
		{"team/**", "team/app/x", true},
		{"team/**", "teams/app", false},
		{"**", "a/b/c", true},
		{"*", "a/b", false},
		{"ci-*/**", "ci-7/a/b", true},
		{"a.b", "axb", false},
	}
	for _, tt := range tests {
		n, err := ParseNames([]string{"other", tt.pattern})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Match(oci.Name(tt.name)); got != tt.want {
			t.Errorf("%s, %s: got %v", tt.pattern, tt.name, got)
		}
	}
	for _, bad := range []string{"", "Team/*", "a|b", "^a", "a b", "/release/**", "ci/**/", "/web", "a//b", "/", "a/-b", "a..*"} {
		if _, err := ParseNames([]string{bad}); err == nil {
			t.Errorf("%q is taken for a pattern", bad)
		}
	}
	for _, good := range []string{"**/web", "a/**/b", "*-rc", "a-*-b", "a.*", "a_**", "*/*", "*_*"} {
		if _, err := ParseNames([]string{good}); err != nil {
			t.Error(err)
		}
	}
}

// What can match no repository is refused with what was meant.
func TestNames_NeverMatch(t *testing.T) {
	for bad, want := range map[string]string{
		"/release/**": `"/release/**" can match no repository; write release/**`,
		"ci//**/":     `"ci//**/" can match no repository; write ci/**`,
		"/**":         `"/**" can match no repository; write **`,
		"/":           `"/" can match no repository`,
		"/a/-b":       `"/a/-b" can match no repository`,
	} {
		if _, err := ParseNames([]string{"ok", bad}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTags(t *testing.T) {
	tests := []struct {
		expression, tag string
		want            bool
	}{
		{"v1", "v1", true},
		{"v1", "v10", false},
		{"v1|v2", "v20", false},
		{`v\d+`, "v20", true},
		{"latest", "not-latest", false},
		{"pr-.*", "pr-", true},
	}
	for _, tt := range tests {
		p, err := ParseTags([]string{"other", tt.expression})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(oci.Tag(tt.tag)); got != tt.want {
			t.Errorf("%s, %s: got %v", tt.expression, tt.tag, got)
		}
	}
	for _, bad := range []string{"(", ")|(", "a)|(b", "*", "*-rc"} {
		if _, err := ParseTags([]string{bad}); err == nil {
			t.Errorf("%q is taken for an expression", bad)
		}
	}
	if !(Tags{}).Empty() || (Tags{}).Match("x") {
		t.Error("no patterns match something")
	}
}
