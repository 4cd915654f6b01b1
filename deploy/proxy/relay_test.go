package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checkRelay does what senders and people do through a proxy, and looks into the
// proxy's log.
func checkRelay(t *testing.T, f *front) {
	admin := func(r *http.Request) {
		r.SetBasicAuth("admin", adminPassword)
		r.Header.Set("Content-Type", "application/json")
	}
	client := f.client("127.0.0.1", true)
	resp, body := ask(t, client, http.MethodPost, f.url(relayName, "/application"), strings.NewReader(`{"name": "backup"}`), admin)
	want(t, resp, http.StatusCreated, body)
	var app struct{ Token string }
	must(t, json.Unmarshal([]byte(body), &app))

	t.Run("messages", func(t *testing.T) {
		for _, prepare := range []func(*http.Request){
			func(r *http.Request) { r.URL.RawQuery = "token=" + app.Token },
			header("X-Gotify-Key", app.Token),
			header("Authorization", "Bearer "+app.Token),
		} {
			resp, body := ask(t, client, http.MethodPost, f.url(relayName, "/message"), strings.NewReader(`{"message": "hello"}`), func(r *http.Request) {
				r.Header.Set("Content-Type", "application/json")
				prepare(r)
			})
			want(t, resp, http.StatusOK, body)
		}
		large := strings.NewReader(`{"message": "` + strings.Repeat("x", 3<<20) + `"}`)
		resp, body := ask(t, client, http.MethodPost, f.url(relayName, "/message"), large, header("X-Gotify-Key", app.Token))
		want(t, resp, http.StatusRequestEntityTooLarge, body)
	})
	t.Run("no metrics", func(t *testing.T) {
		for _, path := range []string{"/metrics", "/metrics/", "//metrics", "/%6Detrics", "/metrics//"} {
			resp, body := ask(t, client, http.MethodGet, f.url(relayName, path), nil, nil)
			want(t, resp, http.StatusNotFound, body)
		}
	})
	t.Run("addresses", func(t *testing.T) { checkAddresses(t, f, admin) })
	t.Run("no tokens in logs", func(t *testing.T) {
		var log string
		for end := time.Now().Add(10 * time.Second); !strings.Contains(log, "/message") && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			log = read(t, filepath.Join(f.dir, "relay.log"))
		}
		if !strings.Contains(log, "/message") || strings.Contains(log, app.Token) {
			t.Errorf("the log has no message, or it has the token:\n%s", log)
		}
	})
}

// checkAddresses guesses passwords from one address, which says it is another one
// each time: it is slowed down, and nobody else is.
func checkAddresses(t *testing.T, f *front, admin func(*http.Request)) {
	guesser := f.client("127.0.0.2", false)
	slowed := false
	for i := 0; i < 40 && !slowed; i++ {
		resp, _ := ask(t, guesser, http.MethodGet, f.url(relayName, "/application"), nil, func(r *http.Request) {
			r.SetBasicAuth("admin", fmt.Sprint("guess ", i))
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i))
		})
		slowed = resp.StatusCode == http.StatusTooManyRequests
	}
	if !slowed {
		t.Error("one that guesses is not slowed down: the relay takes its word for its address")
	}
	resp, body := ask(t, f.client("127.0.0.3", false), http.MethodGet, f.url(relayName, "/application"), nil, admin)
	want(t, resp, http.StatusOK, body)
}
