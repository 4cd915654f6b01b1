package api

import (
	"errors"
	"net/http"
	"strconv"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/shared/idempotency"
	ui "slipway/shared/web"
)

// once answers a repeated request with the same Idempotency-Key as the first one.
func (a *API) once(h userHandler) userHandler {
	return func(w http.ResponseWriter, r *http.Request, v account.Principal) error {
		err := a.answers.Serve(w, r, strconv.FormatInt(v.UserID, 10), a.maxBody.Load(), func(w http.ResponseWriter) error { return h(w, r, v) })
		switch {
		case errors.Is(err, idempotency.ErrKeyTooLong):
			return refusal.Invalid("Idempotency-Key", ui.Sentence(err.Error()))
		case errors.Is(err, idempotency.ErrTooMany):
			return &refusal.Error{Kind: refusal.KindRateLimited, Message: ui.Sentence(err.Error()), RetryAfter: idempotency.Lifetime}
		case errors.Is(err, idempotency.ErrOtherRequest):
			return refusal.Conflict("Idempotency-Key", ui.Sentence(err.Error()))
		case errors.Is(err, idempotency.ErrBody):
			return refusal.Invalid("", ui.Sentence(err.Error()))
		}
		return err
	}
}
