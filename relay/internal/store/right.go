package store

import (
	"context"

	"gorm.io/gorm"
)

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
