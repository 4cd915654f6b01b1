package store

import (
	"context"

	"gorm.io/gorm"
)

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
