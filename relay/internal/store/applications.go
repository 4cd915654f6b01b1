package store

import (
	"context"

	"gorm.io/gorm/clause"

	"slipway/relay/internal/post"
)

// Applications returns all applications that are not deleted.
func (s *Store) Applications(ctx context.Context) (all []Application, err error) {
	return all, s.rows.WithContext(ctx).Where("deleted_at = 0").Order("id").Find(&all).Error
}

// Application returns an application; one without ID if there is none.
func (tx *Tx) Application(id int64) (a Application, err error) {
	return a, tx.db.Where("id = ?", id).Limit(1).Find(&a).Error
}

// CreateApplication stores an application, which gets its id.
func (tx *Tx) CreateApplication(a *Application) error {
	return tx.accounts().Create(a).Error
}

// UpdateApplication stores what may be set on an application.
func (tx *Tx) UpdateApplication(a *Application) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", a.ID).
		Select("*").Omit("id", "token_hash", "token_created_at", "old_token_hash", "old_token_until", "has_image", "created_at", "deleted_at", "last_used", "accepted", "sent", "dead").
		Updates(a).Error
}

// SetOwnerAbsent stores whether the owner of an application is known not to be in its room.
func (tx *Tx) SetOwnerAbsent(id int64, absent bool) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", id).Update("owner_absent", absent).Error
}

// SetRoomRight stores why an application may send to its room.
func (tx *Tx) SetRoomRight(id int64, right string) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", id).Update("room_right", right).Error
}

// UpdateToken stores an application's tokens.
func (tx *Tx) UpdateToken(a *Application) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", a.ID).
		Select("token_hash", "token_created_at", "old_token_hash", "old_token_until").Updates(a).Error
}

// DeleteApplications marks applications as deleted: [Store.PurgeApplications] removes them with their messages.
func (tx *Tx) DeleteApplications(now int64, ids ...int64) error {
	tx.changed(0, Altered)
	return tx.accounts().Model(&Application{}).Where("id IN ?", ids).Updates(map[string]any{"deleted_at": now, "token_hash": nil, "old_token_hash": nil}).Error
}

// HasToken reports whether an application has a token with this hash.
func (tx *Tx) HasToken(hash []byte) (bool, error) {
	var n int64
	err := tx.db.Model(&Application{}).Where("token_hash = ? OR old_token_hash = ?", hash, hash).Count(&n).Error
	return n > 0, err
}

// HasApplication reports whether a user has an application of this name.
func (tx *Tx) HasApplication(owner int64, name string) (bool, error) {
	var n int64
	err := tx.db.Model(&Application{}).Where("owner_id = ? AND name = ? AND deleted_at = 0", owner, name).Count(&n).Error
	return n > 0, err
}

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

// KeepPayload keeps what was posted for an application last, in place of what is kept.
func (s *Store) KeepPayload(ctx context.Context, application int64, data []byte) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.exec(`INSERT INTO payloads (application_id, data) SELECT id, ? FROM applications WHERE id = ?
			ON CONFLICT (application_id) DO UPDATE SET data = excluded.data`, data, application)
	})
}

// Payload returns what was kept last; it is [IsMissing] without anything.
func (s *Store) Payload(ctx context.Context, application int64) (data []byte, err error) {
	err = s.queryRow(ctx, `SELECT data FROM payloads WHERE application_id = ?`, application).Scan(&data)
	return data, err
}

// Watched is an application that must send heartbeats, or whose alarm is still open. Times are Unix milliseconds.
type Watched struct {
	ID             int64
	Name           string
	LastUsed       int64
	Heartbeat      int64 // the longest time between two heartbeats
	HeartbeatGrace int64
	HeartbeatSince int64 // when the interval was set
	Alarm          int64 // the message of the open alarm; 0 for none
	Episode        int64 // of that alarm
}

// Watched returns the applications to watch. key is that of their alarms.
func (s *Store) Watched(ctx context.Context, key string) (all []Watched, err error) {
	err = s.rows.WithContext(ctx).Raw(`SELECT a.id, a.name, a.last_used, a.heartbeat, a.heartbeat_grace, a.heartbeat_since,
		coalesce(l.message_id, 0) AS alarm, coalesce(l.episode, 0) AS episode
		FROM applications a LEFT JOIN alerts l ON l.application_id = a.id AND l.key = ? AND l.closed_at = 0
			AND EXISTS (SELECT 1 FROM outbox o WHERE o.id = l.message_id AND o.source = ?)
		WHERE a.deleted_at = 0 AND (a.heartbeat > 0 OR l.message_id IS NOT NULL) ORDER BY a.id`, key, post.SourceRelay).Scan(&all).Error
	return all, err
}

// Beat records a heartbeat of an application, even one before the last: the clock may have been set back.
func (s *Store) Beat(ctx context.Context, application, at int64) error {
	return s.Update(ctx, func(tx *Tx) error {
		return tx.exec(`UPDATE applications SET last_used = ? WHERE id = ?`, at, application)
	})
}
