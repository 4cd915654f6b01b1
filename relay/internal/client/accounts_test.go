package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
