package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/protocol"
	"slipway/relay/internal/protocol/webhook"
	"slipway/relay/internal/service"
)

const eventsType = "Content-Type: application/vnd.docker.distribution.events.v1+json"

func envelopeOf(events ...string) string { return `{"events":[` + strings.Join(events, ",") + `]}` }

func pushed(id, repository, tag string) string {
	return fmt.Sprintf(`{"id":%q,"action":"push","target":{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%064d","size":500,`+
		`"repository":%q,"tag":%q},"request":{"host":"localhost:5000"},"actor":{"name":"alice"}}`, id, 7, repository, tag)
}

const blob = `{"id":"b","action":"push","target":{"mediaType":"application/octet-stream","digest":"sha256:aa","repository":"hello"}}`

func TestRegistryHook(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("registry")).Token
	bearer := "Authorization: Bearer " + token
	body := envelopeOf(blob, pushed("1", "hello", "1"), pushed("2", "hello", "latest"), `{"action":"pull"}`)

	w.want("first", w.ask("POST", "/hook/registry", body, bearer, eventsType), 200, "success", true, "accepted", 2., "repeated", 0., "ignored", 2., "refused", 0.)
	w.want("again", w.ask("POST", "/hook/registry?token="+token, body), 200, "accepted", 0., "repeated", 2., "ignored", 2.)
	w.want("the same event in other words", w.ask("POST", "/hook/registry", envelopeOf(pushed("1", "other", "1")), bearer), 200, "accepted", 0., "repeated", 1.)
	if n := testutil.ToFloat64(w.api.o.Metrics.events.WithLabelValues("registry", "accepted")); n != 2 {
		t.Errorf("%v accepted events are counted, want 2", n)
	}

	r := w.ask("GET", "/message?limit=5", "", bearer)
	var list struct {
		Messages []struct{ Title, Message, Source string }
	}
	if err := json.Unmarshal([]byte(r.body), &list); err != nil || len(list.Messages) != 2 {
		t.Fatalf("%v in %s", err, r.body)
	}
	m := list.Messages[1]
	if m.Title != "hello:1 pushed" || m.Message != "<code>sha256:000000000000</code>, manifest of 500 B, pushed by <code>alice</code> to <code>localhost:5000</code>" {
		t.Errorf("message %+v", m)
	}
}

func TestRegistryHookRefuses(t *testing.T) {
	w := newWorld(t, nil)
	token := w.app(named("registry")).Token
	good, bearer := envelopeOf(pushed("1", "hello", "1")), "X-Gotify-Key: "+token
	for _, tt := range []struct {
		what, body string
		headers    []string
		status     int
		sentence   string
	}{
		{"no token", good, nil, 401, "A token is required."},
		{"a wrong token", good, []string{"X-Gotify-Key: Awrong"}, 401, "No application or client has this token; was it replaced?"},
		{"no token, broken", "{", nil, 401, "A token is required."},
		{"two tokens", good, []string{bearer, "Authorization: Bearer other"}, 401, "two different"},
		{"no JSON", "{", []string{bearer}, 400, "not an envelope of a registry's events: unexpected end"},
		{"no events", "{}", []string{bearer}, 400, "it has no events"},
		{"a list", "[]", []string{bearer}, 400, "cannot unmarshal array"},
		{"an event that is none", `{"events":[1]}`, []string{bearer}, 400, "event 0"},
		{"another type", good, []string{bearer, "Content-Type: text/plain"}, 415, "application/json"},
		{"too large", good + strings.Repeat(" ", 64<<10), []string{bearer}, 413, "65536 bytes"},
	} {
		r := w.ask("POST", "/hook/registry", tt.body, tt.headers...)
		w.want(tt.what, r, tt.status)
		if text, _ := r.fields["errorDescription"].(string); !strings.Contains(text, tt.sentence) {
			t.Errorf("%s: the answer is %q, want %q in it", tt.what, text, tt.sentence)
		}
	}
	w.want("after all that", w.ask("POST", "/hook/registry", good, bearer), 200, "accepted", 1.)
}

// TestRegistryHookSigned_ByApplication: an application's secret replaces that of the configuration, for this application only.
func TestRegistryHookSigned_ByApplication(t *testing.T) {
	const secret = "the secret of one application"
	w := newWorldFor(t, func(o *service.Options) { o.Accounts.SecretKey = []byte("a pickle key of the tests") }, webhook.Registry(func() string { return "a shared secret" }))
	own, common := w.app(named("own")).Token, w.app(named("common")).Token
	set := w.manage("PUT", "/application/1", `{"hook_secret":"`+secret+`"}`)
	w.want("set", set, 200, "has_hook_secret", true, "hook_secret", nil)
	if strings.Contains(set.body, secret) {
		t.Errorf("the answer shows the secret: %s", set.body)
	}
	body := envelopeOf(pushed("1", "hello", "1"))
	post := func(token, secret string) reply {
		mac, now := hmac.New(sha256.New, []byte(secret)), time.Now().Unix()
		fmt.Fprintf(mac, "%d.Bearer %s.%s", now, token, body)
		return w.ask("POST", "/hook/registry", body, "Authorization: Bearer "+token, fmt.Sprintf("X-Slipway-Signature: t=%d,v2=%x", now, mac.Sum(nil)))
	}
	w.want("own application, the configured secret", post(own, "a shared secret"), 401)
	w.want("own application, its secret", post(own, secret), 200, "accepted", 1.)
	w.want("other application, that secret", post(common, secret), 401)
	w.want("other application, the configured secret", post(common, "a shared secret"), 200, "accepted", 1.)
	w.want("removed", w.manage("PUT", "/application/1", `{"hook_secret":""}`), 200, "has_hook_secret", false)
	w.want("own application, the configured secret again", post(own, "a shared secret"), 200, "repeated", 1.)
}

// A request of a known sender that nobody can read is logged once, with its reason and without its content.
func TestUnknownShapeIsLogged(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	w := newWorld(t, nil)
	w.api.log = zap.New(core)
	token := w.app(named("alerts")).Token
	w.want("Alertmanager", w.ask("POST", "/message", `{"version":"4","alerts":[{"labels":{"alertname":"private"}}]}`, "Authorization: Bearer "+token, isJSON), 400)
	w.want("a stranger", w.ask("POST", "/message", `{"version":"4"}`, "Authorization: Bearer Awrong", isJSON), 401)
	all := lines.All()
	if len(all) != 1 {
		t.Fatalf("%d lines, want 1: %v", len(all), all)
	}
	got := all[0].ContextMap()
	if got["source"] != "api" || got["application"] != "alerts" || !strings.Contains(fmt.Sprint(got["error"]), "A message is required") {
		t.Errorf("line %v", got)
	}
	if text := fmt.Sprint(got); strings.Contains(text, token) || strings.Contains(text, "private") {
		t.Errorf("line with private content: %s", text)
	}
}

// TestRegistryHookComesBack: what could not be stored whole is sent again, and then
// nothing is there twice.
func TestRegistryHookComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldWithoutNetwork(t, func(o *service.Options) { o.Limits.RatePerMinute, o.Limits.Burst = 600, 3 }, webhook.Registry(nil))
		bearer := "Authorization: Bearer " + w.app(named("registry")).Token
		var events []string
		for i := range 8 {
			events = append(events, pushed(fmt.Sprint(i), "hello", fmt.Sprint(i)))
		}
		tries, body := 0, envelopeOf(events...)
		for ; ; tries++ {
			r := w.ask("POST", "/hook/registry", body, bearer, eventsType)
			if r.status == 200 {
				break
			}
			w.want("too fast", r, 429)
			if r.header.Get("Retry-After") == "" || tries > 50 {
				t.Fatalf("try %d: %s", tries, r.body)
			}
			time.Sleep(60 * time.Millisecond)
		}
		r := w.ask("GET", "/message?limit=100", "", bearer)
		if messages := r.fields["messages"].([]any); len(messages) != 8 || tries == 0 {
			t.Errorf("%d messages after %d refusals, want 8 after some", len(messages), tries)
		}
	})
}

func TestRegistryHookWhenTheOutboxIsFull(t *testing.T) {
	w := newWorld(t, func(o *service.Options) { o.Limits.MaxWaiting = 2 })
	defer w.hs.Hold()()
	bearer := "Authorization: Bearer " + w.app(named("registry")).Token
	w.want("the last one that fits is stored whole", w.ask("POST", "/hook/registry", envelopeOf(pushed("1", "a", "1"), pushed("2", "a", "2"), pushed("3", "a", "3")), bearer), 200, "accepted", 3.)
	r := w.ask("POST", "/hook/registry", envelopeOf(pushed("4", "a", "4")), bearer)
	w.want("full", r, 503)
	if r.header.Get("Retry-After") == "" {
		t.Error("nothing says when to come back")
	}
}

// TestHookWithTightLimits: events are cut, and a sender does not repeat one that can never become a message.
func TestHookWithTightLimits(t *testing.T) {
	const alert = `{"status":"firing","labels":{"alertname":"Ä%d"},"annotations":{"description":"%s"},"fingerprint":"f%[1]d"}`
	w := newWorldFor(t, func(o *service.Options) { o.Limits.MaxTitle, o.Limits.MaxMessage = 10, 300 }, webhook.Alertmanager(), webhook.Registry(nil))
	bearer := "Authorization: Bearer " + w.app(named("alerts")).Token
	w.want("a long alert", w.ask("POST", "/hook/alertmanager", fmt.Sprintf(`{"alerts":[`+alert+`]}`, 99, strings.Repeat("<", 300)), bearer), 200, "accepted", 1., "refused", 0.)
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf(alert, i, "d"))
	}
	w.want("a large group", w.ask("POST", "/hook/alertmanager", `{"groupKey":"g","alerts":[`+strings.Join(many, ",")+`]}`, bearer), 200, "refused", 0.)
	w.want("a push", w.ask("POST", "/hook/registry", envelopeOf(pushed("1", "hello", "1")), bearer), 200, "accepted", 1., "refused", 0.)
	var list struct {
		Messages []struct{ Title, Message string }
	}
	if r := w.ask("GET", "/message?limit=5", "", bearer); json.Unmarshal([]byte(r.body), &list) != nil || len(list.Messages) != 3 {
		t.Fatal(r.body)
	}
	for i, title := range []string{"hello:1…", "Firing:…", "Firing:…"} {
		if m := list.Messages[i]; m.Title != title || len(m.Message) > 300 || i > 0 && !strings.HasSuffix(m.Message, "…") {
			t.Errorf("message %d: %+v", i, m)
		}
	}
	w = newWorld(t, func(o *service.Options) { o.Limits.MaxTitle = 2 })
	bearer = "Authorization: Bearer " + w.app(named("registry")).Token
	w.want("no room for a title", w.ask("POST", "/hook/registry", envelopeOf(pushed("1", "hello", "1"), blob), bearer), 200, "accepted", 0., "ignored", 1., "refused", 1.)
}

// TestHookCountsWrongTokens: a registry whose token is no good is a sender like others.
func TestHookCountsWrongTokens(t *testing.T) {
	counts := prometheus.NewRegistry()
	w := newWorld(t, func(o *service.Options) { o.Metrics = service.NewMetrics(counts) })
	w.want("a wrong token", w.ask("POST", "/hook/registry", envelopeOf(), "X-Gotify-Key: Awrong"), 401)
	w.want("reading", w.ask("GET", "/message", "", "X-Gotify-Key: Awrong"), 401)
	const want = `# HELP relay_messages_refused_total Messages not accepted, by kind of refusal.
# TYPE relay_messages_refused_total counter
relay_messages_refused_total{kind="unauthorized"} 1
`
	if err := testutil.GatherAndCompare(counts, strings.NewReader(want), "relay_messages_refused_total"); err != nil {
		t.Error(err)
	}
}

// A wrong method at one of the relay's own paths does not send a message to a topic of that name.
func TestNtfy_OwnPaths(t *testing.T) {
	w := newWorldFor(t, nil, protocol.Ntfy())
	bearer := "Authorization: Bearer " + w.app(named("ntfy")).Token
	for path, allow := range map[string]string{"/heartbeat": "GET, POST", "/heartbeat/x": "GET, POST", "/gotifyinfo": "GET, HEAD", "/message": "DELETE, GET, HEAD, POST"} {
		r := w.ask("PUT", path, "", bearer)
		w.want(path, r, 405)
		if got := r.header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow: %s, want %s", path, got, allow)
		}
	}
	for _, path := range []string{"/ntfy/disk", "/disk"} {
		w.want("DELETE "+path, w.ask("DELETE", path, "", bearer), 405)
	}
	w.want("the pages", w.ask("PUT", "/ui", "", bearer), 404)
	w.want("a topic of another name", w.ask("PUT", "/disk", "", bearer), 200)
	if n := len(w.hs.Sent()); n > 1 {
		t.Errorf("%d messages were sent, want 1", n)
	}
}

// HEAD sends nothing, also where GET does.
func TestNtfy_HeadSendsNothing(t *testing.T) {
	w := newWorldFor(t, nil, protocol.Ntfy())
	issued := w.app(named("a"))
	path := "/" + issued.Token + "/publish?message=x"
	w.want("HEAD", w.ask("HEAD", path, ""), 405)
	w.want("GET", w.ask("GET", path, ""), 200, "event", "message")
	if list := w.manage("GET", "/message", ""); !strings.Contains(list.body, `"message":"x"`) || strings.Count(list.body, `"message":"x"`) != 1 {
		t.Errorf("%s", list.body)
	}
}
