package matrix

import "context"

// Event is what the homeserver tells about the bot and its rooms: one of the types below. Events may repeat: each says
// what is so now.
type Event interface{ event() }

// Online says that the session is good and the homeserver answers, for the first time or again.
type Online struct{}

// Offline says that nothing is heard of the homeserver, or that it refuses, and why. Online ends it.
type Offline struct{ Reason string }

// Synced ends the events of one answer of sync. Receiving it says that all events before it have been handled: their
// position in the stream is stored then and they are not sent again.
type Synced struct{}

// Joined says that the bot is in a room.
type Joined struct{ Room string }

// Left says that the bot is in a room no more, and why.
type Left struct{ Room, Reason string }

// Encrypted says that a room is encrypted, which cannot be undone.
type Encrypted struct{ Room string }

// Ready says that the bot can encrypt: its device is prepared, for the first time or again.
type Ready struct{}

// DevicesChanged says that users whom the bot shares encrypted rooms with have other devices, or are new there.
type DevicesChanged struct{}

// ReadersChanged says that others may read what is sent to a room from now on.
type ReadersChanged struct{ Room string }

// Replaced says that a room was upgraded and that the bot is in the room that took its place.
type Replaced struct{ Old, New string }

// Named tells a room's name; "" for a room without one.
type Named struct{ Room, Name string }

// PowerLevels says that the power levels of a room have changed: what the bot may do there may be different.
type PowerLevels struct{ Room string }

// Member tells the membership of somebody else in a room: join, invite, leave, ban or knock.
type Member struct{ Room, User, Membership string }

// Echo shows an event of the bot's own with its transaction id, or with the marker in its content.
type Echo struct{ Room, Txn, ID string }

func (Online) event()         {}
func (Offline) event()        {}
func (Synced) event()         {}
func (Joined) event()         {}
func (Left) event()           {}
func (Encrypted) event()      {}
func (Ready) event()          {}
func (DevicesChanged) event() {}
func (ReadersChanged) event() {}
func (Replaced) event()       {}
func (Named) event()          {}
func (PowerLevels) event()    {}
func (Member) event()         {}
func (Echo) event()           {}

// Events is the stream of what Run hears. One reader takes from it for as long as Run runs: Run waits for it.
func (c *Client) Events() <-chan Event { return c.events }

// emit passes an event to the reader.
func (c *Client) emit(ctx context.Context, e Event) error {
	select {
	case c.events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
