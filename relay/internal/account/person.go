package account

import (
	"context"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
)

// Person identifies an end user that an identity provider has authenticated.
type Person struct {
	Issuer   string
	Subject  string // unique at the issuer and never reassigned (OpenID Connect Core 2)
	MatrixID string
}

// localPart is the form of the local part of a new Matrix ID. It has no colon: a name can't bring its own server.
var localPart = regexp.MustCompile(`^[a-z0-9._=/+-]+$`)

// MatrixIDOf returns the Matrix ID for the name claim: @name:server, or name itself if server is empty. ok reports whether the
// result is a valid Matrix ID.
func MatrixIDOf(name, server string) (id string, ok bool) {
	if server == "" {
		return name, isMatrixID(name)
	}
	id = "@" + name + ":" + server
	return id, localPart.MatchString(name) && isMatrixID(id)
}

// LogInPerson begins a session for the user that p is linked to. The first login links p to the one user with p's Matrix ID.
// If there is none and create is true, LogInPerson creates it. If the login is refused, the error is a *refusal.Error.
func (s *Accounts) LogInPerson(ctx context.Context, p Person, create bool) (Session, error) {
	u, err := s.link(ctx, p, create)
	if err != nil {
		return Session{}, err
	}
	return s.beginSession(ctx, u.ID)
}

func (s *Accounts) link(ctx context.Context, p Person, create bool) (store.User, error) {
	s.edit.Lock()
	defer s.edit.Unlock()
	subject := p.Issuer + " " + p.Subject
	linked, same := s.cache.person(subject, p.MatrixID)
	switch {
	case linked != nil:
		return *linked, nil
	case len(same) > 1:
		return store.User{}, refusal.Forbidden("Several users have the Matrix ID " + p.MatrixID + ". An administrator can leave it to one of them.")
	case len(same) == 0 && !create:
		return store.User{}, refusal.Forbidden("No user has the Matrix ID " + p.MatrixID + ". An administrator can create one, or give it to a user.")
	case len(same) == 1 && strings.HasPrefix(same[0].Subject, p.Issuer+" "):
		return store.User{}, refusal.Forbidden("The user " + same[0].Name + " is linked to another person of the identity provider. An administrator ends that by removing the user's Matrix ID, and setting it again.")
	}
	row := store.User{MatrixID: p.MatrixID, CreatedAt: time.Now().UnixMilli()}
	if len(same) == 1 {
		row = same[0]
	} else {
		name, _, _ := strings.Cut(p.MatrixID[1:], ":")
		if err := s.setUser(ctx, &row, UserInput{Name: &name}); err != nil {
			return row, err
		}
		if _, there := s.cache.userNamed(row.Name); there {
			return row, refusal.Forbidden("There is a user " + row.Name + " without your Matrix ID, " + p.MatrixID + ". An administrator can set it.")
		}
	}
	row.Subject = subject
	id := row.ID
	if err := s.update(ctx, func(tx *store.Tx) error { row.ID = id; return tx.SaveUser(&row) }); err != nil {
		return row, taken(err, "There is a user of this name.")
	}
	s.cache.putUser(row)
	s.log.Info("a person of the identity provider is linked to a user", zap.Int64("user", row.ID), zap.Bool("new", len(same) == 0))
	return row, nil
}

// person returns the user linked to a subject, nil if there is none, and the users with a Matrix ID.
func (c *cache) person(subject, matrixID string) (linked *store.User, same []store.User) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, u := range c.users {
		if u.Subject == subject {
			linked = &u
		}
		if u.MatrixID == matrixID {
			same = append(same, u)
		}
	}
	return linked, same
}

// AttemptFrom counts a login without a password of ours from an address, as a failure until forgive is called. It
// refuses addresses with too many.
func (s *Accounts) AttemptFrom(address string) (forgive func(), err error) {
	b := s.failures.bucket("from " + request.Network(address))
	if wait := b.Take(time.Now(), fromFailures, fromFailures); wait > 0 {
		return nil, s.tooManyFailures(wait)
	}
	return b.GiveBack, nil
}
