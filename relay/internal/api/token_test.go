package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/protocol/webhook"
	"slipway/relay/internal/service"
)

// The readers of a message don't see the token that it was sent with, wherever the sender has put it.
func TestTokenIsNotShown(t *testing.T) {
	w := newWorldFor(t, func(o *service.Options) {
		o.Accounts.SecretKey = []byte("0123456789abcdef0123456789abcdef")
		o.Limits = service.Limits{MaxAttachments: testAttachments}
	}, webhook.Generic())
	text := "{{.of}}: {{.hook.url}} {{json .}}"
	with := named("templates")
	with.TemplateText = &text
	templates := w.app(with)
	app := w.app(named("a"))
	key := "X-Gotify-Key: " + app.Token
	file, kind := form("title", app.Token, "message", "m", "f/"+app.Token+".txt", "x")
	for i, r := range []reply{
		w.ask("POST", "/message", `{"title":"to `+app.Token+`","message":"**`+app.Token+`**"}`, key, isJSON),
		w.ask("POST", "/message", `{"message":"m","extras":{"client::notification":{"click":{"url":"https://e.org/`+app.Token+`"}}}}`, key, isJSON),
		w.ask("POST", "/message", `{"message":"m","key":"`+app.Token+`","thread":"`+app.Token+`"}`, key, isJSON),
		w.ask("POST", "/message", file, key, kind),
		w.ask("POST", "/hook/generic/"+app.Token, `{"zen":"z","hook":{"url":"https://e.org/hook/generic/`+app.Token+`"}}`, isJSON),
		w.ask("POST", "/hook/generic/"+templates.Token, `{"of":"`+templates.Token+`","hook":{"url":"https://e.org/`+templates.Token+`"}}`, isJSON),
		w.ask("POST", "/message", `{"title":"to `+app.Token[:4]+`\u0000`+app.Token[4:]+`","message":"`+app.Token[:4]+`\u0001`+app.Token[4:]+`"}`, key, isJSON),
		w.ask("POST", "/message", `{"message":{"a":{"b":{"c":{"d":{"e":"`+escaped(app.Token)+`"}}}}}}`, key, isJSON),
		w.ask("POST", "/hook/generic/"+app.Token, `{"zen":"z","of":{"x":"`+escaped(app.Token)+`"}}`, isJSON),
		w.ask("POST", "/hook/generic/"+templates.Token, `{"of":"`+escaped(templates.Token)+`","hook":{"url":"https://e.org/`+templates.Token+`"}}`, isJSON),
		w.ask("POST", "/message", fmt.Sprintf(`{"message":"m","extras":{"a":"\u%04x%s"}}`, app.Token[0], app.Token[1:]), key, isJSON),
		w.ask("POST", "/message", `{"message":"split **`+app.Token[:4]+`**`+app.Token[4:]+`","extras":{"client::display":{"contentType":"text/markdown"}}}`, key, isJSON),
		w.ask("PUT", "/message/1", `{"message":"`+app.Token+`"}`, key, isJSON),
	} {
		if r.status != 200 {
			t.Errorf("request %d: %d %s", i, r.status, r.body)
		}
	}
	all := w.manage("GET", "/message", "").body + w.manage("GET", "/alert", "").body
	if !strings.Contains(all, `"split …"`) {
		t.Error("markup joins the token")
	}
	all = strings.NewReplacer(`\u0000`, "", `\u0001`, "").Replace(all)
	for _, a := range []int64{app.Application.ID, templates.Application.ID} {
		payload, err := w.service.Payload(t.Context(), w.admin, a)
		if err != nil {
			t.Fatal(err)
		}
		preview, err := w.service.Preview(t.Context(), w.admin, a, account.ApplicationInput{TemplateText: &text}, payload)
		if err != nil || preview.Error != "" {
			t.Fatal(err, preview.Error)
		}
		all += string(payload) + preview.Title + preview.Message
	}
	for _, token := range []string{app.Token, templates.Token} {
		if i := strings.Index(all, token[1:]); i >= 0 { // the first character may be escaped
			t.Errorf("…%s", all[max(i-80, 0):i+len(token)])
		}
	}
	if !strings.Contains(all, "https://e.org/hook/generic/…") {
		t.Error("what surrounds the token is gone, too")
	}
}

// escaped returns a token in JSON with an escape of its first character.
func escaped(token string) string { return fmt.Sprintf(`\u%04x%s`, token[0], token[1:]) }

// While an application has two valid tokens, a message sent with one of them doesn't show the other. One sent with a client's token doesn't
// show the application's.
func TestTokenIsNotShown_WhileTwoAreValid(t *testing.T) {
	w := newWorldFor(t, func(o *service.Options) {
		o.Accounts.SecretKey = []byte("0123456789abcdef0123456789abcdef")
		o.Limits = service.Limits{MaxAttachments: testAttachments}
	}, webhook.Generic())
	text := "{{.of}}"
	with := named("a")
	with.TemplateText = &text
	app := w.app(with)
	issued, err := w.service.RegenerateToken(t.Context(), w.admin, app.Application.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{app.Token, issued.Token}
	for i, token := range tokens {
		other := tokens[1-i]
		file, kind := form("title", other, "message", "see\n"+other, "f/"+other+".txt", "x")
		for _, r := range []reply{
			w.ask("POST", "/message", file, "X-Gotify-Key: "+token, kind),
			w.ask("POST", "/message", `{"message":"m","extras":{"a":"\n`+other+`"}}`, "X-Gotify-Key: "+token, isJSON),
			w.ask("POST", "/hook/generic/"+token, `{"of":"`+escaped(other)+`"}`, isJSON),
		} {
			if r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		}
	}
	payload, err := w.service.Payload(t.Context(), w.admin, app.Application.ID)
	if err != nil {
		t.Fatal(err)
	}
	single := w.app(named("b"))
	tokens = append(tokens, single.Token)
	if r := w.gotify(admin).ask("POST", fmt.Sprint("/message?appid=", single.Application.ID), `{"message":"by a client: `+single.Token+`"}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	all := w.manage("GET", "/message", "").body + string(payload)
	for i, token := range tokens {
		if strings.Contains(all, token[1:]) {
			t.Errorf("token %d is shown: %s", i, all)
		}
	}
}
