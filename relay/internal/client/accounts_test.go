package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"maunium.net/go/mautrix"
)

// A homeserver without limits of single accounts needs none lifted.
func TestAccounts_WithoutLimitOfMessages(t *testing.T) {
	for answer, want := range map[string]string{"M_UNRECOGNIZED": "knows none", "M_FORBIDDEN": ""} {
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"errcode":"`+answer+`","error":"x"}`)
		}))
		t.Cleanup(hs.Close)
		h, err := NewHomeserver(hs.URL)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		a := &Accounts{Homeserver: h, Bot: "bot", server: "hs", Say: func(format string, v ...any) { said += fmt.Sprintf(format, v...) }}
		if err := a.bot(t.Context()); (err == nil) != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%s: %v, %q", answer, err, said)
		}
	}
}

// Dendrite answers no question of an administrator about a room. The person joins where they are invited, and stays outside otherwise.
func TestAccounts_EnterWithoutAdministration(t *testing.T) {
	const login, unknown = `{"access_token":"t","user_id":"@you:hs","device_id":"D"}`, `404 {"errcode":"M_UNRECOGNIZED","error":"Unrecognized request"}`
	for name, tt := range map[string]struct{ login, join, want string }{
		"invited":       {login, `{"room_id":"!r:hs"}`, "@you:hs has joined"},
		"left":          {login, `403 {"errcode":"M_FORBIDDEN","error":"not invited"}`, "@you:hs is not invited"},
		"no passwords":  {`400 {"errcode":"M_UNKNOWN","error":"Password login has been disabled."}`, "", "@you:hs is invited; accept it"},
		"no login":      {unknown, "", "@you:hs is invited; accept it"},
		"join fails":    {login, `500 {"errcode":"M_UNKNOWN","error":"x"}`, ""},
		"login limited": {`429 {"errcode":"M_LIMIT_EXCEEDED","error":"x","retry_after_ms":1}`, "", ""},
	} {
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := unknown
			switch {
			case strings.HasSuffix(r.URL.Path, "/login"):
				answer = tt.login
			case strings.Contains(r.URL.Path, "/join"):
				answer = tt.join
			case strings.HasSuffix(r.URL.Path, "/logout"):
				answer = "{}"
			}
			if code, body, _ := strings.Cut(answer, " "); len(code) == 3 {
				status, _ := strconv.Atoi(code)
				w.WriteHeader(status)
				answer = body
			}
			_, _ = io.WriteString(w, answer)
		}))
		t.Cleanup(hs.Close)
		h, err := NewHomeserver(hs.URL)
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := OpenSecrets(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = secrets.Close() })
		if err := secrets.Put(PersonPassword, "p"); err != nil {
			t.Fatal(err)
		}
		said := ""
		a := &Accounts{Homeserver: h, Secrets: secrets, Person: "@you:hs", server: "hs", Say: func(format string, v ...any) { said += fmt.Sprintf(format, v...) }}
		ctx := context.WithValue(t.Context(), mautrix.MaxAttemptsContextKey, 1)
		if err := a.Enter(ctx, "!r:hs"); (err == nil) != (tt.want != "") || !strings.Contains(said, tt.want) {
			t.Errorf("%s: %v, %q", name, err, said)
		}
	}
}
