package store

import (
	"context"

	"slipway/relay/internal/message"
)

// CryptoRow is a row of the table crypto: a key, a session or a counter of one of the bot's devices.
// In SaveCrypto a nil Value deletes the row.
type CryptoRow struct {
	Kind, Key string
	Value     []byte
}

// Crypto returns what a device keeps.
func (s *Store) Crypto(ctx context.Context, device string) (all []CryptoRow, err error) {
	return all, s.rows.WithContext(ctx).Raw(`SELECT kind, key, value FROM crypto WHERE device = ?`, device).Scan(&all).Error
}

// SaveCrypto stores changes of what a device keeps, all or none, flushed to disk. Only the relay that delivers may.
func (s *Store) SaveCrypto(ctx context.Context, device string, rows []CryptoRow) error {
	return s.Lead(ctx, func(tx *Tx) error {
		for _, r := range rows {
			if err := tx.saveCrypto(device, r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (tx *Tx) saveCrypto(device string, r CryptoRow) error {
	if r.Value == nil {
		return tx.exec(`DELETE FROM crypto WHERE device = ? AND kind = ? AND key = ?`, device, r.Kind, r.Key)
	}
	return tx.exec(`INSERT INTO crypto (device, kind, key, value) VALUES (?, ?, ?, ?)
		ON CONFLICT (device, kind, key) DO UPDATE SET value = excluded.value`, device, r.Kind, r.Key, r.Value)
}

// ForgetCrypto deletes what all devices except one keep: the others are gone. "" deletes everything.
func (s *Store) ForgetCrypto(ctx context.Context, except string) error {
	return s.Lead(ctx, func(tx *Tx) error { return tx.exec(`DELETE FROM crypto WHERE device <> ?`, except) })
}

// KeepWire stores the bytes of an entry that is about to be sent for the first time, flushed to disk, so that whoever repeats
// the attempt sends the same ones. It answers false if the entry is final by now.
func (s *Store) KeepWire(ctx context.Context, e *message.Entry, at int64) (kept bool, err error) {
	err = s.Lead(ctx, func(tx *Tx) error {
		n, err := tx.execCount(`UPDATE outbox SET wire = ?, cut = ?, event_type = ?, device = ?, first_attempt_at = ? WHERE id = ? AND final_at = 0`,
			e.Wire, e.Cut, e.EventType, e.Device, at, e.ID)
		kept = n > 0
		return err
	})
	return kept, err
}
