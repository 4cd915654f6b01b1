package service

import (
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

// collects reports whether a message may be collected into a digest. Alerts and threads keep their order, delayed messages
// their time, and files would be lost.
func collects(e *post.Entry) bool {
	return e.Kind == post.KindMessage && e.Priority <= 0 && e.Thread == "" && e.Attachments == "" && e.NextAt == 0 && e.Source != post.SourceRelay
}

// collect returns what stores a message or adds its line to the digest of a topic.
func collect(window store.Duration, topic, line string) func(*store.Tx, *store.Incoming) error {
	return func(tx *store.Tx, a *store.Incoming) error {
		e := &a.Entry
		d, err := tx.Digest(e.ApplicationID, topic)
		if err != nil {
			return err
		}
		m, gone, err := digestMessage(tx, d.MessageID)
		if err != nil {
			return err
		}
		if gone {
			d = d.Withdrawn()
		}
		d, collected := post.Collect(d, time.Duration(window).Milliseconds(), e.AcceptedAt, line, e.Priority)
		if collected {
			title, body := d.Message()
			e.Content = post.Content{Title: title, Body: body, ContentType: format.Plain, Priority: d.Priority}
			if m.ID != 0 && !gone && m.Room == e.Room && m.State.Editable() {
				if _, err := amend(tx, &m, e); err != nil {
					return err
				}
				return tx.SaveDigest(d)
			}
		}
		collects := collected || topic != ""
		if collects {
			e.Source = post.SourceDigest
		}
		if err := tx.Insert(e); err != nil {
			return err
		}
		if collects {
			d.MessageID = e.ID
		}
		return tx.SaveDigest(d)
	}
}

// digestMessage returns the message of a digest and whether it is withdrawn; one without ID if there is none.
func digestMessage(tx *store.Tx, id int64) (m post.Entry, gone bool, err error) {
	if id == 0 {
		return m, false, nil
	}
	if m, err = tx.Entry(id); err == nil {
		gone, err = withdrawn(tx, &m)
	}
	if store.IsMissing(err) {
		err = nil
	}
	return m, gone, err
}
