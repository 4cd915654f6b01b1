// Package store keeps the relay's data in one SQLite file: users, applications, rooms and sessions through gorm,
// messages and the outbox through explicit SQL.
//
// All writing is done by one goroutine. It gathers what arrives while the disk is busy and commits it together:
// messages are flushed fully before [Store.Accept] returns, while results of deliveries ride along or are
// committed without a flush of their own, as losing them costs a repeat that the homeserver recognises.
package store
