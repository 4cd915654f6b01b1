package webhook

import (
	"strings"
	"testing"

	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

func TestPushBits(t *testing.T) {
	const labels = `"labels":{"alertname":"DiskFull","instance":"db-1"},"startsAt":"2026-11-23T10:00:00Z"`
	for _, tt := range []struct{ alert, title, message string }{
		{`{"status":"firing",` + labels + `,"annotations":{"title":"Disk full","message":"4 % left"}}`, "[FIR] Disk full", "4 % left\n\nalertname: DiskFull\ninstance: db-1"},
		{`{"status":"resolved",` + labels + `,"annotations":{"summary":"The disk\nfills"}}`, "[RES] The disk fills", "The disk\nfills\n\nalertname: DiskFull\ninstance: db-1"},
		{`{"status":"firing",` + labels + `}`, "[FIR] DiskFull", "alertname: DiskFull\ninstance: db-1"},
		{`{}`, "[FIR] Alert", "status: ?"},
	} {
		d, _ := read(t, PushBits(), `{"version":"4","alerts":[`+tt.alert+`]}`)
		if d.Title != tt.title || d.Body != tt.message || d.ContentType != "text/plain" || d.Priority != nil || d.Key == "" {
			t.Errorf("%s: %+v", tt.alert, d)
		}
	}
}

func TestAlertsRefused(t *testing.T) {
	for body, kind := range map[string]refusal.Kind{
		"": refusal.KindInvalid, "[]": refusal.KindInvalid, `{"text":"a"}`: refusal.KindInvalid, "null": refusal.KindInvalid, `{"alerts":[{},1]}`: refusal.KindInvalid,
		`{"alerts":[` + strings.Repeat("{},", maxEvents) + `{}]}`: refusal.KindTooLarge,
	} {
		for _, p := range []protocol.Protocol{PushBits(), Alertmanager()} {
			if _, err := p.Parse(&protocol.Request{Body: []byte(body)}, protocol.App{}); refusal.KindOf(err) != kind {
				t.Errorf("%s, %.20s: %v, want %s", p.Name, body, err, kind)
			}
		}
	}
}
