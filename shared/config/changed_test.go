package config

import (
	"slices"
	"testing"
)

func TestChanged(t *testing.T) {
	type inner struct {
		Addr   string `key:"addr"`
		Secret Secret `key:"secret"`
	}
	type all struct {
		HTTP  inner    `key:"http"`
		Auth  *inner   `key:"auth"`
		Names []string `key:"names"`
		inner int
	}
	before := all{Auth: &inner{Secret: NewSecret("a")}, inner: 1}
	if got := Changed(before, all{Auth: &inner{Secret: NewSecret("a")}, inner: 2}); got != nil {
		t.Errorf("equal settings: %q", got)
	}
	after := all{HTTP: inner{Addr: "x"}, Auth: &inner{Secret: NewSecret("b")}, Names: []string{"n"}}
	if got, want := Changed(before, after), []string{"http.addr", "auth.secret", "names"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := Changed(before, all{}), []string{"auth"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
