package inbound

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/intake"
	"slipway/relay/internal/refusal"
)

func parseAlerts(t *testing.T, body string) []Draft {
	t.Helper()
	b, err := PushBits().Parse(&Request{Body: []byte(body)}, App{})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return b.Drafts
}

func TestAlerts(t *testing.T) {
	const labels = `"labels":{"alertname":"DiskFull","instance":"db-1"},"startsAt":"2026-11-23T10:00:00Z"`
	for _, tt := range []struct{ alert, title, message string }{
		{`{"status":"firing",` + labels + `,"annotations":{"title":"Disk full","message":"4 % left"}}`, "[FIR] Disk full", "4 % left\n\nalertname: DiskFull\ninstance: db-1"},
		{`{"status":"resolved",` + labels + `,"annotations":{"summary":"The disk\nfills"}}`, "[RES] The disk fills", "The disk\nfills\n\nalertname: DiskFull\ninstance: db-1"},
		{`{"status":"firing",` + labels + `}`, "[FIR] DiskFull", "alertname: DiskFull\ninstance: db-1"},
		{`{}`, "[FIR] Alert", "status: ?"},
	} {
		d := parseAlerts(t, `{"version":"4","alerts":[`+tt.alert+`]}`)
		if len(d) != 1 || d[0].Title != tt.title || d[0].Message != tt.message || d[0].ContentType != "text/plain" || d[0].Priority != nil {
			t.Errorf("%s: %+v", tt.alert, d)
		}
	}
	if d := parseAlerts(t, `{"alerts":[]}`); len(d) != 0 {
		t.Errorf("no alert: %+v", d)
	}
}

// All reports of an alert have the same key, of another one another key.
func TestAlertKeys(t *testing.T) {
	const a = `{"status":"firing","fingerprint":"f","startsAt":"2026-11-23T10:00:00Z","endsAt":"0001-01-01T00:00:00Z"}`
	d := parseAlerts(t, `{"alerts":[`+strings.Join([]string{
		a, strings.Replace(a, "T10:00", "T11:00", 1), strings.Replace(strings.Replace(a, "firing", "resolved", 1), "0001", "2027", 1),
		strings.Replace(a, `"f"`, `"g"`, 1), `{"labels":{"a":"b"}}`, `{"labels":{"a":"c"}}`,
	}, ",")+`]}`)
	if d[0].Key != d[1].Key || d[0].Key != d[2].Key {
		t.Errorf("keys %q, %q, %q", d[0].Key, d[1].Key, d[2].Key)
	}
	if d[0].Change != intake.Update || d[2].Change != intake.Resolve || d[0].Began.Hour() != 10 || !d[0].EventAt.IsZero() || d[2].EventAt.Year() != 2027 {
		t.Errorf("%+v\n%+v", d[0], d[2])
	}
	seen := map[string]bool{}
	for _, one := range d[2:] {
		if seen[one.Key] || one.Key == "" || len(one.Key) > 128 {
			t.Errorf("key %q", one.Key)
		}
		seen[one.Key] = true
	}
}

func TestAlertsRefused(t *testing.T) {
	for body, kind := range map[string]refusal.Kind{
		"": refusal.KindInvalid, "[]": refusal.KindInvalid, `{"text":"a"}`: refusal.KindInvalid, "null": refusal.KindInvalid, `{"alerts":[1]}`: refusal.KindInvalid,
		`{"alerts":[` + strings.Repeat("{},", maxAlerts) + `{}]}`: refusal.KindTooLarge,
	} {
		if _, err := PushBits().Parse(&Request{Body: []byte(body)}, App{}); refusal.KindOf(err) != kind {
			t.Errorf("%.20s: %v, want %s", body, err, kind)
		}
	}
}

// Alertmanager gives up after 429, so a full outbox and a rate limit are both 503.
func TestAlertsOverload(t *testing.T) {
	for field, want := range map[string]int{"": 503, "token": 429} {
		w := httptest.NewRecorder()
		PushBits().Fail(w, &refusal.Error{Kind: refusal.KindRateLimited, Field: field, Message: "Slower.", RetryAfter: time.Second})
		if w.Code != want || w.Header().Get("Retry-After") != "1" {
			t.Errorf("field %q: %d, Retry-After %q", field, w.Code, w.Header().Get("Retry-After"))
		}
	}
}

func FuzzAlerts(f *testing.F) {
	f.Add([]byte(`{"version":"4","alerts":[{"status":"firing","labels":{"alertname":"a"},"annotations":{"title":"t"},"fingerprint":"f"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := PushBits().Parse(&Request{Body: body}, App{})
		if err != nil {
			return
		}
		for _, d := range b.Drafts {
			if d.Message == "" || strings.ContainsAny(d.Title, "\n\r") || len(d.IdempotencyKey) > 128 {
				t.Fatalf("%+v", d)
			}
		}
	})
}
