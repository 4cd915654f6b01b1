package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/registry"
	"slipway/registry/internal/storage/memory"
)

// Browsers are led to the pages below the path that they see, whether the registry has it as its
// prefix or a proxy in front strips it.
func TestPages_BelowAPath(t *testing.T) {
	for _, tt := range []struct{ prefix, host, path string }{
		{"", "", "/"},
		{"", "", "/ui"},
		{"/reg/", "", "/"},
		{"/reg/", "", "/reg/"},
		{"/reg/", "", "/reg/ui"},
		{"", "https://registry.example.org/reg", "/"},
		{"", "https://registry.example.org/reg", "/ui"},
	} {
		a, err := New(Options{Registry: registry.New(registry.Options{Store: memory.New()}), Prefix: tt.prefix, Host: tt.host, Log: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		a.ServePages(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
		want := "/reg/ui/"
		if tt.prefix+tt.host == "" {
			want = "/ui/"
		}
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); w.Code/100 != 3 || to != want {
			t.Errorf("%+v: %d, %q, want %q", tt, w.Code, to, want)
		}
		if tt.host == "" {
			w = httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, want, nil))
			if w.Code != http.StatusOK || w.Body.String() != "/ui/" {
				t.Errorf("%+v: the pages answer %d, %q", tt, w.Code, w.Body)
			}
		}
	}
}
