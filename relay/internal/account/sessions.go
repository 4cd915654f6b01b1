package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
)

// SessionFor is how long a session lasts.
const SessionFor = 7 * 24 * time.Hour

// SessionCookie is the cookie of the pages' sessions. The API accepts it, too.
const SessionCookie = "relay_session"

// Authenticate checks a name and password and returns the user. Failures are limited per name and per address; after
// too many, even the right password is refused.
func (s *Accounts) Authenticate(ctx context.Context, name, given, address string) (Principal, error) {
	name = name[:min(len(name), maxName+1)] // no name is so long
	if wait := s.failures.Blocked(name, address); wait > 0 {
		return Principal{}, s.tooManyFailures(wait)
	}
	if id, hash, ok := s.passwords.Recall(name, given); ok {
		switch u, err := s.store.User(ctx, id); {
		case err == nil && u.PasswordHash == hash:
			return viewerOf(u), nil
		case err != nil && !store.IsMissing(err):
			return Principal{}, unreadable(err)
		}
	}
	u, err := s.store.UserNamed(ctx, name)
	there, hash := err == nil, s.nobody
	if err != nil && !store.IsMissing(err) {
		return Principal{}, unreadable(err)
	}
	if wait := s.failures.Attempt(name, address); wait > 0 {
		return Principal{}, s.tooManyFailures(wait)
	}
	if there && u.PasswordHash != "" {
		hash = u.PasswordHash
	}
	if len(given) > maxPassword {
		given = ""
	}
	good, err := s.passwords.Verify(ctx, caller{Address: address, Proven: s.failures.Proven(name, address)}, given, hash)
	if err != nil { // the password was not checked
		s.failures.Forgive(name, address)
		return Principal{}, err
	}
	if !good || !there {
		s.o.Metrics.wrong.Inc()
		return Principal{}, &refusal.Error{Kind: refusal.KindUnauthorized, Message: "The name or the password is wrong."}
	}
	s.failures.Succeeded(name, address)
	if s.passwords.foreign(u.PasswordHash) {
		u.PasswordHash = s.rehash(ctx, u, given)
	}
	s.passwords.Remember(name, given, u.ID, u.PasswordHash)
	return viewerOf(u), nil
}

// unreadable returns the refusal of a login that can't be checked, with the cause if it is known: nobody can log in to ask the doctor.
func unreadable(err error) error {
	if cause := store.Cause(err); cause != "" {
		return &refusal.Error{Kind: refusal.KindUnavailable, Message: "The database cannot be read: " + cause + ".", RetryAfter: refusal.RetryAfter, Err: err}
	}
	return refusal.Unreadable(err)
}

func (s *Accounts) tooManyFailures(wait time.Duration) error {
	s.o.Metrics.limited.Inc()
	return &refusal.Error{Kind: refusal.KindRateLimited, Message: "Too many failed attempts. Try again later.", RetryAfter: wait}
}

// WrongToken counts a wrong application token from an address and returns how long that address must wait; 0 within the
// limit. Valid tokens are not affected: honest senders may share the address. An address that reaches the limit is logged.
func (s *Accounts) WrongToken(address string) time.Duration {
	wait, first := s.failures.WrongToken(address)
	if first {
		s.log.Warn("many wrong tokens from one address", zap.String("address", request.Network(address)), zap.Int("a_minute", wrongTokens))
	}
	return wait
}

// rehash replaces an imported hash after the first login, because foreign parameters may make each login much more
// expensive. It returns the hash in force.
func (s *Accounts) rehash(ctx context.Context, u store.User, given string) string {
	hash, err := s.passwords.Hash(ctx, given)
	if err != nil {
		return u.PasswordHash
	}
	replaced := false
	err = s.store.Update(ctx, func(tx *store.Tx) (err error) {
		replaced, err = tx.ReplacePasswordHash(u.ID, u.PasswordHash, hash)
		return err
	})
	if err != nil || !replaced { // or it was changed concurrently
		return u.PasswordHash
	}
	return hash
}

func viewerOf(u store.User) Principal { return Principal{UserID: u.ID, Name: u.Name, Admin: u.IsAdmin} }

// Login checks a name and password as Authenticate does and begins a session.
func (s *Accounts) Login(ctx context.Context, name, password, address string) (Session, error) {
	v, err := s.Authenticate(ctx, name, password, address)
	if err != nil {
		return Session{}, err
	}
	return s.beginSession(ctx, v.UserID)
}

func (s *Accounts) beginSession(ctx context.Context, user int64) (Session, error) {
	now := time.Now()
	out := Session{Token: rand.Text() + rand.Text(), UserID: user, CSRF: rand.Text(), Expires: now.Add(SessionFor)}
	err := s.store.CreateSession(ctx, store.Session{
		TokenHash: sessionHash(out.Token), UserID: user, CSRF: out.CSRF, CreatedAt: now.UnixMilli(), ExpiresAt: out.Expires.UnixMilli(),
	})
	return out, refusal.Unwritable(err)
}

// SessionViewer returns the user of a session's token, and the session.
func (s *Accounts) SessionViewer(ctx context.Context, token string) (Principal, Session, error) {
	ended := &refusal.Error{Kind: refusal.KindUnauthorized, Message: "The session has ended. Log in again."}
	if token == "" || len(token) > maxToken {
		return Principal{}, Session{}, ended
	}
	row, err := s.store.Session(ctx, sessionHash(token), time.Now().UnixMilli())
	var u store.User
	if err == nil {
		u, err = s.store.User(ctx, row.UserID)
	}
	switch {
	case store.IsMissing(err):
		return Principal{}, Session{}, ended
	case err != nil:
		return Principal{}, Session{}, refusal.Unreadable(err)
	}
	return viewerOf(u), Session{UserID: u.ID, CSRF: row.CSRF, Expires: post.Time(row.ExpiresAt)}, nil
}

// Logout ends a session. An unknown token is no error.
func (s *Accounts) Logout(ctx context.Context, token string) error {
	return refusal.Unwritable(s.store.DeleteSession(ctx, sessionHash(token)))
}

func sessionHash(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}
