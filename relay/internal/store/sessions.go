package store

import "context"

// Session returns the session with a token's hash if it has not ended by now.
func (s *Store) Session(ctx context.Context, tokenHash []byte, now int64) (row Session, err error) {
	return row, s.rows.WithContext(ctx).Where("token_hash = ? AND expires_at > ?", tokenHash, now).Take(&row).Error
}

// CreateSession stores a session.
func (s *Store) CreateSession(ctx context.Context, row Session) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.db.Create(&row).Error })
}

// DeleteSession ends a session, if there is one.
func (s *Store) DeleteSession(ctx context.Context, tokenHash []byte) error {
	return s.Update(ctx, func(tx *Tx) error { return tx.db.Where("token_hash = ?", tokenHash).Delete(&Session{}).Error })
}
