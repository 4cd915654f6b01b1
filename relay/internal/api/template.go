package api

import (
	"encoding/json"
	"net/http"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/template"
)

// payloadOf returns the JSON of a request, or the fields of a form, without the application's tokens.
func payloadOf(in *protocol.Request, app *account.App) ([]byte, error) {
	body, err := jsonOf(in)
	return []byte(app.HideTokens(string(request.Unescape(body)), in.Token)), err
}

func jsonOf(in *protocol.Request) ([]byte, error) {
	body, err := protocol.HookBody(in)
	if err != nil || json.Valid(body) {
		return body, err
	}
	form := map[string]string{}
	err = request.Each(in.Header.Get("Content-Type"), in.Body, func(name string, v request.Value) error {
		if text, err := v.Text(name); err == nil && text != nil {
			form[name] = *text
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(form)
}

// applyTemplates makes the drafts of a request by the application's templates, and keeps its payload for previews. If that fails they
// stay as they are, with a note.
func (a *API) applyTemplates(in *protocol.Request, app *account.App, drafts []post.Draft) {
	if n := len(drafts); n > 0 && drafts[n-1].Crowd >= post.CrowdWhole { // it has no alert of its own
		drafts = drafts[:n-1]
	}
	if len(drafts) == 0 {
		return
	}
	set := account.TemplatesOf(&app.Application)
	if !set.Any() && !app.KeepsPayload() {
		return
	}
	body, err := payloadOf(in, app)
	var data map[string]any
	if err == nil {
		data, err = template.Payload(body)
	}
	if err == nil {
		a.keepPayload(in, app, data)
	}
	if !set.Any() {
		return
	}
	m, mediaType := account.MarkupOf(app.DefaultFormat)
	templates := set.Compile(m)
	for i := range drafts {
		d, failed := &drafts[i], err
		var made template.Message
		if failed == nil {
			made, failed = templates.Render(template.ForAlert(data, i, len(drafts)))
		}
		if failed != nil {
			d.Note = "The template failed: " + failed.Error() + "."
			continue
		}
		apply(d, made, mediaType)
		if made.Title != nil { // the sender can't make it shorter
			d.Title = a.service.ShortTitle(d.Title)
		}
	}
}

func apply(d *post.Draft, made template.Message, mediaType string) {
	if made.Title != nil {
		d.Title = *made.Title
	}
	if made.Text != nil {
		d.Body, d.ContentType = *made.Text, mediaType
	}
	if made.Priority != nil {
		d.Priority, d.GotifyScale = made.Priority, 0
	}
	if made.Link != "" {
		protocol.AddLinks(d, []string{made.Link})
	}
}

// keepPayload keeps a payload for previews. Without it nothing is lost.
func (a *API) keepPayload(in *protocol.Request, app *account.App, data map[string]any) {
	text, err := json.Marshal(data)
	if err == nil {
		err = a.service.KeepPayload(in.Context(), app, text)
	}
	if err != nil {
		a.log.Debug("payload not kept for previews", zap.Int64("application", app.ID), zap.Error(err))
	}
}

// preview is the answer to a request for a preview.
type preview struct {
	account.Preview
	Payload json.RawMessage `json:"payload"`
}

// previewTemplates shows what the templates of an application, or those in the body, make of the last payload, or of the one in the body.
func (a *API) previewTemplates(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	var in account.ApplicationInput
	var payload json.RawMessage
	if r.Method == http.MethodPost {
		err := a.readFields(r, func(name string, v request.Value) error {
			if name == "payload" {
				payload = append(payload, v.Raw()...)
				return nil
			}
			known, err := in.Set(name, v)
			if !known {
				return unknownField(name)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(payload) == 0 {
		kept, err := a.service.Payload(r.Context(), v, idOf(r))
		if err != nil {
			return err
		}
		payload = kept
	}
	if !json.Valid(payload) {
		return refusal.Invalid("payload", "The payload is not JSON.")
	}
	out, err := a.service.Preview(r.Context(), v, idOf(r), in, payload)
	return answer(w, preview{out, payload}, err)
}
