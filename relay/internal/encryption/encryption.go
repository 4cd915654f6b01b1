// Package encryption is the bot's device in encrypted rooms: its keys, the sessions with other devices, and the encryption of
// events. It is built with the tag goolm, which takes the library's implementation in Go.
package encryption

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/store"
)

// Options of [Open].
type Options struct {
	Keys        *store.Keys
	PickleKey   []byte          // encrypts the keys in the database
	Client      *mautrix.Client // with the session; Open wraps its HTTP client to flush before each request
	RecoveryKey string          // of the bot's identity, if another client created it; may be empty
	Password    string          // of the bot, which homeservers may require to create an identity; may be empty
	Log         *zap.Logger
}

// Room is an encrypted room as the caller knows it.
type Room struct {
	ID      string
	Rules   *event.EncryptionEventContent
	Members func(context.Context) ([]id.UserID, error) // asks the homeserver for the readers
}

// Identity is the view of the bot's device that other clients have.
type Identity struct {
	Device      string
	Fingerprint string
	Verified    bool   // the bot's identity has signed the device
	Problem     string // why it is not verified and what to do; "" if it is
}

var (
	// ErrWrongKey reports that the keys were stored under another pickle key.
	ErrWrongKey = errors.New("the pickle key is not the one that the keys were stored with")
	// ErrNoRecoveryKey reports that the relay has no recovery key.
	ErrNoRecoveryKey = errors.New("the relay has neither made the bot's identity nor recovered it yet")
	// ErrOtherKeys reports that the homeserver has other keys for the device: the relay's are lost, or belong to another
	// device.
	ErrOtherKeys = errors.New("the homeserver has other keys for the bot's device than the relay")
	// ErrNoReaders reports that only the bot has devices that could read a message in the room.
	ErrNoReaders = errors.New("nobody else in the room has a device that can read")
	// ErrReadersAway is ErrNoReaders while a member's homeserver doesn't answer for the member's devices.
	ErrReadersAway = fmt.Errorf("%w that is known: a member's homeserver does not answer", ErrNoReaders)
	// ErrNoDevice reports that the access token belongs to no device.
	ErrNoDevice = errors.New("the bot's access token belongs to no device, so it cannot encrypt")
)
