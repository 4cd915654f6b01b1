package store

import (
	"context"

	"gorm.io/gorm/clause"

	"slipway/relay/internal/post"
)

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
