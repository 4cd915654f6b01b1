package service

import (
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/store"
)

// collects reports whether a message may be collected into a digest. Alerts and threads keep their order, delayed messages
// their time, and files would be lost.
func collects(a *store.Accept) bool {
	e := &a.Entry
	return e.Kind == post.KindMessage && a.Report == nil && e.Priority <= 0 && e.Thread == "" && e.Attachments == "" && e.NextAt == 0 && e.Source != post.SourceRelay
}

// isQuiet reports whether a message mentions nobody because of the hour at which it is sent.
func isQuiet(app *store.Application, e *post.Entry) bool {
	if app.QuietHours == "" || e.Priority != 1 {
		return false
	}
	hours, err := post.ParseQuietHours(app.QuietHours, app.TimeZone)
	return err == nil && hours.Contain(time.UnixMilli(e.QueuedAt))
}
