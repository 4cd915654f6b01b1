package store

import (
	"errors"

	"slipway/relay/internal/post"
)

// Requeue queues a message again that is final without being in the room. It returns false if its state is another.
func (tx *Tx) Requeue(id, now int64) (bool, error) {
	e, err := tx.loadEntry(id)
	if err != nil {
		return false, err
	}
	followUps, err := tx.followUps(id)
	if err != nil {
		return false, err
	}
	was := e.Version()
	e, others, effects := post.Step(e, post.Redelivered{Txn: post.NewTxn(), FollowUps: followUps}, now)
	if e.Version() == was {
		return false, nil
	}
	if _, err := tx.saveEntry(&e, was); err != nil {
		return false, err
	}
	tx.changed(e.Room, Retry)
	return true, tx.spread(&e, others, effects, now)
}

// Withdraw withdraws a message and removes its attachments.
func (tx *Tx) Withdraw(id, now int64) error {
	e, err := tx.loadEntry(id)
	if err != nil {
		return err
	}
	followUps, err := tx.followUps(id)
	if err != nil {
		return err
	}
	if _, err := tx.step(e, post.Withdrawn{FollowUps: followUps}, now); err != nil {
		return err
	}
	tx.final = append(tx.final, id)
	tx.changed(e.Room, Altered)
	return errors.Join(tx.exec(`DELETE FROM attachments WHERE message_id > 0 AND message_id = ?`, id), tx.closeAlert(id, now))
}
