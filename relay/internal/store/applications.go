package store

import "context"

// Applications returns all applications that are not deleted.
func (s *Store) Applications(ctx context.Context) (all []Application, err error) {
	return all, s.rows.WithContext(ctx).Where("deleted_at = 0").Order("id").Find(&all).Error
}

// Application returns an application; one without ID if there is none.
func (tx *Tx) Application(id int64) (a Application, err error) {
	return a, tx.db.Where("id = ?", id).Limit(1).Find(&a).Error
}

// CreateApplication stores an application, which gets its id.
func (tx *Tx) CreateApplication(a *Application) error {
	return tx.accounts().Create(a).Error
}

// UpdateApplication stores what may be set on an application.
func (tx *Tx) UpdateApplication(a *Application) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", a.ID).
		Select("*").Omit("id", "token_hash", "token_created_at", "old_token_hash", "old_token_until", "has_image", "created_at", "deleted_at", "last_used", "accepted", "sent", "dead").
		Updates(a).Error
}

// SetOwnerAbsent stores whether the owner of an application is known not to be in its room.
func (tx *Tx) SetOwnerAbsent(id int64, absent bool) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", id).Update("owner_absent", absent).Error
}

// SetRoomRight stores why an application may send to its room.
func (tx *Tx) SetRoomRight(id int64, right string) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", id).Update("room_right", right).Error
}

// UpdateToken stores an application's tokens.
func (tx *Tx) UpdateToken(a *Application) error {
	return tx.accounts().Model(&Application{}).Where("id = ?", a.ID).
		Select("token_hash", "token_created_at", "old_token_hash", "old_token_until").Updates(a).Error
}

// DeleteApplications marks applications as deleted: [Store.PurgeApplications] removes them with their messages.
func (tx *Tx) DeleteApplications(now int64, ids ...int64) error {
	tx.changed(0, Altered)
	return tx.accounts().Model(&Application{}).Where("id IN ?", ids).Updates(map[string]any{"deleted_at": now, "token_hash": nil, "old_token_hash": nil}).Error
}

// HasToken reports whether an application has a token with this hash.
func (tx *Tx) HasToken(hash []byte) (bool, error) {
	var n int64
	err := tx.db.Model(&Application{}).Where("token_hash = ? OR old_token_hash = ?", hash, hash).Count(&n).Error
	return n > 0, err
}

// HasApplication reports whether a user has an application of this name.
func (tx *Tx) HasApplication(owner int64, name string) (bool, error) {
	var n int64
	err := tx.db.Model(&Application{}).Where("owner_id = ? AND name = ? AND deleted_at = 0", owner, name).Count(&n).Error
	return n > 0, err
}
