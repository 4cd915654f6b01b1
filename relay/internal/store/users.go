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
	if u.ID == 0 {
		return tx.accounts().Create(u).Error
	}
	return tx.accounts().Model(&User{}).Where("id = ?", u.ID).Select("name", "password_hash", "matrix_id", "is_admin").Updates(u).Error
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
