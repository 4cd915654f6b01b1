package matrix

import "context"

// Event is a change of the session or of a room: one of the types below. Events may repeat.
type Event any

// Online reports that the session is valid and the homeserver responds, for the first time or again.
type Online struct{}

// Offline reports that the homeserver does not respond or refuses the session. Online ends it.
type Offline struct{ Reason string }

// Synced ends the events of one sync response. By receiving it the reader acknowledges all events before it; they are not sent
// again.
type Synced struct{}

// Joined reports that the bot is in a room.
type Joined struct{ Room string }

// Left reports that the bot is no longer in a room.
type Left struct{ Room, Reason string }

// Encrypted reports that a room is encrypted, which cannot be undone.
type Encrypted struct{ Room string }

// Ready reports that the bot can encrypt, for the first time or again.
type Ready struct{}

// DevicesChanged reports new or changed devices of users in encrypted rooms.
type DevicesChanged struct{}

// ReadersChanged reports that a room's readers may have changed.
type ReadersChanged struct{ Room string }

// Replaced reports that a room was upgraded and that the bot is in its successor.
type Replaced struct{ Old, New string }

// Named reports a room's name, "" if it has none.
type Named struct{ Room, Name string }

// Tombstone reports that a room has another successor, or none any more.
type Tombstone struct{ Room string }

// PowerLevels reports that a room's power levels changed.
type PowerLevels struct{ Room string }

// Member reports another user's membership: join, invite, leave, ban, or knock.
type Member struct{ Room, User, Membership string }

// Reaction reports a reaction of another user to an event.
type Reaction struct{ Room, Event, Sender, Key string }

// Events returns the stream of events. A single reader must receive from it while Run runs; Run blocks on it.
func (c *Client) Events() <-chan Event { return c.events }

// emit sends an event to the reader.
func (c *Client) emit(ctx context.Context, e Event) error {
	select {
	case c.events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
