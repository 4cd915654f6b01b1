package api

import (
	"net/http"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/alert"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/outbox"
)

// alertState is the JSON of the alert of a message.
type alertState struct {
	Key            string     `json:"key"`
	Open           bool       `json:"open"`
	Since          time.Time  `json:"since"`
	ClosedAt       *time.Time `json:"closed_at"`
	Times          int        `json:"times"`
	AcknowledgedBy *string    `json:"acknowledged_by"`
	AcknowledgedAt *time.Time `json:"acknowledged_at"`
	NextReminder   *time.Time `json:"next_reminder_at"`
	Reminders      int        `json:"reminders"`
}

// moment returns a time that is stored in Unix milliseconds; 0 is the zero time.
func moment(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

func showAlert(a *alert.Alert) *alertState {
	return &alertState{
		Key: a.Key, Open: a.ClosedAt == 0, Since: moment(a.BeganAt), ClosedAt: timeOrNull(moment(a.ClosedAt)), Times: a.Times,
		AcknowledgedBy: textOrNull(a.AcknowledgedBy), AcknowledgedAt: timeOrNull(moment(a.AcknowledgedAt)),
		NextReminder: timeOrNull(moment(a.NextAt)), Reminders: a.Repeats,
	}
}

// change is the JSON of an edit of a message, or of a reply to it.
type change struct {
	Kind    string       `json:"kind"` // edit or reply
	Title   string       `json:"title"`
	Message string       `json:"message"`
	Note    string       `json:"note,omitempty"`
	Date    time.Time    `json:"date"`
	Status  outbox.State `json:"status"`
	EventID *string      `json:"event_id"`
}

func showHistory(all []outbox.Entry) []change {
	out := make([]change, 0, len(all))
	for _, e := range all {
		kind := "edit"
		if e.Kind == outbox.Reply {
			kind = "reply"
		}
		out = append(out, change{kind, e.Title, e.Body, e.Note, moment(e.QueuedAt), e.State, textOrNull(e.EventID)})
	}
	return out
}

const maxOpenAlerts = 500

// listAlerts lists the alerts that aren't over.
func (a *API) listAlerts(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	all, err := a.service.OpenAlerts(r.Context(), v, maxOpenAlerts)
	if err != nil {
		return err
	}
	list := struct {
		Alerts []delivery `json:"alerts"`
	}{make([]delivery, 0, len(all))}
	for _, open := range all {
		d := showMessage(open.Message)
		d.Alert = showAlert(&open.Alert)
		list.Alerts = append(list.Alerts, d)
	}
	httprequest.WriteJSON(w, http.StatusOK, list)
	return nil
}

func (a *API) acknowledgeMessage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if _, err := a.service.Acknowledge(r.Context(), v, idOf(r)); err != nil {
		return err
	}
	return a.getMessage(w, r, v)
}
