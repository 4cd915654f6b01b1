package store

import (
	"context"

	"gorm.io/gorm/clause"
)

// Setting returns a small value, "" if it is not set.
func (s *Store) Setting(ctx context.Context, key string) (string, error) {
	var v Setting
	err := s.rows.WithContext(ctx).Where("key = ?", key).Take(&v).Error
	if IsMissing(err) {
		return "", nil
	}
	return v.Value, err
}

// SetSetting keeps a small value; "" removes it.
func (s *Store) SetSetting(ctx context.Context, key, value string) error {
	return s.Lead(ctx, func(tx *Tx) error { return tx.SetSetting(key, value) })
}

// Setting returns a small value, "" if it is not set.
func (tx *Tx) Setting(key string) (string, error) {
	var v Setting
	err := tx.db.Where("key = ?", key).Take(&v).Error
	if IsMissing(err) {
		return "", nil
	}
	return v.Value, err
}

// SetSetting keeps a small value; "" removes it.
func (tx *Tx) SetSetting(key, value string) error {
	if value == "" {
		return tx.db.Where("key = ?", key).Delete(&Setting{}).Error
	}
	return tx.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Setting{Key: key, Value: value}).Error
}
