package api

import (
	"errors"
	"net/http"

	"slipway/registry/internal/oci"
	"slipway/shared/idempotency"
)

// once answers a repeated request with the same Idempotency-Key as the first one: it is for answers with a secret.
func (a *API) once(handle handler) handler {
	return func(w http.ResponseWriter, r *request) error {
		owner := r.user
		if r.grant != nil {
			owner += " " + r.grant.PersonalToken() // which may be for less than its owner
		}
		err := a.kept.Serve(w, r.Request, owner, maxBody, func(w http.ResponseWriter) error { return handle(w, r) })
		switch {
		case errors.Is(err, idempotency.ErrKeyTooLong), errors.Is(err, idempotency.ErrBody):
			return badRequest(err.Error())
		case errors.Is(err, idempotency.ErrOtherRequest):
			return &statusError{http.StatusConflict, oci.Explain(oci.CodeDenied, err.Error())}
		case errors.Is(err, idempotency.ErrTooMany):
			e := oci.Explain(oci.CodeTooManyRequests, err.Error())
			e.RetryAfter = idempotency.Lifetime
			return e
		}
		if w.Header().Get("Idempotent-Replay") != "" {
			r.event = "" // the act is in the audit log already
		}
		return err
	}
}
