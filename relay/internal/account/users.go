package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	minPassword = 8
	maxPassword = 1024
)

// Users lists all users, for administrators.
func (s *Accounts) Users(ctx context.Context, v Principal) ([]User, error) {
	if err := v.MustAdmin(); err != nil {
		return nil, err
	}
	rows, err := s.store.Users(ctx)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	users := make([]User, len(rows))
	for i, r := range rows {
		users[i] = showUser(r)
	}
	return users, nil
}

// User returns one user. Only administrators may see other users.
func (s *Accounts) User(_ context.Context, v Principal, id int64) (User, error) {
	row, err := s.userFor(v, id)
	return showUser(row), err
}

func (s *Accounts) userFor(v Principal, id int64) (store.User, error) {
	row, ok := s.cache.user(id)
	if !ok || v.UserID == 0 || !v.Admin && v.UserID != id {
		return store.User{}, refusal.NotFound("user")
	}
	return row, nil
}

func showUser(r store.User) User {
	return User{ID: r.ID, Name: r.Name, MatrixID: r.MatrixID, Admin: r.IsAdmin, Linked: r.Subject != "", Password: r.PasswordHash != "", CreatedAt: post.Time(r.CreatedAt)}
}

// CreateUser creates a user, for administrators. Name and password are required.
func (s *Accounts) CreateUser(ctx context.Context, v Principal, in UserInput) (User, error) {
	if err := v.MustAdmin(); err != nil {
		return User{}, err
	}
	if in.Name == nil {
		return User{}, refusal.Invalid("name", "A name is required.")
	}
	if in.Password == nil {
		return User{}, refusal.Invalid("password", "A password is required.")
	}
	row := store.User{CreatedAt: time.Now().UnixMilli()}
	if err := s.setUser(ctx, &row, in); err != nil {
		return User{}, err
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	if _, there := s.cache.userNamed(row.Name); there {
		return User{}, errNameTaken
	}
	if err := s.update(ctx, func(tx *store.Tx) error { row.ID = 0; return tx.SaveUser(&row) }); err != nil {
		return User{}, taken(err, "There is a user of this name.")
	}
	s.cache.putUser(row)
	return showUser(row), nil
}

// UpdateUser changes a user. Users may change their own password and remove their own Matrix ID. The last administrator
// stays one. A new password ends the user's sessions. Another Matrix ID ends the link to a person of the identity provider,
// and then the sessions.
func (s *Accounts) UpdateUser(ctx context.Context, v Principal, id int64, in UserInput) (User, error) {
	row, err := s.userFor(v, id)
	if err != nil {
		return User{}, err
	}
	if !v.Admin && (in.Name != nil && *in.Name != row.Name || in.Admin != nil && *in.Admin != row.IsAdmin) {
		return User{}, refusal.Forbidden("Only administrators may change a user's name and rights.")
	}
	if !v.Admin && in.MatrixID != nil && *in.MatrixID != "" && *in.MatrixID != row.MatrixID {
		return User{}, &refusal.Error{Kind: refusal.KindForbidden, Field: "matrix_id", Message: "Only administrators may set Matrix IDs: a user's applications may send to the rooms that the user's Matrix ID is in."}
	}
	hashed := row
	if err := s.setUser(ctx, &hashed, in); err != nil { // before the lock, because a hash takes its time
		return User{}, err
	}
	saved, err := s.saveUser(ctx, id, in, hashed.PasswordHash)
	demoted := row.IsAdmin && in.Admin != nil && !*in.Admin
	if err != nil || !demoted && (in.MatrixID == nil || *in.MatrixID == row.MatrixID) {
		return saved, err
	}
	if demoted {
		if err := s.takeRooms(ctx, id); err != nil {
			return saved, err
		}
	}
	err = s.checkOwners(ctx, func(a *store.Application) bool { return a.OwnerID == id && isOwners(a.RoomRight) })
	if err != nil {
		s.log.Warn("cannot find out whether a user is in the rooms of the user's applications", zap.Int64("user", id), zap.Error(err))
	}
	return saved, nil
}

// saveUser stores the fields that are set in in, of which the password is hashed already.
func (s *Accounts) saveUser(ctx context.Context, id int64, in UserInput, hash string) (User, error) {
	s.edit.Lock()
	defer s.edit.Unlock()
	row, ok := s.cache.user(id)
	if !ok {
		return User{}, refusal.NotFound("user")
	}
	if in.Admin != nil && !*in.Admin && row.IsAdmin && s.cache.admins() < 2 {
		return User{}, refusal.Conflict("is_admin", "This is the last administrator: make another user one first.")
	}
	before, subject := row.Name, row.Subject
	if err := s.setUser(ctx, &row, UserInput{Name: in.Name, MatrixID: in.MatrixID, Admin: in.Admin}); err != nil {
		return User{}, err
	}
	if in.Password != nil {
		row.PasswordHash = hash
	}
	if other, there := s.cache.userNamed(row.Name); in.Name != nil && there && other.ID != id && !strings.EqualFold(row.Name, before) {
		return User{}, errNameTaken
	}
	err := s.update(ctx, func(tx *store.Tx) error {
		if err := tx.SaveUser(&row); err != nil || in.Password == nil && row.Subject == subject {
			return err
		}
		return tx.EndSessions(id)
	})
	if err != nil {
		return User{}, taken(err, "There is a user of this name.")
	}
	s.cache.putUser(row)
	s.store.Nudge() // streams whose credential is gone end
	return showUser(row), nil
}

// Stamp returns a text that changes with a user's name, password or rights, as this relay knows them; "" if there is no such user.
func (s *Accounts) Stamp(id int64) string {
	u, ok := s.cache.user(id)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%t %q %s", u.IsAdmin, u.Name, u.PasswordHash)
}

// DeleteUser removes a user with their applications, for administrators. The last administrator cannot be removed.
func (s *Accounts) DeleteUser(ctx context.Context, v Principal, id int64) error {
	s.edit.Lock()
	defer s.edit.Unlock()
	row, err := s.userFor(v, id)
	if err != nil {
		return err
	}
	if err := v.MustAdmin(); err != nil {
		return err
	}
	if row.IsAdmin && s.cache.admins() < 2 {
		return refusal.Conflict("", "This is the last administrator: make another user one first.")
	}
	var apps []int64
	for _, a := range s.cache.all(func(a *store.Application) bool { return a.OwnerID == id }) {
		apps = append(apps, a.Row().ID)
	}
	err = s.deleteApplications(ctx, func(tx *store.Tx) error {
		err := tx.DeleteUser(id)
		if errors.Is(err, store.ErrLastAdmin) {
			return refusal.Conflict("", "This is the last administrator: make another user one first.")
		}
		return err
	}, apps...)
	if err == nil {
		s.cache.dropUser(id)
		s.store.Nudge()
	}
	return err
}

// setUser checks the input and applies it.
func (s *Accounts) setUser(ctx context.Context, row *store.User, in UserInput) error {
	if in.Name != nil {
		name, err := checkName(*in.Name)
		if err != nil {
			return err
		}
		if strings.Contains(name, ":") {
			return refusal.Invalid("name", "A user's name can't contain a colon.")
		}
		row.Name = name
	}
	if in.MatrixID != nil {
		if *in.MatrixID != "" && !isMatrixID(*in.MatrixID) {
			return refusal.Invalid("matrix_id", "A Matrix ID looks like @name:server.")
		}
		setMatrixID(row, *in.MatrixID)
	}
	if in.Admin != nil {
		row.IsAdmin = *in.Admin
	}
	if in.Password != nil {
		if utf8.RuneCountInString(*in.Password) < minPassword || len(*in.Password) > maxPassword {
			return refusal.Invalid("password", fmt.Sprintf("A password has at least %d characters and at most %d bytes.", minPassword, maxPassword))
		}
		hash, err := s.passwords.Hash(ctx, *in.Password)
		if err != nil {
			return err
		}
		row.PasswordHash = hash
	}
	return nil
}

// setMatrixID sets a user's Matrix ID. Another one ends the link to a person, which the former one has proven.
func setMatrixID(row *store.User, id string) {
	if id != row.MatrixID {
		row.MatrixID, row.Subject = id, ""
	}
}

// admins counts the administrators.
func (c *cache) admins() (n int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, u := range c.users {
		if u.IsAdmin {
			n++
		}
	}
	return n
}

// errNameTaken is also for names that differ in case only, in more alphabets than the database's index knows.
var errNameTaken = refusal.Conflict("name", "There is a user of this name.")

// userNamed returns the user of a name, ignoring case.
func (c *cache) userNamed(name string) (found store.User, there bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, u := range c.users {
		if u.Name == name {
			return u, true
		}
		if strings.EqualFold(u.Name, name) {
			found, there = u, true
		}
	}
	return found, there
}

// ensureAdmin creates the administrator of the configuration, or updates the password, Matrix ID and rights.
func (s *Accounts) ensureAdmin(ctx context.Context, want Admin) error {
	s.edit.Lock()
	defer s.edit.Unlock()
	if want.Name == "" {
		return nil
	}
	if want.Password == "" {
		return errors.New("the administrator needs a password")
	}
	row, there := s.cache.userNamed(want.Name)
	if !there {
		row = store.User{Name: want.Name, CreatedAt: time.Now().UnixMilli()}
	}
	same := false
	if there && row.PasswordHash != "" {
		var err error
		if same, err = s.passwords.Verify(ctx, caller{Proven: true}, want.Password, row.PasswordHash); err != nil {
			return err
		}
	}
	if same && row.IsAdmin && row.MatrixID == want.MatrixID {
		return nil
	}
	subject := row.Subject
	setMatrixID(&row, want.MatrixID)
	row.IsAdmin = true
	if !same {
		hash, err := s.passwords.Hash(ctx, want.Password)
		if err != nil {
			return err
		}
		row.PasswordHash = hash
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if there && (!same || row.Subject != subject) {
			if err := tx.EndSessions(row.ID); err != nil {
				return err
			}
		}
		if !there {
			row.ID = 0
		}
		return tx.SaveUser(&row)
	})
	if err == nil {
		s.cache.putUser(row)
	}
	return err
}

// SetAdmin creates or updates the administrator of the configuration, also if other relays do so at the same time.
func (s *Accounts) SetAdmin(ctx context.Context, want Admin) (err error) {
	for range startTries {
		if err = s.ensureAdmin(ctx, want); !errors.Is(err, store.ErrStale) && !store.IsTaken(err) {
			return err
		}
		if err := s.Reload(ctx); err != nil {
			return err
		}
	}
	return err
}

const startTries = 10
