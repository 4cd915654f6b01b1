package account

import (
	"context"
	"regexp"
	"slices"
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
	subject := p.Issuer + " " + p.Subject
	var row store.User
	linked := false
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		same, err := tx.Person(subject, p.MatrixID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(same, func(u store.User) bool { return u.Subject == subject })
		if linked = i >= 0; linked {
			row = same[i]
			return nil
		}
		if row, err = s.toLink(tx, p, same, create); err != nil {
			return err
		}
		row.Subject = subject
		return tx.SaveUser(&row)
	})
	if err != nil {
		return row, taken(err, "There is a user of this name.")
	}
	if !linked {
		s.log.Info("a person of the identity provider is linked to a user", zap.Int64("user", row.ID))
	}
	return row, nil
}

// toLink returns the user that a person's first login links to the person, of those with the person's Matrix ID; a new one if there is none
// and create is true.
func (s *Accounts) toLink(tx *store.Tx, p Person, same []store.User, create bool) (store.User, error) {
	switch {
	case len(same) > 1:
		return store.User{}, refusal.Forbidden("Several users have the Matrix ID " + p.MatrixID + ". An administrator can leave it to one of them.")
	case len(same) == 0 && !create:
		return store.User{}, refusal.Forbidden("No user has the Matrix ID " + p.MatrixID + ". An administrator can create one, or give it to a user.")
	case len(same) == 1 && strings.HasPrefix(same[0].Subject, p.Issuer+" "):
		return store.User{}, refusal.Forbidden("The user " + same[0].Name + " is linked to another person of the identity provider. An administrator ends that by removing the user's Matrix ID, and setting it again.")
	}
	if len(same) == 1 {
		return same[0], nil
	}
	row := store.User{MatrixID: p.MatrixID, CreatedAt: time.Now().UnixMilli()}
	name, _, _ := strings.Cut(p.MatrixID[1:], ":")
	if err := s.setUser(context.Background(), &row, UserInput{Name: &name}); err != nil {
		return row, err
	}
	_, err := tx.UserNamed(row.Name)
	switch {
	case err == nil:
		return row, refusal.Forbidden("There is a user " + row.Name + " without your Matrix ID, " + p.MatrixID + ". An administrator can set it.")
	case !store.IsMissing(err):
		return row, err
	}
	return row, nil
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
