package webhook

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

const kumaDown = `{"heartbeat":{"monitorID":1,"status":0,"msg":"timeout","time":"2026-11-23 10:00:00"},"monitor":{"id":1,"name":"Shop","url":"https://shop.example"},"msg":"[Shop] down"}`

func TestUptimeKuma(t *testing.T) {
	for _, body := range []string{kumaDown, "data=" + url.QueryEscape(kumaDown)} {
		d, text := read(t, UptimeKuma(), body)
		if d.Title != "Shop is down" || *d.Priority != 1 || text != "timeout\nhttps://shop.example" || d.IdempotencyKey == "" {
			t.Errorf("%s: %+v %q", body, d, text)
		}
	}
	for id, key := range map[string]string{`"shop"`: "monitor:shop", "null": "", "[1]": "monitor:[1]"} { // in a body of the user's own
		body := strings.Replace(kumaDown, `"id":1`, `"id":`+id, 1)
		for _, body := range []string{body, "data=" + url.QueryEscape(body)} {
			if d, _ := read(t, UptimeKuma(), body); d.Title != "Shop is down" || d.Key != key {
				t.Errorf("%s: %+v", body, d)
			}
		}
	}
	if d, _ := read(t, UptimeKuma(), `{"heartbeat":null,"monitor":null,"msg":"Testing"}`); d.Body != "Testing" {
		t.Errorf("%+v", d)
	}
	if d, _ := read(t, UptimeKuma(), `{"Title":"Uptime Kuma Alert - shop","Body":"[shop] down"}`, "Content-Type: application/json"); d.Title != "Uptime Kuma Alert - shop" || d.Body != "[shop] down" {
		t.Errorf("a body of the user's own: %+v", d)
	}
	for query, want := range map[string]string{"?msg=down&title=Shop&token=x": "down", "": "", "?title=x": ""} {
		b, err := UptimeKuma().Parse(&protocol.Request{Request: httptest.NewRequest(http.MethodGet, "/hook/uptimekuma/x"+query, nil)}, protocol.App{})
		if want == "" && refusal.KindOf(err) != refusal.KindInvalid || want != "" && (err != nil || b.Drafts[0].Body != want || b.Drafts[0].Title != "Shop") {
			t.Errorf("GET %s: %+v, %v", query, b.Drafts, err)
		}
	}
	for _, p := range []protocol.Protocol{Servarr(), Healthchecks(), Grafana(), Generic()} { // their webhooks may use PUT
		if !slices.ContainsFunc(p.Routes, func(r protocol.Route) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.Path, "/{token}")
		}) {
			t.Errorf("%s takes no PUT", p.Name)
		}
	}
	if _, err := submit(t, UptimeKuma(), protocol.App{}, "{}"); refusal.KindOf(err) != refusal.KindInvalid {
		t.Error(err)
	}
}
