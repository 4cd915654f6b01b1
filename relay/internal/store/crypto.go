package store

import (
	"context"

	"slipway/relay/internal/post"
)

// CryptoRow is a row of the table crypto: a key, a session or a counter of one of the bot's devices.
// In SaveCrypto a nil Value deletes the row.
type CryptoRow struct {
	Kind, Key string
	Value     []byte
}

// Keys is the table crypto for the delivering relay, as long as it delivers without a break: once another relay has had the
// lease, the keys in memory may be older than those in the table, and nothing more is written.
type Keys struct {
	store *Store
	epoch int64
}

// Keys returns the table crypto under the lease that is held now.
func (s *Store) Keys() *Keys { return &Keys{s, s.Epoch()} }

// Crypto returns what a device keeps.
func (k *Keys) Crypto(ctx context.Context, device string) (all []CryptoRow, err error) {
	return all, k.store.rows.WithContext(ctx).Table("crypto").Where("device = ?", device).Find(&all).Error
}

// CryptoOfOthers returns the rows of a kind that devices other than one keep.
func (k *Keys) CryptoOfOthers(ctx context.Context, device, kind string) (all []CryptoRow, err error) {
	return all, k.store.rows.WithContext(ctx).Table("crypto").Where("device <> ? AND kind = ?", device, kind).Find(&all).Error
}

// SaveCrypto stores changes of what a device keeps, all or none, flushed to disk.
func (k *Keys) SaveCrypto(ctx context.Context, device string, rows []CryptoRow) error {
	return k.store.leadSince(ctx, k.epoch, func(tx *Tx) error {
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
func (k *Keys) ForgetCrypto(ctx context.Context, except string) error {
	return k.store.leadSince(ctx, k.epoch, func(tx *Tx) error { return tx.exec(`DELETE FROM crypto WHERE device <> ?`, except) })
}

// KeepWire stores the bytes of an entry that is about to be sent for the first time, flushed to disk, so that a
// repeat of the attempt sends the same ones. It returns false if the entry is final by now, or was revised.
func (s *Store) KeepWire(ctx context.Context, e *post.Entry, at int64) (kept bool, err error) {
	err = s.Lead(ctx, func(tx *Tx) error {
		n, err := tx.execCount(`UPDATE outbox SET wire = ?, cut = ?, root = ?, event_type = ?, device = ?, first_attempt_at = ? WHERE id = ? AND final_at = 0 AND revised_at = ?`,
			e.Wire, e.Cut, e.Root, e.EventType, e.Device, at, e.ID, e.RevisedAt)
		kept = n > 0
		return err
	})
	return kept, err
}
