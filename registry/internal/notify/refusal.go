package notify

import (
	"context"
	"net/http"

	"go.uber.org/zap"
)

// refuses says whether the status is about what was sent rather than about the
// endpoint. One event that an endpoint cannot digest must not keep all others back
// for ever; but many answer in this way who are only misconfigured.
func refuses(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// passOver gives up an event that was refused time and again if the endpoint takes
// the one behind it, and then still refuses this one.
func (e *endpoint) passOver(ctx context.Context, ev *event, why error) bool {
	next := e.queue.next(ev)
	if next == nil {
		return false
	}
	if _, err := e.try(ctx, next); err != nil {
		return false
	}
	status, err := e.try(ctx, ev)
	if err != nil && !refuses(status) {
		return false // and the one behind is sent twice
	}
	e.queue.settle(ev)
	e.queue.settle(next)
	if err != nil {
		e.countDropped(dropped{refused: 1})
		fields := []zap.Field{zap.NamedError("err.cause", why)}
		if s := summary(ev.body); s != nil {
			fields = append(fields, zap.String("event", s.ID), zap.String("action", string(s.Action)), zap.Stringp("digest", (*string)(s.Digest)),
				zap.String("repository", string(s.Repository)), zap.String("tag", string(s.Tag)))
		}
		e.log.Error("an endpoint of notifications takes others but refuses this event, which is given up", fields...)
	}
	e.succeeded()
	return true
}
