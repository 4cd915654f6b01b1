package api

import (
	"errors"
	"net/http"
	"strconv"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/shared/idempotency"
)

// once answers a repeated request with the same Idempotency-Key as the first one.
func (a *API) once(h userHandler) userHandler {
	return func(w http.ResponseWriter, r *http.Request, v account.Principal) error {
		err := a.answers.Serve(w, r, strconv.FormatInt(v.UserID, 10), a.maxBody.Load(), func(w http.ResponseWriter) error { return h(w, r, v) })
		switch {
		case errors.Is(err, idempotency.ErrKeyTooLong):
			return refusal.Invalid("Idempotency-Key", "An idempotency key has at most 255 bytes.")
		case errors.Is(err, idempotency.ErrTooMany):
			return &refusal.Error{Kind: refusal.KindRateLimited, Message: "Too many idempotency keys are in use: try again later, or without one.", RetryAfter: idempotency.Lifetime}
		case errors.Is(err, idempotency.ErrOtherRequest):
			return refusal.Conflict("Idempotency-Key", "This idempotency key was used for another request: give that one a key of its own.")
		case errors.Is(err, idempotency.ErrBody):
			return refusal.Invalid("", "The body of the request cannot be read.")
		}
		return err
	}
}
