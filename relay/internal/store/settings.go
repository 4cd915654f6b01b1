package store

import (
	"context"

	"gorm.io/gorm/clause"
)

// Setting returns a small value, "" if it is not set.
func (s *Store) Setting(ctx context.Context, key string) (string, error) {
	var v Setting
	err := s.Read(ctx).Where("key = ?", key).Take(&v).Error
	if IsMissing(err) {
		return "", nil
	}
	return v.Value, err
}

// SetSetting keeps a small value; "" removes it.
func (s *Store) SetSetting(ctx context.Context, key, value string) error {
	return s.Update(ctx, func(tx *Tx) error {
		if value == "" {
			return tx.Where("key = ?", key).Delete(&Setting{}).Error
		}
		return tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Setting{Key: key, Value: value}).Error
	})
}
