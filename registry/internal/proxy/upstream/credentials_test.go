package upstream

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHelper(t *testing.T) {
	dir := t.TempDir()
	command, count := filepath.Join(dir, "docker-credential-test"), filepath.Join(dir, "count")
	script := "#!/bin/sh\n[ \"$1\" = get ] || exit 1\nread server\necho x >> " + count + "\necho '{\"Username\":\"ada\",\"Secret\":\"for '$server'\"}'\n"
	check(t, os.WriteFile(command, []byte(script), 0o700))
	for lifetime, want := range map[time.Duration]int{-1: 1, time.Hour: 1, 0: 3} {
		os.Remove(count)
		helper := Helper(command, "registry.example.org", lifetime)
		for range 3 {
			user, password, err := helper.Login(t.Context())
			if err != nil || user != "ada" || password != "for registry.example.org" {
				t.Errorf("%q %q %v", user, password, err)
			}
		}
		b, err := os.ReadFile(count)
		check(t, err)
		if got := strings.Count(string(b), "x"); got != want {
			t.Errorf("lifetime %v: asked %d times", lifetime, got)
		}
	}
	for name, script := range map[string]string{"fails": "exit 1", "nobody": "echo '{}'", "too much": "yes"} {
		check(t, os.WriteFile(command, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		if _, _, err := Helper(command, "x", -1).Login(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A password that is replaced in its file counts at the next request, and so does a new answer
// of a credential helper.
func TestCredentials_Replaced(t *testing.T) {
	dir := t.TempDir()
	path, command := filepath.Join(dir, "password"), filepath.Join(dir, "docker-credential-test")
	check(t, os.WriteFile(command, []byte("#!/bin/sh\nprintf '{\"Username\":\"ada\",\"Secret\":\"%s\"}' \"$(cat "+path+")\"\n"), 0o700))
	read := func() (string, error) {
		b, err := os.ReadFile(path)
		return string(b), err
	}
	for name, credentials := range map[string]Credentials{"file": PasswordFile("ada", "one", read), "helper": Helper(command, "x", -1)} {
		want := "one"
		check(t, os.WriteFile(path, []byte(want), 0o600))
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if _, password, _ := r.BasicAuth(); password != want {
				w.Header().Set("WWW-Authenticate", "Basic")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Write(layer)
		})
		c := client(t, u, func(o *Options) { o.Credentials = credentials })
		check(t, fetch(t.Context(), c, "a", layer))
		want = "two"
		if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != Login {
			t.Errorf("%s: the former password: %v", name, err)
		}
		check(t, os.WriteFile(path, []byte(want), 0o600))
		if err := fetch(t.Context(), c, "a", layer); err != nil {
			t.Errorf("%s: the new password: %v", name, err)
		}
	}
	content, failure := "two", error(nil)
	f := PasswordFile("ada", "one", func() (string, error) { return content, failure })
	for _, change := range []func(){func() {}, func() { content = "" }, func() { failure = errors.New("gone") }} {
		change()
		if _, password, err := f.Login(t.Context()); password != "two" || err != nil {
			t.Errorf("%q, %v", password, err)
		}
	}
}
