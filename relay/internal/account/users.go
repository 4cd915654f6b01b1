package account

import (
	"cmp"
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
func (s *Accounts) User(ctx context.Context, v Principal, id int64) (User, error) {
	row, err := s.userFor(ctx, v, id)
	return showUser(row), err
}

func (s *Accounts) userFor(ctx context.Context, v Principal, id int64) (store.User, error) {
	if v.UserID == 0 || !v.Admin && v.UserID != id {
		return store.User{}, refusal.NotFound("user")
	}
	row, err := s.store.User(ctx, id)
	return row, unread(err, "user")
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
	if err := s.store.Update(ctx, func(tx *store.Tx) error { row.ID = 0; return tx.SaveUser(&row) }); err != nil {
		return User{}, taken(err, "There is a user of this name.")
	}
	return showUser(row), nil
}

// UpdateUser changes a user. Users may change their own password and remove their own Matrix ID. The last administrator
// stays one. A new password ends the user's sessions. Another Matrix ID ends the link to a person of the identity provider,
// and then the sessions.
func (s *Accounts) UpdateUser(ctx context.Context, v Principal, id int64, in UserInput) (User, error) {
	row, err := s.userFor(ctx, v, id)
	if err != nil {
		return User{}, err
	}
	if !v.Admin && (in.Name != nil && *in.Name != row.Name || in.Admin != nil && *in.Admin != row.IsAdmin) {
		return User{}, refusal.Forbidden("Only administrators may change a user's name and rights.")
	}
	if !v.Admin && in.MatrixID != nil && *in.MatrixID != "" && *in.MatrixID != row.MatrixID {
		return User{}, &refusal.Error{Kind: refusal.KindForbidden, Field: "matrix_id", Message: "Only administrators may set Matrix IDs: a user's applications may send to the rooms that the user's Matrix ID is in."}
	}
	hashed := store.User{}
	if err := s.setUser(ctx, &hashed, in); err != nil { // before the transaction, because a hash takes its time
		return User{}, err
	}
	saved, err := s.changeUser(ctx, id, in, hashed.PasswordHash)
	if err != nil {
		return User{}, taken(err, "There is a user of this name.")
	}
	if demoted := row.IsAdmin && !saved.IsAdmin; demoted || saved.MatrixID != row.MatrixID {
		if err := s.checkOwners(ctx, id, isOwners); err != nil {
			s.log.Warn("cannot find out whether a user is in the rooms of the user's applications", zap.Int64("user", id), zap.Error(err))
		}
	}
	return showUser(saved), nil
}

// changeUser stores the fields that are set in in. The password is hashed already, hash is "" if it stays.
func (s *Accounts) changeUser(ctx context.Context, id int64, in UserInput, hash string) (row store.User, err error) {
	in.Password = nil
	err = s.store.Update(ctx, func(tx *store.Tx) (err error) {
		demotes := in.Admin != nil && !*in.Admin
		if demotes {
			if _, err := otherAdmin(tx, "is_admin", id); err != nil {
				return err
			}
		}
		if row, err = tx.User(id); err != nil {
			return unread(err, "user")
		}
		before := row
		if err := s.setUser(ctx, &row, in); err != nil {
			return err
		}
		row.PasswordHash = cmp.Or(hash, row.PasswordHash)
		if demotes && before.IsAdmin { // what an administrator's right holds depends on the user's own from now on
			if err := tx.ReplaceRoomRight(id, 0, rightAdmin, rightWriter); err != nil { // until the homeserver says more
				return err
			}
		}
		return saveUser(tx, &row, before)
	})
	return row, err
}

// saveUser stores a user. Another password and the end of a link to a person end the sessions.
func saveUser(tx *store.Tx, row *store.User, before store.User) error {
	err := tx.SaveUser(row)
	if err == nil && before.ID != 0 && (row.PasswordHash != before.PasswordHash || row.Subject != before.Subject) {
		err = tx.EndSessions(row.ID)
	}
	return err
}

// DeleteUser removes a user with their applications, for administrators. The last administrator cannot be removed.
func (s *Accounts) DeleteUser(ctx context.Context, v Principal, id int64) error {
	if _, err := s.userFor(ctx, v, id); err != nil {
		return err
	}
	if err := v.MustAdmin(); err != nil {
		return err
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		heir, err := otherAdmin(tx, "", id)
		if err != nil {
			return err
		}
		if _, err := tx.User(id); err != nil {
			return unread(err, "user")
		}
		return errors.Join(tx.DeleteApplications(time.Now().UnixMilli(), id, 0), tx.DeleteUser(id, heir))
	})
	if err != nil {
		return refusal.Unwritable(err)
	}
	s.tellDeleted()
	return nil
}

// otherAdmin returns an administrator other than a user. It refuses what would leave none.
func otherAdmin(tx *store.Tx, field string, user int64) (int64, error) {
	other, err := tx.OtherAdmin(user)
	if errors.Is(err, store.ErrLastAdmin) {
		return 0, refusal.Conflict(field, "This is the last administrator: make another user one first.")
	}
	return other, err
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

// SetAdmin creates the administrator of the configuration, or updates the password, Matrix ID and rights.
func (s *Accounts) SetAdmin(ctx context.Context, want Admin) error {
	err := s.setAdmin(ctx, want)
	if store.IsTaken(err) { // another relay has created it
		err = s.setAdmin(ctx, want)
	}
	return err
}

func (s *Accounts) setAdmin(ctx context.Context, want Admin) error {
	if want.Name == "" {
		return nil
	}
	if want.Password == "" {
		return errors.New("the administrator needs a password")
	}
	found, err := s.store.UserNamed(ctx, want.Name)
	if err != nil && !store.IsMissing(err) {
		return err
	}
	same := false
	if found.PasswordHash != "" {
		if same, err = s.passwords.Verify(ctx, caller{Proven: true}, want.Password, found.PasswordHash); err != nil {
			return err
		}
	}
	if same && found.IsAdmin && found.MatrixID == want.MatrixID {
		return nil
	}
	hash := found.PasswordHash
	if !same {
		if hash, err = s.passwords.Hash(ctx, want.Password); err != nil {
			return err
		}
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		row, err := tx.UserNamed(want.Name)
		switch {
		case store.IsMissing(err):
			row = store.User{Name: want.Name, CreatedAt: time.Now().UnixMilli()}
		case err != nil:
			return err
		}
		before := row
		setMatrixID(&row, want.MatrixID)
		row.IsAdmin, row.PasswordHash = true, hash
		return saveUser(tx, &row, before)
	})
}

// User is a person who manages applications.
type User struct {
	ID        int64
	Name      string
	MatrixID  string
	Admin     bool
	Linked    bool // to a person of the identity provider
	Password  bool // has one
	CreatedAt time.Time
}

// UserInput holds the settings of a user; nil fields keep their value.
type UserInput struct {
	Name     *string
	Password *string
	MatrixID *string
	Admin    *bool
}

// Session is a login to the web interface. Only the hash of its token is stored.
type Session struct {
	Token   string // set when the session begins
	UserID  int64
	CSRF    string
	Expires time.Time
}
