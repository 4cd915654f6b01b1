package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

const firing = `{"version":"4","externalURL":"http://am:9093","alerts":[{"status":"firing","labels":{"alertname":"DiskFull","severity":"critical","instance":"db-1"},"annotations":{"summary":"Disk of db-1 is full","description":"4 % <left>","runbook_url":"https://e.org/r"},"startsAt":"2026-11-23T10:00:00Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://prom/g","fingerprint":"f1"}]}`

func TestAlertmanager(t *testing.T) {
	d, text := read(t, Alertmanager(), firing)
	want := "4 % <left>\n\nalertname=DiskFull instance=db-1 severity=critical\n\nSource (http://prom/g) · Runbook (https://e.org/r) · Silence (http://am:9093/#/silences/new?filter=%7Balertname%3D%22DiskFull%22%2C%20instance%3D%22db-1%22%2C%20severity%3D%22critical%22%7D)"
	if d.Title != "Firing: Disk of db-1 is full" || *d.Priority != 1 || strings.ReplaceAll(text, "`", "") != want {
		t.Errorf("%q %d\n%s\nwant\n%s", d.Title, *d.Priority, text, want)
	}
	resolved := strings.NewReplacer(`"status":"firing"`, `"status":"resolved"`, "0001-01-01T00:00:00Z", "2026-11-23T11:30:00Z").Replace(firing)
	r, text := read(t, Alertmanager(), resolved)
	if r.Title != "Resolved: Disk of db-1 is full" || *r.Priority != 0 || strings.Contains(text, "Silence") {
		t.Errorf("%q %d\n%s", r.Title, *r.Priority, text)
	}
	if start := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC); d.Change != post.Update || r.Change != post.Resolve || !d.Began.Equal(start) || !r.Began.Equal(start) || !r.EventAt.Equal(start.Add(90*time.Minute)) {
		t.Errorf("%+v\n%+v", d, r)
	}
}

// An application that asks for reminders of critical alerts gets them for what fires, and for nothing else.
func TestAlertmanager_CriticalRetry(t *testing.T) {
	for replacement, want := range map[string]int{`"critical"`: 2, `"Page"`: 2, `"warning"`: 0} {
		for _, p := range []protocol.Protocol{Alertmanager(), Grafana()} {
			for status, resolved := range map[string]bool{"firing": false, "resolved": true} {
				body := strings.NewReplacer(`"critical"`, replacement, `"status":"firing"`, `"status":"`+status+`"`).Replace(firing)
				b, err := submit(t, p, protocol.App{CriticalRetry: time.Minute}, body)
				if err != nil || len(b.Drafts) != 1 {
					t.Fatalf("%v, %d drafts", err, len(b.Drafts))
				}
				priority, retry := want, time.Duration(0)
				if resolved {
					priority = 0
				} else if want == 2 {
					retry = time.Minute
				}
				if d := b.Drafts[0]; *d.Priority != priority || d.Retry != retry {
					t.Errorf("%s %s: priority %d, retry %v", p.Name, body, *d.Priority, d.Retry)
				}
			}
		}
	}
}

// All reports of an alert have the same key, of another one another key.
func TestAlertmanagerKeys(t *testing.T) {
	key := func(old, replacement string) string {
		d, _ := read(t, Alertmanager(), strings.ReplaceAll(firing, old, replacement))
		return d.Key
	}
	first := key("", "")
	for old, replacement := range map[string]string{"4 %": "3 %", `"firing"`: `"resolved"`, "T10:00": "T11:00"} {
		if key(old, replacement) != first {
			t.Errorf("%s has another key than %s", replacement, old)
		}
	}
	if key(`"f1"`, `"f2"`) == first {
		t.Error("another alert has the same key")
	}
	labels := key(`"f1"`, `""`)
	if labels == first || key(`"f1"`, `"`+strings.Repeat("x", 1000)+`"`) != labels || labels == key(`db-1"},"annotations`, `db-2"},"annotations`) {
		t.Errorf("by labels: %q", labels)
	}
}

func TestAlertmanagerRefuses(t *testing.T) {
	for body, kind := range map[string]refusal.Kind{"": refusal.KindInvalid, "[]": refusal.KindInvalid, "{}": refusal.KindInvalid, `{"alerts":[` + strings.Repeat("{},", maxEvents) + "{}]}": refusal.KindTooLarge} {
		if _, err := submit(t, Alertmanager(), protocol.App{}, body); refusal.KindOf(err) != kind {
			t.Errorf("%.20s: %v", body, err)
		}
	}
	if b, err := submit(t, Alertmanager(), protocol.App{}, `{"alerts":[]}`); err != nil || len(b.Drafts) != 0 {
		t.Errorf("no alert: %v, %d", err, len(b.Drafts))
	}
}

func TestGrafana(t *testing.T) {
	body := strings.Replace(firing, `"fingerprint"`, `"silenceURL":"http://g/s","panelURL":"http://g/p","fingerprint"`, 1)
	_, text := read(t, Grafana(), body)
	if !strings.Contains(text, "Panel (http://g/p)") || !strings.Contains(text, "Silence (http://g/s)") {
		t.Error(text)
	}
	d, text := read(t, Grafana(), `{"title":"[Alerting] disk","message":"full","ruleUrl":"https://g/d","state":"alerting"}`) // of the user's own template
	if d.Title != "[Alerting] disk" || text != "full\n\nstate: alerting\n\nhttps://g/d" {
		t.Errorf("%q %q", d.Title, text)
	}
	secret := []byte("It's a Secret to Everybody")
	app := protocol.App{Secret: func() ([]byte, error) { return secret, nil }}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(body))
	if _, err := submit(t, Grafana(), app, body, "X-Grafana-Alerting-Signature: "+hex.EncodeToString(mac.Sum(nil))); err != nil {
		t.Errorf("signed: %v", err)
	}
	for _, header := range []string{"X: y", "X-Grafana-Alerting-Signature: 00", "X-Grafana-Alerting-Signature: zz"} {
		if _, err := submit(t, Grafana(), app, body, header); refusal.KindOf(err) != refusal.KindUnauthorized {
			t.Errorf("%s: %v", header, err)
		}
	}
}

func alertsJSON(n int, more string, each func(i int) string) string {
	var list []string
	for i := range n {
		list = append(list, each(i))
	}
	return `{"version":"4","groupKey":"{}:{alertname=\"Down\"}","groupLabels":{"alertname":"Down"},` + more + `"alerts":[` + strings.Join(list, ",") + `]}`
}

func oneOf(status string) func(i int) string {
	return func(i int) string {
		return fmt.Sprintf(`{"status":%q,"labels":{"alertname":"Down","instance":"web-%03d","severity":"critical"},"startsAt":"2026-11-23T10:00:00Z","fingerprint":"f%d"}`, status, i, i)
	}
}

// Many alerts of a group have one message, which names each.
func TestAlertmanager_ManyAlerts(t *testing.T) {
	b, err := submit(t, Alertmanager(), protocol.App{}, alertsJSON(100, `"truncatedAlerts":7,`, oneOf("firing")))
	if err != nil || len(b.Drafts) != 101 {
		t.Fatalf("%d drafts, %v", len(b.Drafts), err)
	}
	for _, d := range b.Drafts[:100] {
		if d.Crowd != post.CrowdOneOfMany {
			t.Fatalf("%+v", d)
		}
	}
	whole := b.Drafts[100]
	_, text := format.Body(whole.ContentType, whole.Body)
	if whole.Crowd != post.CrowdWhole || whole.Title != "Firing: 100 alerts of Down" || *whole.Priority != 1 || whole.Change != post.Update || whole.Key == "" || strings.Count(text, "instance=web-") != 100 ||
		!strings.Contains(text, "instance=web-099") || !strings.Contains(text, "7 more alerts") {
		t.Errorf("%+v\n%s", whole, text)
	}
	b, err = submit(t, Alertmanager(), protocol.App{}, alertsJSON(100, "", oneOf("resolved")))
	if over := b.Drafts[100]; err != nil || over.Title != "Resolved: 100 alerts of Down" || *over.Priority != 0 || over.Change != post.Resolve || over.Key != whole.Key {
		t.Errorf("%+v, %v", over, err)
	}
	b, err = submit(t, Alertmanager(), protocol.App{}, alertsJSON(2, `"truncatedAlerts":1,`, oneOf("firing")))
	if err != nil || len(b.Drafts) != 3 || b.Drafts[0].Crowd != post.CrowdOneOfFew || b.Drafts[2].Crowd != post.CrowdWholeIfOpen || b.Drafts[2].Key != whole.Key || !strings.Contains(b.Drafts[0].Body, "1 more alert of") {
		t.Errorf("%+v, %v", b.Drafts, err)
	}
}

// What Grafana measured is shown, and the words of its user come first. Its own words say nothing new.
func TestGrafana_Words(t *testing.T) {
	body := func(title, message string) string {
		return alertsJSON(1, fmt.Sprintf(`"title":%q,"message":%q,`, title, message), func(int) string {
			return `{"status":"firing","labels":{"alertname":"Down"},"annotations":{},"values":{"B":22.5,"A":1},"valueString":"[ var='A' ]","fingerprint":"f"}`
		})
	}
	for _, tt := range []struct{ title, message, wantTitle, wantText string }{
		{"[FIRING:1] Down (web)", "**Firing**\n\nValue: A=1", "Firing: Down", "A=1 B=22.5\n\nalertname=Down"},
		{"The shop is slow", "Call Ann.\nNow.", "The shop is slow", "Call Ann.\nNow.\n\nA=1 B=22.5\n\nalertname=Down"},
	} {
		b, err := submit(t, Grafana(), protocol.App{}, body(tt.title, tt.message))
		if err != nil {
			t.Fatal(err)
		}
		_, text := format.Body(b.Drafts[0].ContentType, b.Drafts[0].Body)
		if text = strings.ReplaceAll(text, "`", ""); b.Drafts[0].Title != tt.wantTitle || text != tt.wantText {
			t.Errorf("%q\n%s", b.Drafts[0].Title, text)
		}
	}
}

// Grafana signs a time with the body if its user names a header for it.
func TestGrafana_SignedTime(t *testing.T) {
	secret, now := []byte("It's a Secret to Everybody"), time.Now().Unix()
	app := protocol.App{Secret: func() ([]byte, error) { return secret, nil }}
	sign := func(at int64) string {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%d:%s", at, firing)
		return "X-Grafana-Alerting-Signature: " + hex.EncodeToString(mac.Sum(nil))
	}
	for what, tt := range map[string]struct {
		headers []string
		valid   bool
	}{
		"signed":       {[]string{sign(now), fmt.Sprint("X-When: ", now), "X-Other: 1234567890"}, true},
		"old":          {[]string{sign(now - 301), fmt.Sprint("X-When: ", now-301)}, false},
		"another time": {[]string{sign(now), fmt.Sprint("X-When: ", now-1)}, false},
		"no time":      {[]string{sign(now)}, false},
	} {
		if _, err := submit(t, Grafana(), app, firing, tt.headers...); (err == nil) != tt.valid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A value that isn't a number costs an alert nothing else, and isn't repeated in an error, which is logged.
func TestGrafana_Values(t *testing.T) {
	for values, want := range map[string]string{`{"A":"NaN","B":2,"C":null,"D":1e3}`: "A=NaN B=2 D=1e3", `{"A":"secret"}`: "", `"none"`: "", `{"A":[1],"B":{"c":1},"C":true}`: "", `{"A":"12"}`: "A=12"} {
		b, err := submit(t, Grafana(), protocol.App{}, alertsJSON(1, "", func(int) string {
			return `{"status":"firing","labels":{"alertname":"Down"},"values":` + values + `,"fingerprint":"f"}`
		}))
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		_, text := format.Body(b.Drafts[0].ContentType, b.Drafts[0].Body)
		if got := strings.TrimSpace(strings.TrimSuffix(text, "alertname=Down")); got != want {
			t.Errorf("%s: %q, want %q", values, got, want)
		}
	}
}
