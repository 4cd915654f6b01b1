package store

import (
	"context"
	"crypto/rand"
	"strings"

	"gorm.io/gorm"
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
	return r, s.Read(ctx).Take(&r, id).Error
}

// Rooms returns all rooms.
func (s *Store) Rooms(ctx context.Context) (all []Room, err error) {
	return all, s.Read(ctx).Find(&all).Error
}

// SaveRoom stores a room's state. If its new address is another room's, the address stays as it was.
func (s *Store) SaveRoom(ctx context.Context, r Room) error {
	return s.Update(ctx, func(tx *Tx) error {
		var others int64
		if err := tx.Model(&Room{}).Where("address = ? AND id <> ?", r.Address, r.ID).Count(&others).Error; err != nil {
			return err
		}
		q := tx.Model(&Room{}).Where("id = ?", r.ID).Select("*").Omit("id")
		if others > 0 {
			q = q.Omit("id", "address")
		}
		return q.Updates(&r).Error
	})
}

// RoomAt returns the room with an address and makes the row if it is not there.
func RoomAt(tx *gorm.DB, address string) (Room, error) {
	r := Room{Address: address}
	if len(address) > 0 && address[0] == '!' {
		r.RoomID = address
	}
	return r, tx.Where("address = ?", address).FirstOrCreate(&r).Error
}
