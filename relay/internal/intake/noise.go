package intake

import (
	"time"

	"slipway/relay/internal/outbox"
	"slipway/relay/internal/quiet"
	"slipway/relay/internal/store"
)

// collects reports whether a message may be collected into a digest. Alerts and threads keep their order, delayed messages
// their time, and files would be lost.
func collects(a *store.Accept) bool {
	e := &a.Entry
	return e.Kind == outbox.Message && a.Report == nil && e.Priority <= 0 && e.Thread == "" && e.Attachments == "" && e.NextAt == 0 && e.Source != outbox.Relay
}

// isQuiet reports whether a message mentions nobody because of the hour at which it is sent.
func isQuiet(app *store.Application, e *outbox.Entry) bool {
	if app.QuietHours == "" || e.Priority != 1 {
		return false
	}
	hours, err := quiet.Parse(app.QuietHours, app.TimeZone)
	return err == nil && hours.Contain(time.UnixMilli(e.QueuedAt))
}
