package api

import (
	"net/http"
	"testing"
)

func TestRedact(t *testing.T) {
	w := newWorld(t, nil)
	for uri, want := range map[string]string{
		"/message":                          "/message",
		"/message/12?wait=5s":               "/message/12?wait=5s",
		"/message?wait=5s&message=a&title=": "/message?wait=5s&message=***&title=***",
		"/message?m%65ssage=a&TOKEN=x":      "/message?m%65ssage=***&TOKEN=***",
		"/message?appid=7&state=dead":       "/message?appid=7&state=dead",
		"/ui/messages?q=a&state=dead":       "/ui/messages?q=***&state=dead",
		"/hook/registry/my-token":           "/hook/registry/***",
		"/%41bcdefgh":                       "/***",
		"/notices/a.b_c/typo":               "/***/***/***",
		"/application/7/token":              "/application/7/token",
	} {
		if got := w.api.redact(&http.Request{RequestURI: uri}).RequestURI; got != want {
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
