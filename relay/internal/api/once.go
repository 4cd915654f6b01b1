package api

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
)

const (
	onceFor    = 10 * time.Minute // an answer with a secret is kept
	maxOnce    = 1000             // answers
	maxOnceOf  = 100              // …of one user
	maxOnceKey = 255              // bytes of an Idempotency-Key
)

// onceAnswers keeps answers that hold a secret in memory, so that a client whose connection broke can get them again with
// the same Idempotency-Key.
type onceAnswers struct {
	mu    sync.Mutex
	byKey map[string]*onceAnswer
}

// onceAnswer is one answer. Its lock is held while it is made.
type onceAnswer struct {
	sync.Mutex
	user   int64
	until  time.Time
	made   bool
	body   [sha256.Size]byte // of the request
	status int
	header http.Header
	answer []byte
}

// of returns the answer for a user's key, empty if the request is the first; an error if too many are kept.
func (o *onceAnswers) of(user int64, key string, now time.Time) (*onceAnswer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.byKey, func(_ string, one *onceAnswer) bool { return now.After(one.until) })
	if one := o.byKey[key]; one != nil {
		return one, nil
	}
	own := 0
	for _, one := range o.byKey {
		if one.user == user {
			own++
		}
	}
	if len(o.byKey) >= maxOnce || own >= maxOnceOf {
		return nil, &refusal.Error{Kind: refusal.KindRateLimited, Message: "Too many idempotency keys are in use: try again later, or without one.", RetryAfter: onceFor}
	}
	if o.byKey == nil {
		o.byKey = map[string]*onceAnswer{}
	}
	one := &onceAnswer{user: user, until: now.Add(onceFor)}
	o.byKey[key] = one
	return one, nil
}

// once answers a repeated request with the same Idempotency-Key as the first one, for onceFor.
func (a *API) once(h userHandler) userHandler {
	return func(w http.ResponseWriter, r *http.Request, v account.Principal) error {
		key := r.Header.Get("Idempotency-Key")
		switch {
		case key == "":
			return h(w, r, v)
		case len(key) > maxOnceKey:
			return refusal.Invalid("Idempotency-Key", fmt.Sprintf("An idempotency key has at most %d bytes.", maxOnceKey))
		}
		one, err := a.answers.of(v.UserID, fmt.Sprint(v.UserID, r.URL.RequestURI(), " ", key), time.Now())
		if err != nil {
			return err
		}
		one.Lock()
		defer one.Unlock()
		digest := sha256.New()
		if one.made {
			if _, err := io.Copy(digest, http.MaxBytesReader(w, r.Body, a.maxBody.Load())); err != nil {
				return refusal.Invalid("", "The body of the request cannot be read.")
			}
			if [sha256.Size]byte(digest.Sum(nil)) != one.body {
				return refusal.Conflict("Idempotency-Key", "This idempotency key was used for another request: give that one a key of its own.")
			}
			maps.Copy(w.Header(), one.header)
			w.Header().Set("Idempotent-Replay", "true")
			w.WriteHeader(one.status)
			_, _ = w.Write(one.answer)
			return nil
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, digest), r.Body}
		kept := &keptAnswer{ResponseWriter: w, status: http.StatusOK}
		if err := h(kept, r, v); err != nil {
			return err
		}
		one.made, one.body = true, [sha256.Size]byte(digest.Sum(nil))
		one.status, one.header, one.answer = kept.status, w.Header().Clone(), kept.body.Bytes()
		return nil
	}
}

// keptAnswer is a ResponseWriter that also keeps the answer.
type keptAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (k *keptAnswer) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (k *keptAnswer) Write(p []byte) (int, error) {
	k.body.Write(p)
	return k.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (k *keptAnswer) Unwrap() http.ResponseWriter { return k.ResponseWriter }
