// Package idempotency repeats answers to clients whose connection broke: those that hold a secret, which no other request
// answers again.
package idempotency

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	// Lifetime is the time for which an answer is kept.
	Lifetime = 10 * time.Minute

	maxKey       = 255 // bytes
	maxAnswers   = 1000
	maxAnswersOf = 100 // of one owner
)

// Errors of [Answers.Serve].
var (
	ErrKeyTooLong   = errors.New("an idempotency key has at most 255 bytes")
	ErrTooMany      = errors.New("too many idempotency keys are in use: try again later, or without one")
	ErrOtherRequest = errors.New("this idempotency key was used for another request: give that one a key of its own")
	ErrBody         = errors.New("the body of the request cannot be read")
)

// Answers keeps the answers of one process in memory. The zero value is empty. It is safe for concurrent use.
type Answers struct {
	mu    sync.Mutex
	byKey map[name]*answer
}

// name identifies an answer.
type name struct{ owner, uri, key string }

// answer is one answer. Its lock is held while it is made.
type answer struct {
	sync.Mutex
	until  time.Time
	made   bool
	failed bool              // it is no longer in Answers.byKey
	body   [sha256.Size]byte // of the request
	status int
	header http.Header
	answer []byte
}

// Serve answers by handle. If the request has the header Idempotency-Key and handle has answered one of the owner with the same
// key, address and body within Lifetime, Serve repeats that answer with the header Idempotent-Replay. handle must not have begun
// its answer when it returns an error, which Serve returns and doesn't keep. maxBody bounds the body, in bytes.
func (a *Answers) Serve(w http.ResponseWriter, r *http.Request, owner string, maxBody int64, handle func(http.ResponseWriter) error) error {
	key := r.Header.Get("Idempotency-Key")
	switch {
	case key == "":
		return handle(w)
	case len(key) > maxKey:
		return ErrKeyTooLong
	}
	one, err := a.lock(name{owner, r.URL.RequestURI(), key})
	if err != nil {
		return err
	}
	defer one.Unlock()
	digest, body := sha256.New(), http.MaxBytesReader(w, r.Body, maxBody)
	if one.made {
		if _, err := io.Copy(digest, body); err != nil {
			return ErrBody
		}
		if [sha256.Size]byte(digest.Sum(nil)) != one.body {
			return ErrOtherRequest
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
	}{io.TeeReader(body, digest), body}
	kept := &keptAnswer{ResponseWriter: w, status: http.StatusOK}
	if err := handle(kept); err != nil {
		a.forget(one)
		return err
	}
	_, _ = io.Copy(io.Discard, r.Body) // what the handler had no need to read
	one.made, one.body = true, [sha256.Size]byte(digest.Sum(nil))
	one.status, one.header, one.answer = kept.status, w.Header().Clone(), kept.body.Bytes()
	return nil
}

// lock returns the answer of that name, locked. If the request that held it has failed, it begins another one. ErrTooMany.
func (a *Answers) lock(n name) (*answer, error) {
	for {
		one, err := a.of(n, time.Now())
		if err != nil {
			return nil, err
		}
		if one.Lock(); !one.failed {
			return one, nil
		}
		one.Unlock()
	}
}

// of returns the answer of that name, empty if the request is the first. ErrTooMany.
func (a *Answers) of(n name, now time.Time) (*answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.byKey, func(_ name, one *answer) bool { return now.After(one.until) })
	if one := a.byKey[n]; one != nil {
		return one, nil
	}
	own := 0
	for other := range a.byKey {
		if other.owner == n.owner {
			own++
		}
	}
	if len(a.byKey) >= maxAnswers || own >= maxAnswersOf {
		return nil, ErrTooMany
	}
	if a.byKey == nil {
		a.byKey = map[name]*answer{}
	}
	one := &answer{until: now.Add(Lifetime)}
	a.byKey[n] = one
	return one, nil
}

// forget removes the answer of a request that failed. The caller must hold its lock.
func (a *Answers) forget(one *answer) {
	one.failed = true
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.byKey, func(_ name, other *answer) bool { return other == one })
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
