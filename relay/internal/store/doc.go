// Package store keeps the relay's data in one SQLite file, or in a PostgreSQL database that several relays may share: users,
// applications, rooms and sessions through gorm, messages and the outbox through SQL of its own. No type of gorm leaves it.
//
// One connection writes. What arrives while the disk is busy is committed together: messages are flushed before
// [Store.Accept] returns; results of deliveries go along, or are committed without a flush of their own, because losing
// them costs a repeat that the homeserver deduplicates.
//
// A caller that waits for a change uses [Store.Await], and then reads the database. The delivery is a [Listener], so that a commit
// wakes the queues of its rooms and no other goroutine.
package store
