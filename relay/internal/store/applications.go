package store

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"slipway/relay/internal/post"
)

// Applications returns the applications of an owner, or of all at 0; and only the one with an ID, unless that is 0.
func (s *Store) Applications(ctx context.Context, owner, id int64) (all []Application, err error) {
	q := s.rows.WithContext(ctx).Where("deleted_at = 0").Order("id")
	if owner != 0 {
		q = q.Where("owner_id = ?", owner)
	}
	if id != 0 {
		q = q.Where("id = ?", id)
	}
	return all, q.Find(&all).Error
}

// Application returns an application. If there is none or it is deleted, [IsMissing] is true for the error.
func (s *Store) Application(ctx context.Context, id int64) (a Application, err error) {
	return a, s.rows.WithContext(ctx).Where("id = ? AND deleted_at = 0", id).Take(&a).Error
}

// ApplicationOf returns the application with a hash as that of its token or of the token before, which may have ended. If there is none,
// [IsMissing] is true for the error.
func (s *Store) ApplicationOf(ctx context.Context, tokenHash []byte) (a Application, err error) {
	return a, s.rows.WithContext(ctx).Where("(token_hash = ? OR old_token_hash = ?) AND deleted_at = 0", tokenHash, tokenHash).Take(&a).Error
}

// Siblings returns the IDs of all applications that have the same owner as one, and whether there are applications of others.
func (s *Store) Siblings(ctx context.Context, application int64) (all []int64, others bool, err error) {
	const owner = `(SELECT owner_id FROM applications WHERE id = ?)`
	db := s.rows.WithContext(ctx)
	if err := db.Raw(`SELECT id FROM applications WHERE deleted_at = 0 AND owner_id = `+owner, application).Scan(&all).Error; err != nil {
		return nil, false, err
	}
	return all, others, db.Raw(`SELECT EXISTS (SELECT 1 FROM applications WHERE deleted_at = 0 AND owner_id <> `+owner+`)`, application).Scan(&others).Error
}

// Application is [Store.Application]. It keeps others from changing the application until the transaction ends.
func (tx *Tx) Application(id int64) (a Application, err error) {
	return a, tx.db.Clauses(forUpdate).Where("id = ? AND deleted_at = 0", id).Take(&a).Error
}

// CountApplications returns how many applications an owner has.
func (tx *Tx) CountApplications(owner int64) (n int64, err error) {
	return n, tx.db.Model(&Application{}).Where("owner_id = ? AND deleted_at = 0", owner).Count(&n).Error
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

// SetOwnerAbsent stores whether the owner of applications is known not to be in a room of theirs: of those in the rooms that have an ID at
// the homeserver, and whose owner has a Matrix ID. "" stands for owners without one, and applications with the rights named only.
func (s *Store) SetOwnerAbsent(ctx context.Context, roomID, matrixID string, absent bool, rights ...string) error {
	theirs := func(db *gorm.DB) *gorm.DB {
		db = db.Model(&Application{}).Where(`deleted_at = 0 AND owner_absent <> ? AND room_id IN (SELECT id FROM rooms WHERE room_id = ?)
			AND owner_id IN (SELECT id FROM users WHERE matrix_id = ?)`, absent, roomID, matrixID)
		if len(rights) > 0 {
			db = db.Where("room_right IN ?", rights)
		}
		return db
	}
	var n int64
	if err := theirs(s.rows.WithContext(ctx)).Count(&n).Error; err != nil || n == 0 { // as with most members of most rooms
		return err
	}
	return s.Update(ctx, func(tx *Tx) error { return theirs(tx.accounts()).Update("owner_absent", absent).Error })
}

// ReplaceRoomRight stores why the applications of a user may send to their rooms, in place of another reason; or why one may, unless its
// ID is 0.
func (tx *Tx) ReplaceRoomRight(owner, id int64, old, right string) error {
	db := tx.accounts().Model(&Application{}).Where("owner_id = ? AND room_right = ?", owner, old)
	if id != 0 {
		db = db.Where("id = ?", id)
	}
	return db.Update("room_right", right).Error
}

// UpdateToken stores an application's tokens.
func (tx *Tx) UpdateToken(a *Application) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", a.ID).
		Select("token_hash", "token_created_at", "old_token_hash", "old_token_until").Updates(a).Error
}

// DeleteApplications marks the applications of an owner as deleted, or one of them unless its ID is 0: [Store.PurgeApplications] removes them
// with their messages.
func (tx *Tx) DeleteApplications(now, owner, id int64) error {
	tx.changed(0, Altered)
	db := tx.accounts().Model(&Application{}).Where("owner_id = ? AND deleted_at = 0", owner)
	if id != 0 {
		db = db.Where("id = ?", id)
	}
	return db.Updates(map[string]any{"deleted_at": now, "token_hash": nil, "old_token_hash": nil}).Error
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
func (tx *Tx) SetImage(i Image) error {
	if err := tx.accounts().Model(&Application{}).Where("id = ?", i.ApplicationID).Update("has_image", len(i.Data) > 0).Error; err != nil {
		return err
	}
	if len(i.Data) == 0 {
		return tx.db.Delete(&Image{ApplicationID: i.ApplicationID}).Error
	}
	return tx.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&i).Error
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
	Heartbeat      Duration // the longest time between two heartbeats
	HeartbeatGrace Duration
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

// twins selects the rows r of rooms that stand for the same Matrix room as the row own: applications name a room by
// its ID or by an alias.
const twins = `rooms own JOIN rooms r ON r.id = own.id OR r.room_id = own.room_id AND r.room_id <> ''`

// sameRoom returns the rows of the room with an id of rooms.
func sameRoom(id string) string { return `(SELECT r.id FROM ` + twins + ` WHERE own.id = ` + id + `)` }

// hasLost is true for an application whose owner has lost the right to its room.
func hasLost(application string) string {
	return `(` + application + `.room_right IN ('member', 'writer') AND ` + application + `.owner_absent)`
}

// mayNotify is true if an application a may mention everybody in the room of an entry o. In a room that isn't its own, that is the
// right of another application of its owner.
var mayNotify = `CASE WHEN a.room_id = o.room THEN a.room_right <> 'writer' ELSE EXISTS (SELECT 1 FROM applications b
	WHERE b.owner_id = a.owner_id AND b.deleted_at = 0 AND b.room_id IN ` + sameRoom(`o.room`) + ` AND b.room_right <> 'writer' AND NOT ` + hasLost("b") + `) END`

// MaySend reports whether an application may send to a room now: it is the application's own room, or that of another one of the
// same owner, and the owner hasn't lost the right to it.
func (s *Store) MaySend(ctx context.Context, application, room int64) (bool, error) {
	return maySend(s.rows.WithContext(ctx), application, room)
}

// MaySend is [Store.MaySend] within a transaction.
func (tx *Tx) MaySend(application, room int64) (bool, error) {
	return maySend(tx.db, application, room)
}

func maySend(db *gorm.DB, application, room int64) (may bool, err error) {
	return may, db.Raw(`SELECT EXISTS (SELECT 1 FROM applications a JOIN applications b ON b.owner_id = a.owner_id AND (b.id = a.id OR a.room_id <> ?)
		WHERE a.id = ? AND a.deleted_at = 0 AND b.deleted_at = 0 AND b.room_id IN `+sameRoom(`?`)+` AND NOT `+hasLost("b")+`)`, room, application, room).Scan(&may).Error
}
