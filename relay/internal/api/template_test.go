package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
)

func TestApplyTemplates(t *testing.T) {
	w := newWorld(t, nil)
	title, text := "{{.alert.name}} of {{.group}}", "{{.alert.text.value}}"
	with := named("templates")
	with.TemplateTitle, with.TemplateText = &title, &text
	created := w.app(with)
	app, err := w.service.App(t.Context(), created.Application.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		body          string
		titles, notes string
	}{
		{`{"group":"g","alerts":[{"name":"a","text":{"value":"v"}},{"name":"b","text":{"value":"v"}}]}`, "a of g|b of g", "|"},
		{`{"group":"g","alerts":[{"name":"a"},{"name":"b","text":{"value":"v"}}]}`, "1|b of g", "The template failed: template_text|"},
		{`{"alerts":[` + strings.Repeat("1,", 6000) + `1]}`, "1|2", "The template failed: the payload|The template failed: the payload"},
		{`not JSON`, "1|2", "The template failed: |The template failed: "},
	} {
		in := &protocol.Request{Request: httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(tt.body)), Body: []byte(tt.body)}
		drafts := []post.Draft{{Content: post.Content{Title: "1", Body: "m"}}, {Content: post.Content{Title: "2", Body: "m"}}}
		w.api.applyTemplates(in, app, drafts)
		if got := drafts[0].Title + "|" + drafts[1].Title; got != tt.titles {
			t.Errorf("%.40s: titles %s", tt.body, got)
		}
		for i, note := range strings.Split(tt.notes, "|") {
			if !strings.HasPrefix(drafts[i].Note, note) || note == "" && drafts[i].Note != "" {
				t.Errorf("%.40s: note %q", tt.body, drafts[i].Note)
			}
		}
	}
}

// A title that a template makes too long is cut: the sender's message would be refused.
func TestApplyTemplates_LongTitle(t *testing.T) {
	w := newWorld(t, nil)
	title, with := "{{.s}}", named("templates")
	with.TemplateTitle = &title
	w.want("a long title", w.ask("POST", "/message", `{"message":"m","s":"`+strings.Repeat("ä", 1000)+`"}`, "Authorization: Bearer "+w.app(with).Token), 200, "title", strings.Repeat("ä", 510)+"…")
}
