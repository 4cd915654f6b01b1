package protocol

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
)

func TestNtfy(t *testing.T) {
	bearer := "Authorization: Bearer " + token
	for _, tt := range []struct {
		path, body string
		headers    []string
		want       shown
		priority   int
	}{
		{"/" + token, "hi", nil, shown{"", "hi", "text/plain"}, 0},
		{"/ntfy/" + token, "", nil, shown{"", "triggered", "text/plain"}, 0},
		{"/" + token, "hi \n", nil, shown{"", "hi", "text/plain"}, 0},
		{"/" + token, "\n", nil, shown{"", "triggered", "text/plain"}, 0},
		{"/alerts", "hi", []string{bearer, "X-Title: =?utf-8?q?T=C3=BCr?=", "Priority: urgent", "Tags: warning,db"}, shown{"⚠️ Tür", "<p>hi</p><p>Tags: db</p>", "text/html"}, 2},
		{"/alerts", "hi", []string{bearer, "Title: Gr\xf6\xdfe"}, shown{"Größe", "hi", "text/plain"}, 0}, // Latin-1
		{"/alerts?title=t&prio=low&MESSAGE=m", "", []string{bearer}, shown{"t", "m", "text/plain"}, -1},
		{"/alerts", "**b**", []string{bearer, "Markdown: yes", "Priority: u=1"}, shown{"", "**b**", ""}, 0},
		{"/alerts", "hi", []string{bearer, "Click: https://e.org", "Actions: view, Open, https://e.org/x; http, Close, https://e.org/y"}, shown{"", `<p>hi</p><p><a href="https://e.org">https://e.org</a><br><a href="https://e.org/x">Open</a></p>`, "text/html"}, 0},
		{"/alerts?auth=" + base64.RawURLEncoding.EncodeToString([]byte("Basic "+base64.StdEncoding.EncodeToString([]byte(":"+token)))), "hi", nil, shown{"", "hi", "text/plain"}, 0},
		{"/", `{"topic":"` + token + `","message":"m","title":"t","priority":4,"attach":"https://e.org/a.png"}`, nil, shown{"t", `<p>m</p><p><a href="https://e.org/a.png">a.png</a></p>`, "text/html"}, 1},
		{"/" + token, "", []string{"Attach: https://e.org/a.jpg"}, shown{"", `<p>You received a file: a.jpg</p><p><a href="https://e.org/a.jpg">a.jpg</a></p>`, "text/html"}, 0},
		{"/" + token, "Motion", []string{"Attach: https://e.org/a.jpg", "Filename: cam.jpg"}, shown{"", `<p>Motion</p><p><a href="https://e.org/a.jpg">cam.jpg</a></p>`, "text/html"}, 0},
	} {
		b, err := submit(t, Ntfy(), tt.path, tt.body, tt.headers...)
		tt.want.check(t, tt.path+" "+tt.body, b, err)
		if len(b.Drafts) == 1 && (b.Drafts[0].Priority == nil) != (tt.priority == 0) || len(b.Drafts) == 1 && tt.priority != 0 && *b.Drafts[0].Priority != tt.priority {
			t.Errorf("%s %v: priority %v", tt.path, tt.headers, b.Drafts[0].Priority)
		}
		var answer struct {
			ID, Event, Topic, Message string
			Time                      int64
		}
		if w := replied(Ntfy(), b); w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &answer) != nil || len(answer.ID) != 12 || answer.Event != "message" || answer.Topic == "" || answer.Message == "" || answer.Time == 0 {
			t.Errorf("%s: %d %s", tt.path, w.Code, w.Body)
		}
	}
}

// A message with the same sequence replaces the one before.
func TestNtfy_Sequence(t *testing.T) {
	for path, body := range map[string]string{"/" + token + "?sid=disk": "hi", "/": `{"topic":"` + token + `","message":"hi","sequence_id":"disk"}`} {
		b, err := submit(t, Ntfy(), path, body)
		if err != nil || b.Drafts[0].Key != "disk" || b.Drafts[0].Change != post.Update {
			t.Errorf("%s: %+v, %v", path, b.Drafts, err)
		}
	}
}

// A delayed message is due at a time, or after one.
func TestNtfy_Delay(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"Delay: 30m": 30 * time.Minute, "X-At: 1 Day": 24 * time.Hour, "In: 2 min": 2 * time.Minute,
		"At: " + strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10): time.Hour, "At: " + time.Now().Add(2*time.Hour).Format(time.RFC3339): 2 * time.Hour,
	} {
		b, err := submit(t, Ntfy(), "/"+token, "hi", header)
		if err != nil || time.Until(b.Drafts[0].Later).Round(time.Minute) != want {
			t.Errorf("%s: %v, %v", header, b.Drafts, err)
			continue
		}
		var answer struct{ Time int64 }
		if w := replied(Ntfy(), b); json.Unmarshal(w.Body.Bytes(), &answer) != nil || answer.Time != b.Drafts[0].Later.Unix() {
			t.Errorf("%s: %s", header, w.Body)
		}
	}
}

func TestNtfyRefuses(t *testing.T) {
	for _, tt := range []struct {
		header string
		code   float64
	}{{"Priority: 9", 40007}, {"Delay: soon", 40004}, {"In: 9s", 40005}, {"At: 4 days", 40006}, {"In: 213504 days", 40006}, {"Actions: [", 40018}, {"Actions: view,a,b;view,a,b;view,a,b;view,a,b", 40018}} {
		_, err := submit(t, Ntfy(), "/"+token, "hi", tt.header)
		checkNtfy(t, err, http.StatusBadRequest, tt.code)
	}
	checkNtfy(t, errToken, http.StatusUnauthorized, 40101)
	checkNtfy(t, errFast, http.StatusTooManyRequests, 42901)
	checkNtfy(t, &refusal.Error{Kind: refusal.KindTooLarge}, http.StatusRequestEntityTooLarge, 41301)
}

func checkNtfy(t *testing.T, err error, status int, code float64) {
	t.Helper()
	w := failed(Ntfy(), err)
	var answer map[string]any
	if json.Unmarshal(w.Body.Bytes(), &answer) != nil || w.Code != status || answer["code"] != code || answer["http"] != float64(status) {
		t.Errorf("%v: %d %s, want %v", err, w.Code, w.Body, code)
	}
}

func TestNtfyFile(t *testing.T) {
	for _, tt := range []struct {
		path, body, filename, name string
		want                       bool
	}{
		{"alerts", "text", "", "", false},
		{"alerts", "text", "a.txt", "a.txt", true},
		{"alerts", "\xff\xd8\xff\xe0", "", "", true},
		{"alerts", "cut within \xe2\x82", "", "", false},
		{"alerts", "\xff\xfe7", "", "", true},
		{"", "{}", "a.txt", "", false}, // JSON at the root
	} {
		r := &Request{Request: httptest.NewRequest(http.MethodPut, "/"+tt.path, nil), Path: map[string]string{"topic": tt.path}}
		r.Header.Set("Filename", tt.filename)
		if name, ok := ntfyFile(r, []byte(tt.body)); name != tt.name || ok != tt.want {
			t.Errorf("%q %q: %q, %v", tt.body, tt.filename, name, ok)
		}
	}
	r := &Request{Request: httptest.NewRequest(http.MethodPut, "/alerts", nil), Path: map[string]string{"topic": "alerts"}, Files: []File{{ID: 1, Name: "a.png"}}}
	b, err := Ntfy().Parse(r, App{})
	shown{"", "You received a.png", "text/plain"}.check(t, "a file", b, err)
	if len(b.Drafts[0].Files) != 1 {
		t.Error("the draft has no attachment")
	}
}

// Templates of the publisher are executed over the JSON of the body.
func TestNtfy_Template(t *testing.T) {
	const body = `{"alert":"disk full","host":{"name":"db1"},"n":3,"list":[1,2]}`
	for path, want := range map[string]shown{
		"/" + token + "?template=yes&title={{.alert}}&message=on+{{.host.name}}+{{.n}}":    {"disk full", "on db1 3", "text/plain"},
		"/" + token + "?tpl=1&t={{.alert}}&m={{range+.list}}{{.}}%3B{{end}}":               {"disk full", "1;2;", "text/plain"},
		"/" + token + "?template=no&title={{.alert}}":                                      {"{{.alert}}", body, "text/plain"},
		"/" + token + "?tpl=true&m={{if+.missing}}x{{end}}":                                {"", "triggered", "text/plain"},
		"/ntfy/" + token + "?template=yes&message=%7B%7Bupper+.alert%7D%7D+<b>&priority=5": {"", "DISK FULL <b>", "text/plain"},
	} {
		b, err := submit(t, Ntfy(), path, body)
		want.check(t, path, b, err)
	}
	b, err := submit(t, Ntfy(), "/"+token, `{"status":"firing","groupLabels":{"alertname":"Down"},"alerts":[{"status":"firing","labels":{"alertname":"Down","job":"x"},"annotations":{"summary":"It is down"},"generatorURL":"https://p.example.org"}]}`, "X-Template: alertmanager")
	shown{"Firing: Down", "Firing: It is down\nalertname: Down\njob: x\nhttps://p.example.org", "text/plain"}.check(t, "alertmanager", b, err)
	b, err = submit(t, Ntfy(), "/"+token+"?template=grafana", `{"title":"[FIRING:1] CPU","message":"too hot","alerts":[]}`)
	shown{"[FIRING:1] CPU", "too hot", "text/plain"}.check(t, "grafana", b, err)
	b, err = submit(t, Ntfy(), "/"+token+"?template=github", `{"action":"opened","issue":{"number":7,"title":"Bug","html_url":"https://g.example/7"},"repository":{"full_name":"a/b"},"sender":{"login":"ann"}}`)
	shown{"a/b: opened", "#7 Bug\nhttps://g.example/7\nann", "text/plain"}.check(t, "github", b, err)
	for query, code := range map[string]float64{
		"template=yes&message={{.x":                        40043,
		"template=yes&message={{nothing+.x}}":              40043,
		"template=yes&message={{template+%22x%22}}":        40044,
		"template=yes&message={{-+define+%22x%22}}{{end}}": 40044,
		"template=yes&message={{call+.x}}":                 40044,
		"template=yes&message={{.alert.name}}":             40045,
		"template=yes&message={{index+.list+9}}":           40045,
		"template=nothing":                                 40047,
		"actions=launch,x,url%3Dhttps://e.org":             40018,
		"attach=nonsense":                                  40013,
		"icon=ftp://e.org":                                 40021,
		"p=9":                                              40007,
	} {
		_, err := submit(t, Ntfy(), "/"+token+"?"+query, body)
		checkNtfy(t, err, http.StatusBadRequest, code)
	}
	_, err = submit(t, Ntfy(), "/"+token+"?template=yes&message={{.x}}", "no JSON")
	checkNtfy(t, err, http.StatusBadRequest, 40042)
	for body, code := range map[string]float64{`{"topic":"` + token + `","priority":9}`: 40007, `{"topic":"` + token + `","priority":-1}`: 40007, `{"topic":"` + token + `","actions":[{"action":"launch","label":"x"}]}`: 40018, `{`: 40024} {
		_, err := submit(t, Ntfy(), "/", body, "Authorization: Bearer "+token)
		checkNtfy(t, err, http.StatusBadRequest, code)
	}
}

// The answer to a file has its address: clients fail without it.
func TestNtfy_FileAnswer(t *testing.T) {
	r := &Request{Request: httptest.NewRequest(http.MethodPut, "http://relay.example.org/alerts", nil), Path: map[string]string{"topic": "alerts"}, Files: []File{{ID: 1, Name: "a.png", Type: "image/png", Size: 7}}}
	r.Header.Set("X-Forwarded-Proto", "https")
	b, err := Ntfy().Parse(r, App{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	Ntfy().Reply(w, Result{Parsed: b, Messages: []post.Accepted{{View: post.View{Entry: post.Entry{ID: 42, Content: post.Content{Attachments: post.EncodeAttachments(r.Files)}}}}}})
	var answer struct{ Attachment ntfyAttachment }
	if want := (ntfyAttachment{"a.png", "image/png", 7, "https://relay.example.org/ui/messages/42"}); json.Unmarshal(w.Body.Bytes(), &answer) != nil || answer.Attachment != want {
		t.Errorf("%s", w.Body)
	}
}
