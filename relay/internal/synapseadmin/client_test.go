package synapseadmin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answers serves one answer after the other, the last for ever.
func answers(t *testing.T, all ...string) (c *Client, asked *int) {
	t.Helper()
	asked = new(int)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		status, body, _ := strings.Cut(all[min(*asked, len(all)-1)], " ")
		*asked++
		w.WriteHeader(map[string]int{"200": 200, "403": 403, "404": 404, "429": 429, "502": 502}[status])
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return New(srv.URL + "/"), asked
}

func TestCallObeysALimit(t *testing.T) {
	const limited = `429 {"errcode":"M_LIMIT_EXCEEDED","error":"Too fast","retry_after_ms":50}`
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, asked := answers(t, limited, limited, `200 {"user_id":"@a:b"}`)
	if id, err := c.Whose(ctx, "t"); id != "@a:b" || err != nil || *asked != 3 {
		t.Errorf("%q, %v after %d requests", id, err, *asked)
	}
	c, asked = answers(t, `429 {"errcode":"M_LIMIT_EXCEEDED","error":"Too fast","retry_after_ms":3600000}`)
	if _, err := c.Whose(ctx, "t"); err == nil || *asked != 1 || !strings.Contains(err.Error(), "try again in 1h0m0s") {
		t.Errorf("longer than there is time: %v after %d requests", err, *asked)
	}
}

func TestCallSaysWhatAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		`403 {"errcode":"M_FORBIDDEN","error":"No"}`: "the homeserver answers 403 M_FORBIDDEN: No",
		`404 <html>nothing`:                          "the homeserver answers 404: <html>nothing",
		`502 `:                                       "the homeserver answers 502",
		`200 <html>`:                                 "is not a Matrix homeserver",
		`200 {}`:                                     "is not a Matrix homeserver",
	} {
		c, _ := answers(t, answer)
		err := c.Ready(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", answer, err, want)
		}
	}
	c, _ := answers(t, `200 {"versions":["v1.11"]}`)
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRegisterATakenName(t *testing.T) {
	c, asked := answers(t, `200 {"nonce":"n"}`, `403 {"errcode":"M_USER_IN_USE","error":"Taken"}`)
	if _, err := c.Register(t.Context(), "secret", Account{Name: "a", Password: "p"}); !errors.Is(err, ErrTaken) || *asked != 2 {
		t.Errorf("%v after %d requests", err, *asked)
	}
}
