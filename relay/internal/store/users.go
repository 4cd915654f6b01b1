package store

import (
	"context"
	"errors"

	"gorm.io/gorm"
)

// Users returns all users.
func (s *Store) Users(ctx context.Context) (all []User, err error) {
	return all, s.rows.WithContext(ctx).Order("id").Find(&all).Error
}

// Users returns all users.
func (tx *Tx) Users() (all []User, err error) { return all, tx.db.Order("id").Find(&all).Error }

// SaveUser stores a user, a new one if its id is 0, which it then gets.
func (tx *Tx) SaveUser(u *User) error {
	if u.ID == 0 {
		return tx.accounts().Create(u).Error
	}
	return tx.accounts().Model(&User{}).Where("id = ?", u.ID).Select("name", "password_hash", "matrix_id", "subject", "is_admin").Updates(u).Error
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

// SetPasswordHash stores a user's password hash.
func (tx *Tx) SetPasswordHash(user int64, hash string) error {
	return tx.accounts().Model(&User{}).Where("id = ?", user).Update("password_hash", hash).Error
}

// DeleteUser removes a user. The applications, which get deleted, get another administrator as their owner until they
// are; without one the answer is [ErrLastAdmin].
func (tx *Tx) DeleteUser(id int64) error {
	db := tx.accounts()
	var heirs []int64
	if err := db.Model(&User{}).Where("is_admin AND id <> ?", id).Limit(1).Pluck("id", &heirs).Error; err != nil {
		return err
	}
	if len(heirs) == 0 {
		return ErrLastAdmin
	}
	return errors.Join(
		db.Model(&Application{}).Where("owner_id = ?", id).Update("owner_id", heirs[0]).Error,
		db.Delete(&User{}, id).Error,
	)
}

// ErrLastAdmin says that nobody else is an administrator.
var ErrLastAdmin = errors.New("this is the last administrator")

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

// Clients returns the clients of a user, or of all users if user is 0.
func (s *Store) Clients(ctx context.Context, user int64) (all []Client, err error) {
	q := s.rows.WithContext(ctx).Order("id")
	if user != 0 {
		q = q.Where("user_id = ?", user)
	}
	return all, q.Find(&all).Error
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

// IdleClients returns the clients that have not been used for longer than their idle limits and slack, both in milliseconds.
func (s *Store) IdleClients(ctx context.Context, now, slack int64) (all []Client, err error) {
	q := s.rows.WithContext(ctx).Where("idle_limit > 0 AND created_at + idle_limit < ? AND last_used + idle_limit < ?", now-slack, now-slack)
	return all, q.Find(&all).Error
}

// ClientUsed records when a client was last used.
func (s *Store) ClientUsed(ctx context.Context, id, at int64) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.exec(`UPDATE clients SET last_used = ? WHERE id = ?`, at, id) })
}

// ErrStale says that another relay has changed users or applications since they were read.
var ErrStale = errors.New("another relay has changed the accounts meanwhile")

// Revision returns a number that rises whenever users or applications change. It is 0 where only one relay can change them.
func (s *Store) Revision(ctx context.Context) (n int64, err error) {
	if !s.Shared() {
		return 0, nil
	}
	return n, s.read.QueryRowContext(ctx, `SELECT n FROM revision`).Scan(&n)
}

// Know records which revision of users and applications this relay has read: what changes another is [ErrStale].
func (s *Store) Know(revision int64) { s.w.known.Store(revision) }

// Known is the revision that this relay has read or made.
func (s *Store) Known() int64 { return s.w.known.Load() }

// accounts is the database for a change of users or applications. It fails with [ErrStale] if another relay has changed them.
func (tx *Tx) accounts() *gorm.DB {
	db := tx.db.Session(&gorm.Session{})
	if !tx.w.member.Shared() || tx.revision != 0 {
		return db
	}
	var n int64
	if err := tx.db.Raw(`UPDATE revision SET n = n + 1 RETURNING n`).Scan(&n).Error; err != nil {
		_ = db.AddError(err)
	} else if known := tx.w.known.Load(); known != 0 && known != n-1 && tx.w.revision != n-1 {
		_ = db.AddError(ErrStale)
	} else {
		tx.revision, tx.w.revision = n, n
	}
	return db
}
