package auth

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
)

// HtpasswdOptions configures NewHtpasswd. Zero values stand for the defaults.
type HtpasswdOptions struct {
	Realm string
	Path  string
	Log   *zap.Logger

	// AnonymousPull grants Pull to requests without credentials. Everything
	// else, the version check too, is still challenged: a client finds out
	// there that it can log in. Docker's engine cannot pull anonymously from a
	// registry whose version check asks for Basic credentials; it needs a token
	// server. containerd, podman, skopeo and crane can.
	AnonymousPull bool

	// Remember is how long a verified password is taken without comparing it
	// again; 0 is a minute, negative never.
	Remember time.Duration
}

// Htpasswd authenticates with the users of an htpasswd file; every user may do
// everything.
type Htpasswd struct{ o HtpasswdOptions }

// NewHtpasswd reads the file. A missing one is an error that names the command
// which makes it.
func NewHtpasswd(o HtpasswdOptions) (*Htpasswd, error) { return nil, errors.New("no file") }

// Authorize decides on a request. The error is a *Refusal, or the context's when
// the client hung up while it waited.
func (h *Htpasswd) Authorize(r *http.Request, a Access) (Grant, error) { return Grant{}, nil }

// Close waits for the comparisons in progress.
func (h *Htpasswd) Close() {}
