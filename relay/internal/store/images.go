package store

import (
	"context"

	"gorm.io/gorm/clause"
)

// Image is a row of application_images: the picture of an application.
type Image struct {
	ApplicationID int64 `gorm:"primaryKey"`
	Type          string
	Data          []byte
}

// TableName implements gorm's Tabler.
func (Image) TableName() string { return "application_images" }

// Image returns an application's picture; one without data if there is none.
func (s *Store) Image(ctx context.Context, application int64) (i Image, err error) {
	return i, s.rows.WithContext(ctx).Where("application_id = ?", application).Limit(1).Find(&i).Error
}

// SetImage keeps an application's picture; one without data removes it.
func (s *Store) SetImage(ctx context.Context, i Image) error {
	return s.Update(ctx, func(tx *Tx) error {
		if err := tx.accounts().Model(&Application{}).Where("id = ?", i.ApplicationID).Update("has_image", len(i.Data) > 0).Error; err != nil {
			return err
		}
		if len(i.Data) == 0 {
			return tx.db.Delete(&Image{ApplicationID: i.ApplicationID}).Error
		}
		return tx.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&i).Error
	})
}
