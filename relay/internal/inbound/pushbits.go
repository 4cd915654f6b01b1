package inbound

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/markup"
	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
)

// maxAlerts bounds the alerts of a request.
const maxAlerts = 1000

// PushBits is POST /alert, where PushBits takes the webhooks of Alertmanager and Grafana: a report of each alert that
// starts, changes or ends. PushBits' POST /message is the protocol of [Gotify].
func PushBits() Protocol {
	return Protocol{
		Name:   "pushbits",
		Routes: []Route{{Method: http.MethodPost, Path: "/alert"}},
		Token:  Token,
		Events: true,
		Parse: func(r *Request, _ App) (Batch, error) {
			var in webhook
			err := json.Unmarshal(r.Body, &in)
			if err == nil && in.Alerts == nil {
				err = errors.New("it has no alerts")
			}
			switch {
			case err != nil:
				return Batch{}, &refusal.Error{Kind: refusal.KindInvalid, Message: "The body is not a webhook of Alertmanager: " + err.Error() + "."}
			case len(in.Alerts) > maxAlerts:
				return Batch{}, &refusal.Error{Kind: refusal.KindTooLarge, Message: fmt.Sprintf("A webhook may have %d alerts.", maxAlerts)}
			}
			b := Batch{}
			for _, a := range in.Alerts {
				b.Drafts = append(b.Drafts, a.draft())
			}
			return b, nil
		},
		Reply: func(w http.ResponseWriter, res Result) {
			list := make([]Message, len(res.Messages))
			for i, m := range res.Messages {
				list[i] = Show(message.Message{
					ID: m.ID, ApplicationID: m.ApplicationID, Title: m.Title, Body: m.Message, Priority: m.Priority, AcceptedAt: m.AcceptedAt, State: m.State, EventID: m.EventID,
				})
			}
			httprequest.WriteJSON(w, http.StatusOK, list)
		},
		Fail: FailLater,
	}
}

// FailLater answers like all other routes, except that overload is 503: Alertmanager, Grafana and programs like them
// repeat nothing after 429.
func FailLater(w http.ResponseWriter, err error) {
	var refused *refusal.Error
	if errors.As(err, &refused) && refused.Kind == refusal.KindRateLimited && refused.Field != "token" {
		later := *refused
		later.Kind = refusal.KindUnavailable
		err = &later
	}
	httprequest.WriteError(w, err)
}

// webhook is what Alertmanager posts.
type webhook struct {
	Alerts []firingAlert `json:"alerts"`
}

// firingAlert is an alert of Alertmanager's webhook, version 4.
type firingAlert struct {
	Status      string            `json:"status"` // firing, resolved
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    string            `json:"startsAt"`
	EndsAt      string            `json:"endsAt"`
	Fingerprint string            `json:"fingerprint"`
}

func (a firingAlert) draft() Draft {
	state := "[FIR] "
	if a.Status == "resolved" {
		state = "[RES] "
	}
	lines := []string{}
	if text := a.first("message", "description", "summary"); text != "" {
		lines = append(lines, text, "")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		lines = append(lines, name+": "+a.Labels[name])
	}
	if len(lines) == 0 {
		lines = append(lines, "status: "+markup.Line(a.Status, 100))
	}
	title := a.first("title", "summary", "alertname")
	if title == "" {
		title = "Alert"
	}
	d := Draft{Title: state + markup.Line(title, 500), Message: strings.Join(lines, "\n"), ContentType: format.Plain, Key: a.key(), Change: intake.Update, Began: alertTime(a.StartsAt)}
	if a.Status == "resolved" {
		d.Change, d.EventAt = intake.Resolve, alertTime(a.EndsAt)
	}
	return d
}

// first returns the first annotation or label of these names that isn't empty.
func (a firingAlert) first(names ...string) string {
	for _, name := range names {
		if text := a.Annotations[name]; text != "" {
			return text
		}
		if text := a.Labels[name]; text != "" {
			return text
		}
	}
	return ""
}

// key names the alert.
func (a firingAlert) key() string {
	which := any(a.Labels)
	if a.Fingerprint != "" {
		which = a.Fingerprint
	}
	text, _ := json.Marshal(which) // strings always encode; maps are sorted
	sum := sha256.Sum256(text)
	return "alert:" + hex.EncodeToString(sum[:])
}

// alertTime reads a time; the zero time if it is none, or Alertmanager's year 1.
func alertTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 {
		return time.Time{}
	}
	return t
}
