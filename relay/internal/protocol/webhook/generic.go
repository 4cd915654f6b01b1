package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// Generic takes whatever a program posts: title, message, priority and url are found in JSON and forms under their usual
// names, a text is the message, and other JSON is shown as it is.
func Generic() protocol.Protocol {
	return protocol.Protocol{
		Name: "generic", Routes: withMethod(hook("generic"), http.MethodPut), Token: protocol.Token, Files: true,
		Parse: func(r *protocol.Request, _ protocol.App) (protocol.Parsed, error) {
			return parseGeneric(r, format.Plain, true)
		},
		Reply: func(w http.ResponseWriter, res protocol.Result) {
			request.WriteJSON(w, http.StatusOK, map[string]any{"success": true, "id": res.Messages[0].ID})
		},
		Fail: request.WriteError,
	}
}

// Hookshot is the generic webhook of matrix-hookshot and of t2bot.io: text in Markdown, or HTML next to it
// (https://matrix-org.github.io/matrix-hookshot/latest/setup/webhooks.html).
func Hookshot() protocol.Protocol {
	return protocol.Protocol{
		Name: "hookshot",
		Routes: []protocol.Route{
			{Method: http.MethodPost, Path: "/webhook/{token}"},
			{Method: http.MethodPut, Path: "/webhook/{token}"},
			{Method: http.MethodPost, Path: "/api/v1/matrix/hook/{token}"},
		},
		Token: protocol.Token, Files: true,
		Parse: func(r *protocol.Request, _ protocol.App) (protocol.Parsed, error) { return parseGeneric(r, "", false) },
		Reply: func(w http.ResponseWriter, _ protocol.Result) {
			request.WriteJSON(w, http.StatusAccepted, map[string]any{"ok": true, "success": true})
		},
		Fail: request.WriteError,
	}
}

// Apprise is the API of an Apprise server (https://github.com/caronc/apprise-api). The key of a configuration, in the
// path or in X-Apprise-Config-ID, is the application's token.
func Apprise() protocol.Protocol {
	return protocol.Protocol{
		Name: "apprise", Routes: []protocol.Route{{Method: http.MethodPost, Path: "/notify"}, {Method: http.MethodPost, Path: "/notify/{token}"}},
		Token: func(r *protocol.Request) (string, error) {
			token, err := protocol.Token(r)
			if token == "" && err == nil {
				token = r.Header.Get("X-Apprise-Config-ID")
			}
			return token, err
		},
		Files: true,
		Parse: func(r *protocol.Request, _ protocol.App) (protocol.Parsed, error) {
			return parseGeneric(r, format.Plain, false)
		},
		Reply: func(w http.ResponseWriter, _ protocol.Result) {
			request.WriteJSON(w, http.StatusOK, map[string]any{"error": nil})
		},
		Fail: request.WriteError,
	}
}

// generic is what the usual names hold.
type generic struct {
	title, text, html, url string
	mediaType              string
	priority               *int
	links                  []string // attachments that are addresses

	rest   map[string]request.Value // what none of the others holds; nil if nobody asks
	rename map[string]string        // by the names of the sender, as Apprise's API maps them
}

// usualNames has the names for one thing in the order in which they win.
var usualNames = []string{"title", "subject", "message", "text", "body", "msg", "content", "url", "link", "click", "ruleurl"}

// read takes the fields that each passes on. Their order doesn't matter: those of JSON have none, and a request that is repeated must make the
// same message.
func (g *generic) read(r *protocol.Request, each func(request.Func) error) error {
	type field struct {
		name  string
		rank  int
		value request.Value
	}
	var fields []field
	err := each(func(name string, v request.Value) error {
		fields = append(fields, field{name, slices.Index(usualNames, strings.ToLower(cmp.Or(g.rename[name], name))), v})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name)) })
	for _, f := range fields {
		if err := g.set(r, f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

// set takes a field; the first of several names for the same thing wins.
func (g *generic) set(r *protocol.Request, name string, v request.Value) error {
	if _, isFile := v.File(); isFile {
		return nil // it is one of the request's files
	}
	if known, ok := g.rename[name]; ok {
		name = known
	}
	to := map[string]*string{
		"title": &g.title, "subject": &g.title, "message": &g.text, "text": &g.text, "body": &g.text, "msg": &g.text, "content": &g.text,
		"html": &g.html, "url": &g.url, "link": &g.url, "click": &g.url, "ruleurl": &g.url, "format": &g.mediaType,
	}[strings.ToLower(name)]
	switch {
	case to != nil && *to == "":
		if text, err := v.Words(name); err == nil && text != nil {
			*to = *text
			if to == &g.url && !format.IsWeb(g.url) {
				g.url = ""
				g.keep(name, v)
			}
		}
	case slices.Contains([]string{"attachments", "attachment", "attach"}, strings.ToLower(name)):
		links, err := r.AddFiles(v)
		if errors.Is(err, protocol.ErrNotBase64) {
			return err
		}
		g.links = append(g.links, links...)
	case strings.EqualFold(name, "priority"):
		if p, _, err := protocol.Priority(name, v); err != nil {
			g.keep(name, v)
		} else if p != nil {
			*p = min(max(*p, post.MinPriority), post.MaxPriority)
			g.priority = p
		}
	case strings.EqualFold(name, "type"): // Apprise's
		text, err := v.Text(name)
		if err != nil || text == nil {
			return nil //nolint:nilerr // it is none
		}
		if *text == "failure" && g.priority == nil {
			p := 1
			g.priority = &p
		}
		if !slices.Contains([]string{"info", "success", "warning", "failure"}, *text) {
			g.keep(name, v)
		}
	default:
		g.keep(name, v)
	}
	return nil
}

// keep keeps a field that has none of the usual names.
func (g *generic) keep(name string, v request.Value) {
	if g.rest != nil {
		g.rest[name] = v
	}
}

var formats = map[string]string{"markdown": "", "html": format.HTML, "text": format.Plain, "plain": format.Plain}

// parseQuery makes a message of a GET, which has only parameters. Without a text among them it may be a POST that was redirected.
func parseQuery(r *protocol.Request) (protocol.Parsed, error) {
	g := generic{}
	if err := g.query(r); err != nil {
		return protocol.Parsed{}, err
	}
	if strings.TrimSpace(g.text) == "" {
		return protocol.Parsed{}, refusal.Invalid("msg", "A GET needs its text in the address, as msg, besides title. If it was a POST, a redirect has made a GET of it: use the address that the redirect leads to.")
	}
	return one(post.Draft{Content: post.Content{Title: g.title, Body: g.text, ContentType: format.Plain}, Priority: g.priority}), nil
}

// query takes the parameters of the address, except the token.
func (g *generic) query(r *protocol.Request) error {
	query := r.URL.Query()
	query.Del("token")
	return g.read(r, func(f request.Func) error { return request.EachOf(query, f) })
}

// parseGeneric makes a message of a body in any form. Text that names no format has the one given. withRest adds the fields that have none of
// the usual names.
func parseGeneric(r *protocol.Request, textFormat string, withRest bool) (protocol.Parsed, error) {
	body, err := protocol.HookBody(r)
	if err != nil {
		return protocol.Parsed{}, err
	}
	contentType := r.Header.Get("Content-Type")
	mediaType, _, _ := mime.ParseMediaType(contentType)
	g := generic{rename: renamed(r)}
	if withRest {
		g.rest = map[string]request.Value{}
	}
	if text, kind, ok, err := request.Text(contentType, body); ok && err == nil && !json.Valid(body) {
		g.text, g.mediaType = text, strings.TrimPrefix(kind, "text/")
	} else if request.IsJSON(body) || strings.HasPrefix(mediaType, "multipart/") || mediaType == "application/x-www-form-urlencoded" {
		if err := g.read(r, func(f request.Func) error { return request.Each(contentType, body, f) }); err != nil {
			return protocol.Parsed{}, err
		}
	} else if !json.Valid(body) {
		g.text = string(body)
	}
	if !withRest { // Apprise's API has title, type and format in the address, too
		if err := g.query(r); err != nil {
			return protocol.Parsed{}, err
		}
	}
	d := post.Draft{Content: post.Content{Title: g.title, Body: g.text, ContentType: textFormat}, Priority: g.priority, IdempotencyKey: r.Header.Get("Idempotency-Key")}
	if kind, known := formats[g.mediaType]; known {
		d.ContentType = kind
	}
	switch {
	case g.text == "" && g.title == "" && g.html == "" && len(r.Files) > 0:
		d.Body, d.ContentType = r.FileText(), format.Plain
	case g.html != "":
		d.Body, d.ContentType = g.html, format.HTML
	case g.text == "" && g.title == "" && json.Valid(body):
		d.Body, d.ContentType = dump(body), format.HTML
	case g.text == "" && g.title == "" && len(g.rest) > 0: // a form
		d.Body, d.ContentType = dump(g.form()), format.HTML
	default:
		g.addRest(&d)
	}
	if !utf8.ValidString(d.Body) || strings.TrimSpace(d.Body) == "" && d.Title == "" {
		return protocol.Parsed{}, refusal.Invalid("message", "The body has no text that can be shown.")
	}
	if d.Body == "" {
		d.Title, d.Body = "", d.Title
	}
	protocol.AddLinks(&d, g.links)
	if format.IsWeb(g.url) {
		protocol.AddLinks(&d, []string{g.url})
	}
	d.Files = r.Files
	return one(d), nil
}

// renamed returns the names of fields that a request to Apprise's API maps, as ?:alert=body does.
func renamed(r *protocol.Request) map[string]string {
	names := map[string]string{}
	for name, values := range r.URL.Query() {
		if from, mapped := strings.CutPrefix(name, ":"); mapped {
			names[from] = values[0]
		}
	}
	return names
}

const (
	maxRest      = 40   // fields below a text
	maxRestValue = 2000 // bytes of one
	maxRestDepth = 4
)

// addRest adds the simple fields that the text doesn't have, such as the pod of an event, in lines below it.
func (g *generic) addRest(d *post.Draft) {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(g.rest)) {
		lines = simple(lines, name, g.rest[name], 0)
	}
	if len(lines) == 0 {
		return
	}
	if d.Body == "" {
		d.Body, d.ContentType = strings.Join(lines, "\n"), format.Plain
		return
	}
	switch d.ContentType {
	case format.Plain:
		d.Body += "\n\n" + strings.Join(lines, "\n")
		return
	case format.HTML:
	default:
		d.Body, _ = format.Body(format.Markdown, d.Body)
	}
	d.Body, d.ContentType = d.Body+format.Paragraphs(format.Text(strings.Join(lines, "\n"))), format.HTML
}

// simple adds the lines of a value that is neither empty nor too long, and of those in an object.
func simple(lines []string, name string, v request.Value, depth int) []string {
	if len(lines) == maxRest || depth == maxRestDepth {
		return lines
	}
	if v.IsJSON() && request.IsJSON(v.Raw()) {
		within := make(map[string]request.Value)
		_ = request.Each("application/json", v.Raw(), func(part string, v request.Value) error {
			within[part] = v
			return nil
		})
		for _, part := range slices.Sorted(maps.Keys(within)) {
			lines = simple(lines, name+"."+part, within[part], depth+1)
		}
		return lines
	}
	text, err := v.Words(name)
	if err != nil || text == nil || strings.TrimSpace(*text) == "" {
		return lines
	}
	value := *text
	if strings.ContainsRune(value, '\n') {
		value = strings.Join(strings.Fields(value), " ")
	}
	return append(lines, format.Line(name, 200)+": "+format.Cut(strings.ToValidUTF8(value, "\uFFFD"), maxRestValue))
}

// form returns a form as JSON.
func (g *generic) form() []byte {
	all := map[string]string{}
	for name, v := range g.rest {
		if text, err := v.Text(name); err == nil && text != nil {
			all[name] = *text
		}
	}
	text, _ := json.Marshal(all) // strings always encode
	return text
}

// maxDump bounds the JSON that a message shows.
const maxDump = 16 << 10

// dump shows JSON that has no text under a usual name.
func dump(body []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, request.Unescape(body), "", "  ") != nil {
		return ""
	}
	return "<pre><code class=\"language-json\">" + format.Escape(format.Cut(out.String(), maxDump)) + "</code></pre>"
}
