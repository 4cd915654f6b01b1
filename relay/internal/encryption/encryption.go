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

// Database is where the keys of the bot's device are kept.
type Database interface {
	Crypto(ctx context.Context, device string) ([]store.CryptoRow, error)
	CryptoOfOthers(ctx context.Context, device, kind string) ([]store.CryptoRow, error)
	SaveCrypto(ctx context.Context, device string, rows []store.CryptoRow) error
	ForgetCrypto(ctx context.Context, except string) error
}

// Options are what a [Device] is made of.
type Options struct {
	Database    Database
	PickleKey   []byte          // encrypts the keys in the database
	Client      *mautrix.Client // with the session; the device changes its Client, so that nothing leaves before it is stored
	RecoveryKey string          // of the bot's identity, if another client has made it; "" if not
	Password    string          // of the bot, by which a homeserver lets it make its identity; "" if there is none
	Log         *zap.Logger
}

// Room is what the caller knows of an encrypted room.
type Room struct {
	ID      string
	Rules   *event.EncryptionEventContent
	Members func(context.Context) ([]id.UserID, error) // asks the homeserver who may read
}

// Identity says how other clients see the bot's device.
type Identity struct {
	Device      string
	Fingerprint string
	Verified    bool   // the bot's identity has signed the device
	Problem     string // why not, and what to do; "" if it is verified
}

var (
	// ErrWrongKey says that the keys were stored under another pickle key.
	ErrWrongKey = errors.New("the pickle key is not the one that the keys were stored with")
	// ErrNoRecoveryKey says that the relay has no recovery key.
	ErrNoRecoveryKey = errors.New("the relay has neither made the bot's identity nor recovered it yet")
	// ErrOtherKeys says that the homeserver has other keys for the device: those of this relay are lost, or were made for another.
	ErrOtherKeys = errors.New("the homeserver has other keys for the bot's device than the relay")
	// ErrNoReaders says that nobody but the bot has a device that could read what is sent to a room.
	ErrNoReaders = errors.New("nobody else in the room has a device that can read")
	// ErrReadersAway is ErrNoReaders where a member's homeserver does not say which devices there are.
	ErrReadersAway = fmt.Errorf("%w that is known: a member's homeserver does not answer", ErrNoReaders)
	// ErrNoDevice says that the access token belongs to no device.
	ErrNoDevice = errors.New("the bot's access token belongs to no device, so it cannot encrypt")
)
