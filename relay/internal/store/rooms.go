package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"

	"gorm.io/gorm/clause"

	"slipway/relay/internal/post"
)

// The address of a room that the bot is still to make is roomToMake and a random key.
const roomToMake = "new:"

// NewRoomAddress returns the address of a room that the bot is to make.
func NewRoomAddress() string { return roomToMake + rand.Text() }

// ToMake reports whether the room is still to be made by the bot.
func (r Room) ToMake() bool { return r.RoomID == "" && strings.HasPrefix(r.Address, roomToMake) }

// Key returns the key of a room that the bot is to make.
func (r Room) Key() string { return strings.TrimPrefix(r.Address, roomToMake) }

// Room returns a room by its id.
func (s *Store) Room(ctx context.Context, id int64) (r Room, err error) {
	return r, s.rows.WithContext(ctx).Take(&r, id).Error
}

// RoomsWithID returns the rooms that have an id at the homeserver.
func (s *Store) RoomsWithID(ctx context.Context, roomID string) (all []Room, err error) {
	return all, s.rows.WithContext(ctx).Where("room_id = ?", roomID).Find(&all).Error
}

// Rooms returns all rooms.
func (s *Store) Rooms(ctx context.Context) (all []Room, err error) {
	return all, s.rows.WithContext(ctx).Order("id").Find(&all).Error
}

// SaveRoom stores a room's state. If its new address is another room's, the address is kept.
func (s *Store) SaveRoom(ctx context.Context, r Room) error {
	for _, text := range []*string{&r.Address, &r.RoomID, &r.Name, &r.Blocked, &r.Replaced} { // a homeserver may send what PostgreSQL does not take
		*text = post.Clean(*text)
	}
	return s.Lead(ctx, func(tx *Tx) error {
		tx.edited = true
		var others int64
		if err := tx.db.Model(&Room{}).Where("address = ? AND id <> ?", r.Address, r.ID).Count(&others).Error; err != nil {
			return err
		}
		q := tx.db.Model(&Room{}).Where("id = ?", r.ID).Select("*").Omit("id")
		if others > 0 {
			q = q.Omit("id", "address")
		}
		return q.Updates(&r).Error
	})
}

// RoomAt returns the room with an address and makes the row if it is not there.
func (tx *Tx) RoomAt(address string) (Room, error) {
	r := Room{Address: address}
	if len(address) > 0 && address[0] == '!' {
		r.RoomID = address
	}
	err := tx.db.Where("address = ?", address).FirstOrCreate(&r).Error
	tx.changed(r.ID, Added)
	return r, err
}

// RoomOf returns the ID of a room with an address or an ID at the homeserver that applications of an owner send to; 0 if there is none.
func (tx *Tx) RoomOf(owner int64, address string) (room int64, err error) {
	return room, tx.db.Raw(`SELECT r.id FROM rooms r JOIN applications b ON b.room_id = r.id WHERE b.owner_id = ? AND b.deleted_at = 0 AND (r.address = ? OR r.room_id = ?)
		ORDER BY r.id LIMIT 1`, owner, address, address).Scan(&room).Error
}

// RoomsToMake returns the rooms that the bot is to make and an application needs.
func (s *Store) RoomsToMake(ctx context.Context) (all []Room, err error) {
	return all, s.rows.WithContext(ctx).Where("room_id = '' AND address LIKE ? AND id IN (SELECT room_id FROM applications WHERE deleted_at = 0)", roomToMake+"%").
		Order("id").Find(&all).Error
}

// RoomUser is an application that sends to a room, with its owner.
type RoomUser struct {
	Name, OwnerName, OwnerMatrixID string
	Own                            bool // the bot makes the room, or has made it, for the application
}

// RoomUser returns an application that sends to a room; it is [IsMissing] without any.
func (s *Store) RoomUser(ctx context.Context, room int64) (u RoomUser, err error) {
	r := s.rows.WithContext(ctx).Raw(`SELECT a.name, u.name AS owner_name, u.matrix_id AS owner_matrix_id, a.room_right = 'own' AS own FROM applications a JOIN users u ON u.id = a.owner_id
		WHERE a.room_id = ? AND a.deleted_at = 0 ORDER BY a.id LIMIT 1`, room).Scan(&u)
	if r.Error == nil && r.RowsAffected == 0 {
		return u, sql.ErrNoRows
	}
	return u, r.Error
}

// BlockedRooms counts the rooms where nothing is sent, except those that nobody sends to any more.
func (s *Store) BlockedRooms(ctx context.Context) (n int64, err error) {
	return n, s.rows.WithContext(ctx).Raw(`SELECT count(*) FROM rooms r WHERE blocked <> '' AND (
		EXISTS (SELECT 1 FROM applications a WHERE a.room_id = r.id AND a.deleted_at = 0) OR
		EXISTS (SELECT 1 FROM outbox o WHERE o.room = r.id AND ` + pendingIf(post.State.Blockable, "o.") + `))`).Scan(&n).Error
}

// PendingJoin is a row of pending_joins: a room that the bot is to join, because somebody
// invited it or because the room replaces another.
type PendingJoin struct {
	RoomID   string `gorm:"primaryKey"`
	Inviter  string // "" without an invitation
	Replaces string // the id of the room that this one takes the place of, "" if none
	Via      string // a server that is in the room, "" if none is known
}

// PendingJoins lists all rooms to join.
func (s *Store) PendingJoins(ctx context.Context) (all []PendingJoin, err error) {
	err = s.rows.WithContext(ctx).Find(&all).Error
	return all, err
}

// SavePendingJoin adds a room to join or replaces what is known of it.
func (s *Store) SavePendingJoin(ctx context.Context, p PendingJoin) error {
	for _, text := range []*string{&p.RoomID, &p.Inviter, &p.Replaces, &p.Via} {
		*text = post.Clean(*text)
	}
	return s.Lead(ctx, func(tx *Tx) error {
		return tx.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&p).Error
	})
}

// DeletePendingJoin forgets a room to join, if it is known.
func (s *Store) DeletePendingJoin(ctx context.Context, roomID string) error {
	return s.Lead(ctx, func(tx *Tx) error {
		return tx.db.Delete(&PendingJoin{RoomID: roomID}).Error
	})
}

// MatrixUsers lists the Matrix ids of the users that have one.
func (s *Store) MatrixUsers(ctx context.Context) (ids []string, err error) {
	err = s.rows.WithContext(ctx).Model(&User{}).Where("matrix_id <> ''").Order("id").Pluck("matrix_id", &ids).Error
	return ids, err
}
