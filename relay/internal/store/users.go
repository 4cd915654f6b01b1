package store

import (
	"context"
	"errors"
)

// Users returns all users.
func (s *Store) Users(ctx context.Context) (all []User, err error) {
	return all, s.rows.WithContext(ctx).Order("id").Find(&all).Error
}

// Users returns all users.
func (tx *Tx) Users() (all []User, err error) { return all, tx.db.Order("id").Find(&all).Error }

// SaveUser stores a user, a new one if its id is 0, which it then gets.
func (tx *Tx) SaveUser(u *User) error {
	if err := tx.accounts(); err != nil {
		return err
	}
	if u.ID == 0 {
		return tx.db.Create(u).Error
	}
	return tx.db.Model(&User{}).Where("id = ?", u.ID).Select("name", "password_hash", "matrix_id", "is_admin").Updates(u).Error
}

// EndSessions ends all sessions of a user.
func (tx *Tx) EndSessions(user int64) error {
	return tx.exec(`DELETE FROM sessions WHERE user_id = ?`, user)
}

// SetPasswordHash stores a user's password hash.
func (tx *Tx) SetPasswordHash(user int64, hash string) error {
	if err := tx.accounts(); err != nil {
		return err
	}
	return tx.exec(`UPDATE users SET password_hash = ? WHERE id = ?`, hash, user)
}

// DeleteUser removes a user. The applications, which get deleted, get another administrator as their owner until they
// are; without one the answer is [ErrLastAdmin].
func (tx *Tx) DeleteUser(id int64) error {
	if err := tx.accounts(); err != nil {
		return err
	}
	var heirs []int64
	if err := tx.db.Model(&User{}).Where("is_admin AND id <> ?", id).Limit(1).Pluck("id", &heirs).Error; err != nil {
		return err
	}
	if len(heirs) == 0 {
		return ErrLastAdmin
	}
	return errors.Join(
		tx.exec(`UPDATE applications SET owner_id = ? WHERE owner_id = ?`, heirs[0], id),
		tx.exec(`DELETE FROM users WHERE id = ?`, id),
	)
}

// ErrLastAdmin says that nobody else is an administrator.
var ErrLastAdmin = errors.New("this is the last administrator")
