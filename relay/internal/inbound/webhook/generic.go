package webhook

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"slipway/relay/internal/fields"
	"slipway/relay/internal/format"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/inbound"
	"slipway/relay/internal/markup"
	"slipway/relay/internal/refusal"
)

// Generic takes whatever a program posts: title, message, priority and url are found in JSON and forms under their usual
// names, a text is the message, and other JSON is shown as it is.
func Generic() inbound.Protocol {
	routes := hook("generic")
	for _, r := range hook("generic") {
		r.Method = http.MethodPut
		routes = append(routes, r)
	}
	return inbound.Protocol{
		Name: "generic", Routes: routes, Token: inbound.Token, Files: true,
		Parse: func(r *inbound.Request, _ inbound.App) (inbound.Batch, error) { return parseGeneric(r, format.Plain) },
		Reply: func(w http.ResponseWriter, res inbound.Result) {
			httprequest.WriteJSON(w, http.StatusOK, map[string]any{"success": true, "id": res.Messages[0].ID})
		},
		Fail: httprequest.WriteError,
	}
}

// Hookshot is the generic webhook of matrix-hookshot and of t2bot.io: text in Markdown, or HTML next to it
// (https://matrix-org.github.io/matrix-hookshot/latest/setup/webhooks.html).
func Hookshot() inbound.Protocol {
	return inbound.Protocol{
		Name: "hookshot",
		Routes: []inbound.Route{
			{Method: http.MethodPost, Path: "/webhook/{token}"},
			{Method: http.MethodPut, Path: "/webhook/{token}"},
			{Method: http.MethodPost, Path: "/api/v1/matrix/hook/{token}"},
		},
		Token: inbound.Token, Files: true,
		Parse: func(r *inbound.Request, _ inbound.App) (inbound.Batch, error) { return parseGeneric(r, "") },
		Reply: func(w http.ResponseWriter, _ inbound.Result) {
			httprequest.WriteJSON(w, http.StatusAccepted, map[string]any{"ok": true, "success": true})
		},
		Fail: httprequest.WriteError,
	}
}

// Apprise is the API of an Apprise server (https://github.com/caronc/apprise-api). The key of a configuration, in the
// path or in X-Apprise-Config-ID, is the application's token.
func Apprise() inbound.Protocol {
	return inbound.Protocol{
		Name: "apprise", Routes: []inbound.Route{{Method: http.MethodPost, Path: "/notify"}, {Method: http.MethodPost, Path: "/notify/{token}"}},
		Token: func(r *inbound.Request) (string, error) {
			token, err := inbound.Token(r)
			if token == "" && err == nil {
				token = r.Header.Get("X-Apprise-Config-ID")
			}
			return token, err
		},
		Files: true,
		Parse: func(r *inbound.Request, _ inbound.App) (inbound.Batch, error) { return parseGeneric(r, format.Plain) },
		Reply: func(w http.ResponseWriter, _ inbound.Result) {
			httprequest.WriteJSON(w, http.StatusOK, map[string]any{"error": nil})
		},
		Fail: httprequest.WriteError,
	}
}

// generic is what the usual names hold.
type generic struct {
	title, text, html, url string
	mediaType              string
	priority               *int
	links                  []string // attachments that are addresses
}

// set takes a field; the first of several names for the same thing wins.
func (g *generic) set(r *inbound.Request, name string, v fields.Value) error {
	if _, isFile := v.File(); isFile {
		return nil // it is one of the request's files
	}
	to := map[string]*string{
		"title": &g.title, "subject": &g.title, "message": &g.text, "text": &g.text, "body": &g.text, "msg": &g.text, "content": &g.text,
		"html": &g.html, "url": &g.url, "link": &g.url, "click": &g.url, "ruleurl": &g.url, "format": &g.mediaType,
	}[strings.ToLower(name)]
	switch {
	case to != nil && *to == "":
		if text, err := v.Text(name); err == nil && text != nil {
			*to = *text
		}
	case slices.Contains([]string{"attachments", "attachment", "attach"}, strings.ToLower(name)):
		if links, err := r.NameFiles(v); err == nil {
			g.links = append(g.links, links...)
		}
	case strings.EqualFold(name, "priority"):
		if n, err := v.Integer(name); err == nil && n != nil {
			p := min(max(*n, -2), 2)
			g.priority = &p
		}
	case strings.EqualFold(name, "type"): // Apprise's
		if text, err := v.Text(name); err == nil && text != nil && *text == "failure" {
			p := 1
			g.priority = &p
		}
	}
	return nil
}

var formats = map[string]string{"markdown": "", "html": format.HTML, "text": format.Plain, "plain": format.Plain}

// parseGeneric makes a message of a body in any form. Text that names no format has the one given.
func parseGeneric(r *inbound.Request, textFormat string) (inbound.Batch, error) {
	body, err := inbound.HookBody(r)
	if err != nil {
		return inbound.Batch{}, err
	}
	contentType := r.Header.Get("Content-Type")
	mediaType, _, _ := mime.ParseMediaType(contentType)
	g := generic{}
	if text, kind, ok, err := fields.Text(contentType, body); ok && err == nil && !json.Valid(body) {
		g.text, g.mediaType = text, strings.TrimPrefix(kind, "text/")
	} else if fields.IsJSON(body) || strings.HasPrefix(mediaType, "multipart/") || mediaType == "application/x-www-form-urlencoded" {
		if err := fields.Each(contentType, body, func(name string, v fields.Value) error { return g.set(r, name, v) }); err != nil {
			return inbound.Batch{}, err
		}
	} else if !json.Valid(body) {
		g.text = string(body)
	}
	d := inbound.Draft{Title: g.title, Message: g.text, Priority: g.priority, ContentType: textFormat, IdempotencyKey: r.Header.Get("Idempotency-Key")}
	if kind, known := formats[g.mediaType]; known {
		d.ContentType = kind
	}
	switch {
	case g.text == "" && g.title == "" && g.html == "" && len(r.Files) > 0:
		d.Message, d.ContentType = r.FileText(), format.Plain
	case g.html != "":
		d.Message, d.ContentType = g.html, format.HTML
	case g.text == "" && g.title == "" && json.Valid(body):
		d.Message, d.ContentType = dump(body), format.HTML
	}
	if !utf8.ValidString(d.Message) || strings.TrimSpace(d.Message) == "" && d.Title == "" {
		return inbound.Batch{}, refusal.Invalid("message", "The body has no text that can be shown.")
	}
	if d.Message == "" {
		d.Title, d.Message = "", d.Title
	}
	inbound.AddLinks(&d, g.links)
	if markup.IsWeb(g.url) {
		switch d.ContentType {
		case format.HTML:
			d.Message = markup.Paragraphs(d.Message, markup.Link("", g.url))
		default:
			d.Message += "\n\n" + g.url
		}
	}
	d.Attachments = r.Files
	return one(d), nil
}

// maxDump bounds the JSON that a message shows.
const maxDump = 16 << 10

// dump shows JSON that has no text under a usual name.
func dump(body []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, body, "", "  ") != nil {
		return ""
	}
	return "<pre><code class=\"language-json\">" + markup.Escape(markup.Cut(out.String(), maxDump)) + "</code></pre>"
}
