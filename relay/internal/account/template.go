package account

import (
	"context"
	"time"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
	"slipway/relay/internal/template"
)

const (
	maxPayload = 64 << 10
	keepEvery  = time.Minute // payloads of an application without templates
)

// KeepPayload keeps what was posted for an application last, encrypted, for previews of its templates.
func (s *Accounts) KeepPayload(ctx context.Context, app *App, data []byte) error {
	if len(data) > maxPayload || s.secrets.aead == nil || !app.KeepsPayload() {
		return nil
	}
	app.kept.Store(time.Now().UnixMilli())
	return s.store.KeepPayload(ctx, app.ID, s.secrets.aead.Seal(nil, nil, data, nil))
}

// KeepsPayload reports whether the next payload of an application is kept. Without templates one a minute is enough.
func (a *App) KeepsPayload() bool {
	return TemplatesOf(&a.Application).Any() || time.Now().UnixMilli()-a.kept.Load() >= keepEvery.Milliseconds()
}

// Payload returns what was posted last for an application that v may see.
func (s *Accounts) Payload(ctx context.Context, v Principal, id int64) ([]byte, error) {
	if _, err := s.AppFor(ctx, v, id); err != nil {
		return nil, err
	}
	sealed, err := s.store.Payload(ctx, id)
	if err == nil && s.secrets.aead != nil {
		var data []byte
		if data, err = s.secrets.aead.Open(nil, nil, sealed, nil); err == nil {
			return data, nil
		}
		return nil, refusal.NotFound("payload") // stored with another key
	}
	if err == nil || store.IsMissing(err) {
		return nil, refusal.NotFound("payload")
	}
	return nil, refusal.Unreadable(err)
}

// Preview is what templates make of a payload.
type Preview struct {
	Title    string `json:"title"`
	Message  string `json:"message"`
	Priority *int   `json:"priority,omitempty"`
	Link     string `json:"link,omitempty"`
	Error    string `json:"error,omitempty"` // why the template fails: the message would be sent without templates
}

// Preview applies the templates of an application, those of in before its own, to a payload.
func (s *Accounts) Preview(ctx context.Context, v Principal, id int64, in ApplicationInput, payload []byte) (out Preview, err error) {
	app, err := s.AppFor(ctx, v, id)
	if err != nil {
		return out, err
	}
	row := app.Application
	if err := in.SetTemplates(&row); err != nil {
		return out, err
	}
	data, err := template.Payload(payload)
	if err != nil {
		return out, refusal.Invalid("payload", "The payload can't be read: "+err.Error()+".")
	}
	set(&row.DefaultFormat, in.DefaultFormat)
	alerts, _ := data["alerts"].([]any)
	m, _ := MarkupOf(row.DefaultFormat)
	made, err := TemplatesOf(&row).Compile(m).Render(template.ForAlert(data, 0, max(len(alerts), 1)))
	if err != nil {
		return Preview{Error: err.Error()}, nil //nolint:nilerr // it is what was asked for
	}
	out = Preview{Title: value(made.Title), Message: value(made.Text), Priority: made.Priority, Link: made.Link}
	return out, nil
}
