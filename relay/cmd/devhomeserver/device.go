//go:build goolm

package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"go.mau.fi/util/dbutil"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
	_ "modernc.org/sqlite" // the driver
)

const deviceName = "slipway messages"

// login is how a person logs in, and where the device is kept.
type login struct {
	base, user, password, dir string
}

// session is what is kept of a login.
type session struct {
	User   id.UserID   `json:"user"`
	Device id.DeviceID `json:"device"`
	Token  string      `json:"token"`
}

// device is a person's device. Its keys stay in its folder: it reads again what it has read once.
type device struct {
	client  *mautrix.Client
	machine *crypto.OlmMachine
	store   *crypto.SQLCryptoStore
	db      *sql.DB

	patience time.Duration // how long to wait, in all, for keys that have not come yet
}

const (
	// maxPatience suffices for a homeserver under load, which may deliver an event before the key that was sent ahead of it.
	maxPatience = 20 * time.Second

	// keyComesWithin is the age of an event at which its key has come, or was sent to other devices only.
	keyComesWithin = time.Minute
)

// openDevice takes the device in the folder, or makes one. Where the homeserver has forgotten it, it logs in again under its name.
func openDevice(ctx context.Context, l login) (*device, error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, err
	}
	client, err := mautrix.NewClient(l.base, "", "")
	if err != nil {
		return nil, err
	}
	client.Log = zerolog.Nop()
	client.StateStore = nil
	fresh, err := l.enter(ctx, client)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(l.dir, "keys.db")+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	d := &device{client: client, db: db, patience: maxPatience}
	if err := d.load(ctx, fresh); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return d, nil
}

func (d *device) close() { _ = d.db.Close() }

// enter takes the session in the folder, or logs in; fresh says which.
func (l login) enter(ctx context.Context, client *mautrix.Client) (fresh bool, err error) {
	file := filepath.Join(l.dir, "session.json")
	var s session
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the device's session: %w", err)
	}
	client.UserID, client.DeviceID, client.AccessToken = s.User, s.Device, s.Token
	if s.Token != "" {
		_, err := client.Whoami(ctx)
		if !errors.Is(err, mautrix.MUnknownToken) {
			return false, unreachable(l.base, err)
		}
	}
	client.AccessToken = ""
	_, err = client.Login(ctx, &mautrix.ReqLogin{
		Type: mautrix.AuthTypePassword, Password: l.password, DeviceID: s.Device, InitialDeviceDisplayName: deviceName, StoreCredentials: true,
		Identifier: mautrix.UserIdentifier{Type: mautrix.IdentifierTypeUser, User: l.user},
	})
	if err != nil {
		return false, unreachable(l.base, err)
	}
	text, err = json.Marshal(session{client.UserID, client.DeviceID, client.AccessToken})
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(file, text, 0o600)
}

// unreachable explains a request that nobody has answered.
func unreachable(base string, err error) error {
	var answer mautrix.HTTPError
	if errors.As(err, &answer) && answer.Response == nil {
		return fmt.Errorf("no homeserver answers at %s; start it with: make run (%w)", base, err)
	}
	return err
}

// load reads the device's keys, or makes them, and brings them to the homeserver after each login.
func (d *device) load(ctx context.Context, fresh bool) error {
	wrapped, err := dbutil.NewWithDB(d.db, "sqlite3")
	if err != nil {
		return err
	}
	d.store = crypto.NewSQLCryptoStore(wrapped, dbutil.NoopLogger, "", d.client.DeviceID, []byte("keys of a development account, beside its password"))
	if err := d.store.DB.Upgrade(ctx); err != nil {
		return err
	}
	states, ok := mautrix.NewMemoryStateStore().(crypto.StateStore)
	if !ok {
		return errors.New("the library's state store does not suit its encryption")
	}
	quiet := zerolog.Nop()
	d.machine = crypto.NewOlmMachine(d.client, &quiet, d.store, states)
	if err := d.machine.Load(ctx); err != nil {
		return err
	}
	if fresh {
		d.machine.GetAccount().Shared = false
		if err := d.store.PutNextBatch(ctx, ""); err != nil { // it was another session's
			return err
		}
	}
	if d.machine.GetAccount().Shared {
		return nil
	}
	return d.machine.ShareKeys(ctx, 0)
}

// sync stores the keys that were sent to the device and accepts invitations. It blocks up to wait for new events.
func (d *device) sync(ctx context.Context, wait time.Duration) error {
	since, err := d.store.GetNextBatch(ctx)
	if err != nil {
		return err
	}
	for more := true; more; {
		answer, err := d.client.SyncRequest(ctx, int(wait.Milliseconds()), since, "", false, event.PresenceOffline)
		if err != nil {
			return err
		}
		d.machine.ProcessSyncResponse(ctx, answer, since)
		for room := range answer.Rooms.Invite {
			if _, err := d.client.JoinRoomByID(ctx, room); err != nil {
				return err
			}
		}
		wait = 0
		since, more = answer.NextBatch, len(answer.ToDevice.Events) > 0 // of which an answer has a hundred
		if err := d.store.PutNextBatch(ctx, since); err != nil {
			return err
		}
	}
	return nil
}

// decrypt decrypts an event. The key of a recent one may not have come yet.
func (d *device) decrypt(ctx context.Context, e *event.Event) (*event.Event, error) {
	e.Type.Class = event.MessageEventType
	if err := e.Content.ParseRaw(e.Type); err != nil {
		return nil, err
	}
	plain, err := d.machine.DecryptMegolmEvent(ctx, e)
	recent := time.Since(time.UnixMilli(e.Timestamp)) < keyComesWithin
	for recent && errors.Is(err, crypto.ErrNoSessionFound) && d.patience > 0 {
		begun := time.Now()
		if err := d.sync(ctx, d.patience); err != nil {
			return nil, err
		}
		d.patience -= time.Since(begun)
		plain, err = d.machine.DecryptMegolmEvent(ctx, e)
	}
	return plain, err
}
