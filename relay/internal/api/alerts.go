package api

import (
	"net/http"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/service"
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

func showAlert(a *post.Alert) *alertState {
	return &alertState{
		Key: a.Key, Open: a.ClosedAt == 0, Since: post.Time(a.BeganAt), ClosedAt: timeOrNull(a.ClosedAt), Times: a.Times,
		AcknowledgedBy: textOrNull(a.AcknowledgedBy), AcknowledgedAt: timeOrNull(a.AcknowledgedAt),
		NextReminder: timeOrNull(a.NextAt), Reminders: a.Repeats,
	}
}

// alertList is a page of the alerts that aren't over, newest first.
type alertList struct {
	Alerts []messageJSON `json:"alerts"`
	Paging paging        `json:"paging"`
}

// changeList is a page of what followed a message in its room, newest first.
type changeList struct {
	History []change `json:"history"`
	Paging  paging   `json:"paging"`
}

// change is the JSON of an edit of a message, or of a reply to it.
type change struct {
	ID      int64      `json:"id"`
	Kind    string     `json:"kind"` // edit or reply
	Title   string     `json:"title"`
	Message string     `json:"message"`
	Note    string     `json:"note,omitempty"`
	Date    time.Time  `json:"date"`
	Status  post.State `json:"status"`
	EventID *string    `json:"event_id"`
}

func showChange(e post.Entry) change {
	kind := "edit"
	if e.Kind == post.KindReply {
		kind = "reply"
	}
	return change{e.ID, kind, e.Title, e.Body, e.Note, post.Time(e.QueuedAt), e.State, textOrNull(e.EventID)}
}

// listAlerts lists the alerts that aren't over.
func (a *API) listAlerts(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	before, limit, err := pageOf(r.URL.Query())
	if err != nil {
		return err
	}
	all, next, err := a.service.OpenAlerts(r.Context(), v, before, limit)
	list := shown(all, func(open service.OpenAlert) messageJSON {
		d := showMessage(open.Message)
		d.Alert = showAlert(&open.Alert)
		return d
	})
	return answer(w, alertList{list, pagingOf(r, len(list), limit, next)}, err)
}

// listHistory lists the edits of a message and the replies to it.
func (a *API) listHistory(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	before, limit, err := pageOf(r.URL.Query())
	if err != nil {
		return err
	}
	all, next, err := a.service.History(r.Context(), v, idOf(r), before, limit)
	return answer(w, changeList{shown(all, showChange), pagingOf(r, len(all), limit, next)}, err)
}

func (a *API) acknowledgeMessage(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if _, err := a.service.Acknowledge(r.Context(), v, idOf(r)); err != nil {
		return err
	}
	return a.getMessage(w, r, v)
}
