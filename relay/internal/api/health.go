package api

import (
	"net/http"

	"slipway/relay/internal/account"
	"slipway/relay/internal/doctor"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/openapi"
	"slipway/shared/health"
)

// DatabaseCheck is the name of the check that messages can be stored.
const DatabaseCheck = "database"

// healthReport extends Gotify's report.
type healthReport struct {
	Health    string `json:"health"`
	Database  string `json:"database"`
	Matrix    string `json:"matrix"`
	Waiting   int64  `json:"waiting"`
	OldestAge int64  `json:"oldest_seconds"`
	Reason    string `json:"reason,omitempty"`
}

// getHealth answers green if messages are accepted and delivered, orange if they are accepted and wait, red if they
// cannot be accepted.
func (a *API) getHealth(w http.ResponseWriter, r *http.Request) error {
	s := a.service.Status(r.Context())
	h, status := healthReport{Health: "green", Database: "green", Matrix: "green", Waiting: s.Waiting, OldestAge: int64(s.OldestAge.Seconds())}, http.StatusOK
	switch {
	case s.Paused != "":
		h.Health, h.Matrix = "orange", "red"
	case s.Degraded != "":
		h.Health, h.Matrix = "orange", "orange"
	case s.RateLimited() != "":
		h.Health, h.Matrix, h.Reason = "orange", "orange", s.RateLimited()
	case s.Blocked > 0:
		h.Matrix = "orange"
	}
	if a.service.Full(r.Context()) {
		h.Health, h.Reason, status = "red", "Nothing is accepted: too many messages wait for delivery.", http.StatusServiceUnavailable
	}
	if a.o.Health.Failing(DatabaseCheck) {
		h.Health, h.Database, status = "red", "red", http.StatusServiceUnavailable
	}
	request.WriteJSON(w, status, h)
	return nil
}

// Unready answers in place of an API that cannot start yet, for a reason that is a sentence. The process is alive.
func Unready(reason string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		request.WriteJSON(w, http.StatusServiceUnavailable, healthReport{Health: "red", Database: "red", Matrix: "orange", Reason: reason})
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { request.WriteJSON(w, http.StatusOK, done{true}) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		request.WriteError(w, &refusal.Error{Kind: refusal.KindUnavailable, Message: reason, RetryAfter: health.DefaultInterval})
	})
	return mux
}

// getNtfyHealth answers as ntfy's server does. Its clients want to know only that there is one.
func (a *API) getNtfyHealth(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, map[string]bool{"healthy": true}, nil)
}

func (a *API) getLive(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, done{true}, nil)
}

// getReady checks the database only: the relay accepts messages without the homeserver.
func (a *API) getReady(w http.ResponseWriter, _ *http.Request) error {
	if a.o.Health.Failing(DatabaseCheck) {
		return &refusal.Error{Kind: refusal.KindUnavailable, Message: "Messages cannot be stored now.", RetryAfter: health.DefaultInterval}
	}
	return answer(w, done{true}, nil)
}

func (a *API) getDoctor(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if err := v.MustAdmin(); err != nil {
		return err
	}
	list := doctor.Examine(r.Context(), a.o.Doctor, v)
	return answer(w, map[string]any{"ok": doctor.OK(list), "findings": list}, nil)
}

// getRecoveryKey answers with the recovery key, which is otherwise only in the database, encrypted with the pickle key.
func (a *API) getRecoveryKey(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if err := v.MustAdmin(); err != nil {
		return err
	}
	key, err := a.o.RecoveryKey(r.Context())
	if err != nil {
		return &refusal.Error{Kind: refusal.KindConflict, Message: "There is no recovery key: " + err.Error() + ".", Err: err}
	}
	return answer(w, map[string]string{"recovery_key": key}, nil)
}

func (a *API) getVersion(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, a.o.Version, nil)
}

func (a *API) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(openapi.Document)
	return nil
}
