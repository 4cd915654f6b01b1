package access

import (
	"strings"
	"testing"
)

func TestUnreachable(t *testing.T) {
	allowed := func(who, repositories string) Rule {
		return Rule{Who: []string{who}, Repositories: []string{repositories}, Allow: []string{"pull"}}
	}
	denied := func(who, repositories string) Rule {
		return Rule{Who: []string{who}, Repositories: []string{repositories}, Deny: []string{"pull", "delete"}}
	}
	for _, tt := range []struct {
		name          string
		first, second Rule
		want          bool
	}{
		{"everybody", allowed("anyone", "**"), denied("erin", "secret/**"), true},
		{"the same", allowed("erin", "secret/**"), denied("erin", "secret/**"), true},
		{"below", allowed("users", "secret/**"), denied("erin", "secret/a"), true},
		{"a group", allowed("group:all", "**"), denied("group:some", "secret/**"), true},
		{"the right order", denied("erin", "secret/**"), allowed("anyone", "**"), false},
		{"an exception of callers", allowed("erin", "secret/**"), denied("anyone", "secret/**"), false},
		{"an exception of repositories", allowed("anyone", "secret/open"), denied("anyone", "secret/**"), false},
		{"a robot is no user", allowed("users", "**"), denied("robot:ci", "**"), false},
		{"other names", allowed("anyone", "secret**"), denied("erin", "secre/**"), false},
	} {
		r, err := New(map[string][]string{"all": {"alice", "bob", "erin"}, "some": {"erin", "bob"}}, []Rule{tt.first, tt.second})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Unreachable()
		if (len(got) == 1) != tt.want || tt.want && !strings.HasPrefix(got[0], "rules[1] ("+r.rules[1].text+") never denies pull, because rules[0]") {
			t.Errorf("%s: %q, want %v", tt.name, got, tt.want)
		}
	}
}
