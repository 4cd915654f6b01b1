package logging

import (
	"net/url"
	"strings"
	"testing"
)

func TestRedactURI(t *testing.T) {
	for _, c := range []struct{ uri, want string }{
		{"/v2/", "/v2/"},
		{"/v2/_catalog?n=1&last=b", "/v2/_catalog?n=1&last=b"},
		{"/u?_state=abc", "/u"},
		{"/u?_state=abc&digest=sha256:1", "/u?digest=sha256:1"},
		{"/u?digest=sha256:1&_state=abc", "/u?digest=sha256:1"},
		{"/u?a=1&_state=abc&b=2", "/u?a=1&b=2"},
		{"/u?_STATE=abc&%5fstate=x&_stat%65=y", "/u"},
		{"/t?token=abc&x=1", "/t?token=***&x=1"},
		{"/t?x=1&password=p&auth=q&Access_Token=r", "/t?x=1&password=***&auth=***&Access_Token=***"},
		{"/t?token", "/t?token=***"},
		{"/ui/login/callback?code=abc&state=x", "/ui/login/callback?code=***&state=x"},
		{"/t?author=me", "/t?author=me"},
		{"/t?", "/t?"},
		{"http://u:p@h/x?y=1", "http://u:***@h/x?y=1"},
		{"http://u@h/x", "http://u@h/x"},
		{"http://h/x:y@z", "http://h/x:y@z"},
		{"", ""},
	} {
		if got := RedactURI(c.uri); got != c.want {
			t.Errorf("RedactURI(%q) = %q, want %q", c.uri, got, c.want)
		}
	}
}

func TestRedactURICostsNothingWithoutSecrets(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { RedactURI("/v2/a/blobs/uploads/?mount=sha256:1&from=b") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRedactURI(f *testing.F) {
	f.Add("/u?_state=abc&digest=x")
	f.Add("/u?a=b;_state=c&&=&%zz=1")
	f.Fuzz(func(t *testing.T, uri string) {
		got := RedactURI(uri)
		_, query, _ := strings.Cut(got, "?")
		values, _ := url.ParseQuery(query)
		for name, v := range values {
			if secrecy(name) == dropped || secrecy(name) == masked && v[0] != hidden {
				t.Errorf("%q became %q", uri, got)
			}
		}
		if again := RedactURI(got); again != got {
			t.Errorf("%q became %q, then %q", uri, got, again)
		}
	})
}
