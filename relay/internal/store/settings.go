package store

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Setting returns a small value, "" if it is not set.
func (s *Store) Setting(ctx context.Context, key string) (string, error) {
	return setting(s.rows.WithContext(ctx), key)
}

// SetSetting keeps a small value; "" removes it.
func (s *Store) SetSetting(ctx context.Context, key, value string) error {
	return s.Lead(ctx, func(tx *Tx) error { return tx.SetSetting(key, value) })
}

// Setting returns a small value, "" if it is not set.
func (tx *Tx) Setting(key string) (string, error) { return setting(tx.db, key) }

func setting(db *gorm.DB, key string) (value string, err error) {
	return value, db.Model(&Setting{}).Select("value").Where("key = ?", key).Scan(&value).Error
}

// SetSetting keeps a small value; "" removes it.
func (tx *Tx) SetSetting(key, value string) error {
	if value == "" {
		return tx.db.Where("key = ?", key).Delete(&Setting{}).Error
	}
	return tx.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Setting{Key: key, Value: value}).Error
}
