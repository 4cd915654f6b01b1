package store

import "context"

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
