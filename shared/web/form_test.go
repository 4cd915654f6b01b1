package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOwnPage(t *testing.T) {
	for path, want := range map[string]string{
		"/ui/messages?state=dead": "/ui/messages?state=dead",
		"":                        "/ui/", "https://evil.example/ui/": "/ui/", "//evil.example/ui/": "/ui/", "/ui/../x": "/ui/../x",
		`/ui/\evil`: "/ui/", "/other": "/ui/", "/ui/logout": "/ui/", "/ui/login?next=x": "/ui/",
	} {
		if got := OwnPage(path, "/ui"); got != want {
			t.Errorf("%q leads to %q, want %q", path, got, want)
		}
	}
}

func TestNextQuery(t *testing.T) {
	for target, want := range map[string]string{"/reg/ui/": "", "/reg/ui/access?who=a%26b": "?next=%2Freg%2Fui%2Faccess%3Fwho%3Da%2526b"} {
		if got := NextQuery(httptest.NewRequest(http.MethodGet, target, nil), "/reg/ui"); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	if got := NextQuery(httptest.NewRequest(http.MethodPost, "/ui/access", nil), "/ui"); got != "" {
		t.Errorf("a form is sent again by %q", got)
	}
}

func TestForms(t *testing.T) {
	post := func(body string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/ui/x", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		BoundForm(httptest.NewRecorder(), r)
		return r
	}
	r := post("csrf=secret&name=x")
	if err := ParseForm(r); err != nil {
		t.Fatal(err)
	}
	for csrf, want := range map[string]bool{"secret": true, "other": false, "": false} {
		if got := FromSession(r, csrf); got != want {
			t.Errorf("token %q: %v", csrf, got)
		}
	}
	r = post("csrf=")
	if err := ParseForm(r); err != nil || FromSession(r, "") {
		t.Error("no token is taken for one")
	}
	if err := ParseForm(post(strings.Repeat("x", MaxForm+1))); !errors.Is(err, ErrFormTooLarge) {
		t.Errorf("a long form: %v", err)
	}
	if err := ParseForm(post("%zz")); err == nil || errors.Is(err, ErrFormTooLarge) {
		t.Errorf("a broken form: %v", err)
	}
}
