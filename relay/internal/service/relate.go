package service

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

// relate returns what stores a message that may concern an earlier one; nil if it can't.
func relate(app *store.Application, r post.Draft, e *post.Entry) func(*store.Tx, *store.Incoming) error {
	if about := reportOf(r, e); about != nil {
		group := ""
		if app.GroupThreads && r.Thread == "" {
			group = r.Group
		}
		return report{*about, app.Lifecycle, r.Names, r.Crowd, post.CrowdKey(r.Group), group}.store
	}
	window := app.Digest
	if r.Topic != "" {
		window = cmp.Or(app.RepositoryDigest, window)
	}
	switch {
	case e.Kind == post.KindEdit:
		return edit
	case window > 0 && collects(e):
		_, text := format.Body(e.ContentType, e.Body)
		return collect(window, r.Topic, post.DigestLine(e.Title, text))
	}
	return nil
}

// reportOf returns the alert report in a request, nil if it isn't about an alert.
func reportOf(r post.Draft, e *post.Entry) *post.Report {
	if r.Change == post.Create && (r.Retry == 0 || e.Priority < post.MaxPriority || r.Edits != 0) {
		return nil
	}
	return &post.Report{
		Own: e.Source == post.SourceRelay, Resolves: e.Resolves, Began: post.Millis(r.Began), At: e.EventAt, Priority: e.Priority, Digest: digest(e.Content, r.Files, e.Resolves),
		Retry: r.Retry, Expire: cmp.Or(r.Expire, time.Hour),
	}
}

// edit stores an edit of a message, unless that is withdrawn.
func edit(tx *store.Tx, a *store.Incoming) error {
	m, err := tx.Entry(a.Entry.Target)
	if err == nil {
		a.Gone, err = withdrawn(tx, &m)
	}
	if store.IsMissing(err) {
		a.Gone, err = true, nil
	}
	if err != nil || a.Gone {
		return err
	}
	a.Entry.Note, a.Entry.Resolves = m.Note, m.Resolves
	_, err = amend(tx, &m, &a.Entry)
	return err
}

// amend gives message m the content of e, and reports whether the room gets an edit.
func amend(tx *store.Tx, m, e *post.Entry) (edits bool, err error) {
	followUps, err := tx.FollowUps(m.ID)
	if err != nil {
		return false, err
	}
	a := post.Amend(m, e, followUps)
	return a.Edits, saveAmendment(tx, a, e)
}

func saveAmendment(tx *store.Tx, a post.Amendment, e *post.Entry) error {
	for i := range a.Changed {
		if err := tx.SaveContent(&a.Changed[i]); err != nil {
			return err
		}
	}
	if !a.Insert {
		return nil
	}
	return tx.Insert(e)
}

// withdrawn reports whether a message was withdrawn, perhaps with its removal still to come.
func withdrawn(tx *store.Tx, m *post.Entry) (bool, error) {
	if m.State.Withdrawn() {
		return true, nil
	}
	return tx.Removing(m.ID)
}

// shown reports whether a message is in a room, or on its way there, and isn't withdrawn.
func shown(tx *store.Tx, m *post.Entry, room int64) (bool, error) {
	if m.ID == 0 || m.Room != room || !m.State.Editable() {
		return false, nil
	}
	removing, err := tx.Removing(m.ID)
	return !removing, err
}

// report stores a message that is a report of an alert.
type report struct {
	post.Report
	lifecycle post.Lifecycle
	names     int64      // the message that the entry's key is the number of; 0 for none
	crowd     post.Crowd // the part in a group of many alerts
	crowdKey  string     // of the alert that stands for the group
	group     string     // of alerts that share a thread as long as one of them is open; "" for none
}

func (r report) store(tx *store.Tx, a *store.Incoming) error {
	e := &a.Entry
	known, m, err := tx.Alert(e.ApplicationID, e.Key, r.Own)
	if err == nil && known.MessageID == 0 && r.names != 0 {
		known, m, err = r.named(tx, e)
	}
	if err != nil {
		return err
	}
	if a.Skipped, err = r.skips(tx, e, &known); err != nil || a.Skipped {
		return err
	}
	known.ApplicationID, known.Key = e.ApplicationID, e.Key
	if m.Delayed() && !r.Resolves {
		remind := known.Reschedule(&m, e, r.Report)
		err := errors.Join(tx.Reschedule(&m), tx.SaveAlert(known))
		if remind {
			err = errors.Join(err, offerAcknowledgement(tx, &m, e.QueuedAt))
		}
		return err
	}
	shown, err := shown(tx, &m, e.Room)
	if err != nil {
		return err
	}
	now, d := post.TakeReport(known, shown && e.NextAt == 0, r.Report, r.lifecycle, e.AcceptedAt) // a delayed one is a message of its own
	if e.Delayed() {
		now.Postpone(e.NextAt, e.AcceptedAt)
		d.React = false
	}
	e.Note = strings.TrimSpace(d.Note + " " + e.Note)
	switch d.Action {
	case post.ActionIgnore:
		a.Replay, e.ID, e.AcceptedAt = true, known.MessageID, m.AcceptedAt
	case post.ActionStart:
		err = r.start(tx, e, &known, &now)
	case post.ActionChange:
		err = r.change(tx, e, &m, d.Ring)
	case post.ActionReply:
		e.Kind, e.Target, e.Thread = post.KindReply, m.ID, m.Thread
		if !d.Ring {
			e.Priority, e.GotifyScale = min(e.Priority, 0), 0
		}
		err = tx.Insert(e)
	}
	if err == nil && d.React {
		err = offerAcknowledgement(tx, e, e.QueuedAt)
	}
	if err != nil {
		return err
	}
	return tx.SaveAlert(now)
}

// offerAcknowledgement adds the reaction that acknowledges an alert to its message.
func offerAcknowledgement(tx *store.Tx, e *post.Entry, queuedAt int64) error {
	reaction := e.Follow(post.KindReaction, queuedAt)
	reaction.Body = post.AckReaction
	return tx.Insert(&reaction)
}

// named returns the alert of the message that a report names by its number, as if it had begun one if it has none; zero values if no
// alert can be about it.
func (r report) named(tx *store.Tx, e *post.Entry) (known post.Alert, m post.Entry, err error) {
	known, m, err = tx.AlertOf(r.names)
	missing := store.IsMissing(err)
	if err != nil && !missing {
		return known, m, err
	}
	begun, ok := post.AlertOf(&m, e.ApplicationID)
	switch {
	case !ok:
		return post.Alert{}, post.Entry{}, nil
	case missing:
		return begun, m, nil
	case known.Key != "":
		e.Key = known.Key
	}
	return known, m, nil
}

func (r report) skips(tx *store.Tx, e *post.Entry, known *post.Alert) (bool, error) {
	group := post.Alert{}
	if r.crowd == post.CrowdOneOfFew {
		var err error
		if group, _, err = tx.Alert(e.ApplicationID, r.crowdKey, false); err != nil {
			return false, err
		}
	}
	return r.crowd.Skips(known.Open(), group.Open()), nil
}

// start stores the message that shows an alert from now on. If the alert was known, it moves on from its message, or its end was lost.
func (r report) start(tx *store.Tx, e *post.Entry, known, now *post.Alert) (err error) {
	if r.group != "" {
		thread := post.GroupThread(r.group)
		if e.Thread, err = tx.GroupThread(e, thread, e.AcceptedAt-post.FlapWindow.Milliseconds()); err != nil {
			return err
		}
		if e.Thread == "" { // all other alerts of the group are over
			e.Thread = thread + strconv.FormatInt(e.AcceptedAt, 10)
		}
	}
	if err = tx.Insert(e); err != nil {
		return err
	}
	switch {
	case known.MessageID != 0 && now.MessageID != 0:
		err = tx.DeleteAlert(known.MessageID)
	case known.MessageID != 0:
		err = tx.CloseAlert(known.MessageID, e.AcceptedAt)
	}
	now.MessageID = e.ID
	return err
}

// change changes the message of an alert, and adds a reply that rings if the message itself doesn't.
func (r report) change(tx *store.Tx, e, m *post.Entry, ring bool) error {
	edits, err := amend(tx, m, e)
	if err != nil || !edits || !ring {
		return err
	}
	reply := m.Follow(post.KindReply, e.QueuedAt)
	reply.Place, reply.Content = 0, e.Content
	return tx.Insert(&reply)
}
