package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "maintenance")
	look := fileAbsent(path)
	if err := look(t.Context()); err != nil {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := look(t.Context()); err == nil {
		t.Error("the file exists and the check is healthy")
	}
}

func TestHTTPStatus(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead || r.Header.Get("X-Probe") != "" || r.Referer() != "" {
			t.Errorf("another host gets %s %v", r.Method, r.Header)
		}
	}))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodHead || r.Header.Get("X-Probe") != "yes":
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case r.URL.Path == "/elsewhere":
			http.Redirect(w, r, other.URL, http.StatusMovedPermanently)
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		}
	}))
	defer s.Close()
	probe := http.Header{"X-Probe": {"yes"}}
	for _, c := range []struct {
		name, path string
		status     int
		header     http.Header
		want       bool
	}{
		{"default status", "/", 0, probe, true},
		{"header missing", "/", 0, nil, false},
		{"redirect is followed", "/moved", 0, probe, true},
		{"redirect to another host", "/elsewhere", 200, probe, true},
		{"redirect without end", "/loop", 0, probe, false},
		{"redirect that is asked for", "/moved", 302, probe, true},
		{"other status", "/", 204, probe, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := httpStatus(s.URL+c.path, c.status, c.header)(t.Context())
			if (err == nil) != c.want {
				t.Errorf("got %v, want healthy %v", err, c.want)
			}
		})
	}
}

// TestHTTPStatusKeepsTheAddress: what a check says is served to everybody, and the
// address may hold a password or a token.
func TestHTTPStatusKeepsTheAddress(t *testing.T) {
	err := httpStatus("http://u:hunter2@127.0.0.1:1/?token=hunter3", 0, nil)(t.Context())
	if err == nil || strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "token") {
		t.Errorf("got %v", err)
	}
}

func TestTCPConnect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	look := tcpConnect(l.Addr().String())
	if err := look(t.Context()); err != nil {
		t.Errorf("listening: %v", err)
	}
	l.Close()
	if err := look(t.Context()); err == nil {
		t.Error("nobody listens and the check is healthy")
	}
}
