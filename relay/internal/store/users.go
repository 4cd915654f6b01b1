package store

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"gorm.io/gorm"

	"slipway/relay/internal/post"
)

// Fold returns the same text for all spellings of a name that [strings.EqualFold] treats as one. Lower case isn't enough.
func Fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, post.Clean(name))
}

// Users returns all users.
func (s *Store) Users(ctx context.Context) (all []User, err error) {
	return all, s.rows.WithContext(ctx).Order("id").Find(&all).Error
}

// User returns a user by its ID. If there is none, [IsMissing] is true for the error.
func (s *Store) User(ctx context.Context, id int64) (u User, err error) {
	return u, s.rows.WithContext(ctx).Where("id = ?", id).Take(&u).Error
}

// UserNamed returns the user of a name, however it is spelled. If there is none, [IsMissing] is true for the error.
func (s *Store) UserNamed(ctx context.Context, name string) (u User, err error) {
	return u, s.rows.WithContext(ctx).Where("folded = ?", Fold(name)).Take(&u).Error
}

// User is [Store.User]. It keeps others from changing the user until the transaction ends.
func (tx *Tx) User(id int64) (u User, err error) {
	return u, tx.db.Clauses(forUpdate).Where("id = ?", id).Take(&u).Error
}

// UserNamed is [Store.UserNamed]. It keeps others from changing the user until the transaction ends.
func (tx *Tx) UserNamed(name string) (u User, err error) {
	return u, tx.db.Clauses(forUpdate).Where("folded = ?", Fold(name)).Take(&u).Error
}

// Person returns the users that are linked to a subject or have a Matrix ID, and keeps others from changing them until the transaction ends.
func (tx *Tx) Person(subject, matrixID string) (all []User, err error) {
	return all, tx.db.Clauses(forUpdate).Where("subject = ? OR matrix_id = ?", subject, matrixID).Order("id").Find(&all).Error
}

// SaveUser stores a user, a new one if its id is 0, which it then gets.
func (tx *Tx) SaveUser(u *User) error {
	u.Folded = Fold(u.Name)
	if u.ID == 0 {
		return tx.accounts().Create(u).Error
	}
	return tx.accounts().Model(&User{}).Where("id = ?", u.ID).Select("name", "folded", "password_hash", "matrix_id", "subject", "is_admin").Updates(u).Error
}

// EndSessions ends all sessions of a user.
func (tx *Tx) EndSessions(user int64) error {
	return tx.db.Where("user_id = ?", user).Delete(&Session{}).Error
}

// TakeRoom counts a room that is created for a user. Each takes a share of a day, in milliseconds; if too little of the day is left, TakeRoom
// returns how many milliseconds to wait.
func (tx *Tx) TakeRoom(user, now, share int64) (wait int64, err error) {
	const day = 24 * 60 * 60 * 1000
	var until int64
	err = tx.db.Model(&User{}).Clauses(forUpdate).Where("id = ?", user).Pluck("rooms_until", &until).Error
	if err != nil {
		return 0, err
	}
	until = max(min(until, now+day), now) + share // the clock may have been set back
	if wait := until - now - day; wait > 0 {
		return wait, nil
	}
	return 0, tx.db.Model(&User{}).Where("id = ?", user).Update("rooms_until", until).Error
}

// ReplacePasswordHash stores a user's password hash in place of another. It returns false if the user has yet another one.
func (tx *Tx) ReplacePasswordHash(user int64, old, hash string) (bool, error) {
	r := tx.accounts().Model(&User{}).Where("id = ? AND password_hash = ?", user, old).Update("password_hash", hash)
	return r.RowsAffected > 0, r.Error
}

// ErrLastAdmin is the error of [Tx.OtherAdmin] without another administrator.
var ErrLastAdmin = errors.New("this is the last administrator")

// OtherAdmin returns an administrator other than a user; without one the error is [ErrLastAdmin]. All administrators stay as they are until
// the transaction ends: OtherAdmin locks them in order, and has to be called before others lock the user.
func (tx *Tx) OtherAdmin(user int64) (id int64, err error) {
	var all []int64
	if err := tx.db.Model(&User{}).Clauses(forUpdate).Where("is_admin").Order("id").Pluck("id", &all).Error; err != nil {
		return 0, err
	}
	for _, id := range all {
		if id != user {
			return id, nil
		}
	}
	return 0, ErrLastAdmin
}

// DeleteUser removes a user. The applications get another owner until they are deleted.
func (tx *Tx) DeleteUser(id, heir int64) error {
	return errors.Join(
		tx.accounts().Model(&Application{}).Where("owner_id = ?", id).Update("owner_id", heir).Error,
		tx.accounts().Delete(&User{}, id).Error,
	)
}

// Session returns the session with a token's hash if it has not ended by now.
func (s *Store) Session(ctx context.Context, tokenHash []byte, now int64) (row Session, err error) {
	return row, s.rows.WithContext(ctx).Where("token_hash = ? AND expires_at > ?", tokenHash, now).Take(&row).Error
}

// CreateSession stores a session.
func (s *Store) CreateSession(ctx context.Context, row Session) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.db.Create(&row).Error })
}

// DeleteSession ends a session, if there is one.
func (s *Store) DeleteSession(ctx context.Context, tokenHash []byte) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.db.Where("token_hash = ?", tokenHash).Delete(&Session{}).Error })
}

// Clients returns the clients of a user.
func (s *Store) Clients(ctx context.Context, user int64) (all []Client, err error) {
	return all, s.rows.WithContext(ctx).Where("user_id = ?", user).Order("id").Find(&all).Error
}

// ClientOf returns the client with a token's hash. If there is none, [IsMissing] is true for the error.
func (s *Store) ClientOf(ctx context.Context, tokenHash []byte) (c Client, err error) {
	return c, s.rows.WithContext(ctx).Where("token_hash = ?", tokenHash).Take(&c).Error
}

// CountClients returns how many clients a user has.
func (tx *Tx) CountClients(user int64) (n int64, err error) {
	return n, tx.db.Model(&Client{}).Where("user_id = ?", user).Count(&n).Error
}

// Client returns a client of a user and keeps others from changing it until the transaction ends. If there is none, [IsMissing] is true
// for the error.
func (tx *Tx) Client(user, id int64) (c Client, err error) {
	return c, tx.db.Clauses(forUpdate).Where("user_id = ? AND id = ?", user, id).Take(&c).Error
}

// CreateClient stores a new client, which gets its id.
func (tx *Tx) CreateClient(c *Client) error {
	return tx.accounts().Create(c).Error
}

// UpdateClient changes a client's name and idle limit.
func (tx *Tx) UpdateClient(c *Client) error {
	return tx.accounts().Model(c).Select("name", "idle_limit").Updates(c).Error
}

// DeleteClient removes a client.
func (tx *Tx) DeleteClient(id int64) error {
	return tx.accounts().Delete(&Client{}, id).Error
}

// DeleteIdleClients removes the clients that have not been used for longer than their idle limits and slack, both in milliseconds.
func (s *Store) DeleteIdleClients(ctx context.Context, now, slack int64) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.accounts().Where("idle_limit > 0 AND created_at + idle_limit < ? AND last_used + idle_limit < ?", now-slack, now-slack).Delete(&Client{}).Error
	})
}

// ClientUsed records when a client was last used.
func (s *Store) ClientUsed(ctx context.Context, id, at int64) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.exec(`UPDATE clients SET last_used = ? WHERE id = ?`, at, id) })
}

// accounts is the database for a change of users, clients or applications.
func (tx *Tx) accounts() *gorm.DB {
	tx.edited = true
	return tx.db
}
