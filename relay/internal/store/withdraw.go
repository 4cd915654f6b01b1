package store

import (
	"errors"

	"slipway/relay/internal/post"
)

// Requeue queues a message again that is final without being in the room. It returns false if its state is another.
func (tx *Tx) Requeue(id, now int64) (bool, error) {
	e, err := tx.Entry(id)
	if err != nil {
		return false, err
	}
	followUps, err := tx.FollowUps(id)
	if err != nil {
		return false, err
	}
	queued, err := tx.Step(e, post.Redelivered{Txn: post.NewTxn(), FollowUps: followUps}, now)
	if err != nil || queued.State == e.State {
		return false, err
	}
	tx.changed(e.Room, Retry)
	return true, nil
}

// Withdraw withdraws a message and removes its attachments.
func (tx *Tx) Withdraw(id, now int64) error {
	e, err := tx.Entry(id)
	if err != nil {
		return err
	}
	followUps, err := tx.FollowUps(id)
	if err != nil {
		return err
	}
	if _, err := tx.Step(e, post.Withdrawn{FollowUps: followUps}, now); err != nil {
		return err
	}
	return errors.Join(tx.exec(`DELETE FROM attachments WHERE message_id > 0 AND message_id = ?`, id), tx.CloseAlert(id, now))
}
