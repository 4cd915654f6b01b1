package api

import (
	"net/http"
	"testing"
)

func TestHidePrivate(t *testing.T) {
	for uri, want := range map[string]string{
		"/message":                          "/message",
		"/message?wait=5s":                  "/message?wait=5s",
		"/message?wait=5s&message=a&title=": "/message?wait=5s&message=***&title=***",
		"/message?m%65ssage=a":              "/message?m%65ssage=***",
		"/message?%zz=a":                    "/message?%zz=***",
		"/ui/messages?q=a&state=dead":       "/ui/messages?q=***&state=dead",
	} {
		if got := redactQuery(&http.Request{RequestURI: uri}).RequestURI; got != want {
			t.Errorf("%s becomes %s, want %s", uri, got, want)
		}
	}
}

// TestMetricsHaveOneName: a proxy that keeps /metrics from the world keeps all of it.
func TestMetricsHaveOneName(t *testing.T) {
	w := newWorld(t, nil)
	for path, want := range map[string]int{"/metrics": 200, "/metrics?x=1": 200, "/metrics/": 404, "//metrics": 404, "/%6Detrics": 404, "/metrics//": 404} {
		w.want(path, w.ask("GET", path, ""), want)
	}
}
