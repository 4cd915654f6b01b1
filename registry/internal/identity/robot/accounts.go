package robot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/access"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/sharedstate"
	"slipway/registry/internal/storage"
)

const maxRobots = 10_000

// Errors that callers distinguish.
var (
	ErrUnknown = errors.New("no such robot")
	errExpired = fmt.Errorf("%w any more: it has expired", ErrUnknown)
	ErrExists  = errors.New("there is a robot of that name; delete it first")
	ErrInvalid = errors.New("invalid robot")
)

// Accounts are all robots. Each is an object of its own, so that revoking one is a
// deletion, which a full disk can't prevent. One is read when it logs in, and then trusted
// for sharedstate.Fresh; a process without logins sends no requests for them.
type Accounts struct {
	store    storage.Store
	log      *zap.Logger
	records  *sharedstate.Records[Account]
	used     sync.Map // name → time.Time of the last login here
	reported sync.Map // name → true: it can't be understood, which was logged
}

// Account is a robot that may log in.
type Account struct {
	Robot
	Own []access.Grant

	hash   string
	broken bool // it can't be understood and may do nothing
}

// New does no I/O.
func New(store storage.Store, log *zap.Logger) *Accounts {
	a := &Accounts{store: store, log: log}
	a.records = sharedstate.NewRecords(store, a.parse)
	return a
}

func keyOf(name string) string { return layout.Robots + "/" + name }

// nameOf returns the name of the robot at a key, "" if it is none.
func nameOf(key string) string {
	name := strings.TrimPrefix(key, layout.Robots+"/")
	if !nameForm.MatchString(name) {
		return ""
	}
	return name
}

func (a *Accounts) parse(key string, content []byte) *Account {
	var r record
	name := nameOf(key)
	err := json.Unmarshal(content, &r)
	if err == nil && r.Name != name {
		err = fmt.Errorf("it is called %q inside", r.Name)
	}
	account := &Account{Robot: r.Robot, hash: r.Hash}
	if err == nil {
		var grant access.Grant
		grant, err = account.Grant()
		account.Own = []access.Grant{grant}
	}
	if err != nil {
		if _, known := a.reported.Swap(name, true); !known {
			a.log.Error("a robot cannot be understood; it may do nothing", zap.String("robot", name), zap.Error(err))
		}
		account.Name, account.broken = name, true
	} else {
		a.reported.Delete(name)
	}
	return account
}

// read returns a robot from the storage. ErrUnknown.
func (a *Accounts) read(ctx context.Context, name string) (account *Account, version string, err error) {
	if !nameForm.MatchString(name) {
		return nil, "", ErrUnknown
	}
	account, version, err = a.records.Read(ctx, keyOf(name))
	if errors.Is(err, storage.ErrNotExist) {
		err = ErrUnknown
	}
	return account, version, err
}

// Read returns a robot as the storage has it now, also one that has expired. ErrUnknown.
func (a *Accounts) Read(ctx context.Context, name string) (Robot, error) {
	account, _, err := a.read(ctx, name)
	if err != nil {
		return Robot{}, err
	}
	return account.Robot, nil
}

// Create adds a robot and returns its secret, which can't be read again. Errors:
// ErrInvalid, ErrExists. A robot that has expired makes room for another of its name.
func (a *Accounts) Create(ctx context.Context, r Robot) (secret string, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	if err := r.Check(now); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	n := 0
	for _, err := range a.store.List(ctx, layout.Robots, storage.ListOptions{}) {
		if n++; err != nil {
			return "", err
		}
	}
	if n >= maxRobots {
		return "", fmt.Errorf("%w: there are %d robots already", ErrInvalid, maxRobots)
	}
	switch old, _, err := a.read(ctx, r.Name); {
	case errors.Is(err, ErrUnknown):
	case err != nil:
		return "", err
	case old.broken || !old.Expired(now):
		return "", ErrExists
	default:
		if err := a.Revoke(ctx, r.Name); err != nil && !errors.Is(err, ErrUnknown) {
			return "", err
		}
	}
	r.ID, r.Tenure, r.Created = newID(), newID(), now
	secret, hash := newSecret()
	err = a.put(ctx, record{r, hash}, storage.IfAbsent())
	if errors.Is(err, storage.ErrConflict) {
		err = ErrExists
	}
	return secret, err
}

// Rotate gives a robot another secret, which can't be read again; the old one and its tokens end
// as with Revoke. From then on the rights of by bound those of the robot, unless by is the robot
// itself, which stays bounded by its maker. The robots that it made for another maker end. ErrUnknown,
// also for a robot that has changed at the same moment.
func (a *Accounts) Rotate(ctx context.Context, name string, by Maker) (secret string, err error) {
	old, version, err := a.read(ctx, name)
	if err != nil {
		return "", err
	}
	if old.broken {
		return "", ErrUnknown
	}
	r := old.Robot
	r.ID = newID()
	if self := (&access.Caller{Kind: access.Robot, Name: name}).String(); by.Name != self {
		if r.Orphaned || by != (Maker{r.CreatedBy, r.MakerID, r.Token}) {
			r.Tenure = newID()
		}
		r.CreatedBy, r.MakerID, r.Token, r.Orphaned = by.Name, by.ID, by.Token, false
	}
	secret, hash := newSecret()
	err = a.put(ctx, record{r, hash}, storage.IfVersion(version))
	if errors.Is(err, storage.ErrConflict) {
		err = ErrUnknown
	}
	return secret, err
}

// Orphan ends a robot whose maker has vanished, until it gets another secret. On a full disk it is
// revoked. ended is false if the robot is changing and must be looked at again.
func (a *Accounts) Orphan(ctx context.Context, name string) (ended bool, err error) {
	old, version, err := a.read(ctx, name)
	switch {
	case errors.Is(err, ErrUnknown) || err == nil && (old.broken || old.Orphaned):
		return true, nil
	case err != nil || version == "":
		return false, err
	}
	r := old.Robot
	r.Orphaned = true
	err = a.put(ctx, record{r, old.hash}, storage.IfVersion(version))
	switch {
	case errors.Is(err, storage.ErrNoSpace):
		err = a.Revoke(ctx, name)
	case errors.Is(err, storage.ErrConflict):
		return false, nil
	}
	return err == nil, err
}

func (a *Accounts) put(ctx context.Context, r record, condition storage.Condition) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(content) > sharedstate.MaxRecord {
		return fmt.Errorf("%w: it would be larger than %d KiB", ErrInvalid, sharedstate.MaxRecord>>10)
	}
	return a.records.Apply(ctx, storage.Change{Key: keyOf(r.Name), Content: content, If: condition})
}

// LastUsed returns the time at which the robot last logged in at this process, the zero time if it never did.
func (a *Accounts) LastUsed(name string) time.Time {
	at, _ := a.used.Load(name)
	t, _ := at.(time.Time)
	return t
}

// Revoke removes a robot: its secret and its tokens end here at once, and at other
// replicas within sharedstate.Fresh. ErrUnknown.
func (a *Accounts) Revoke(ctx context.Context, name string) error {
	if !nameForm.MatchString(name) {
		return ErrUnknown
	}
	_, err := a.store.Stat(ctx, keyOf(name))
	if err == nil {
		err = a.records.Apply(ctx, storage.Change{Key: keyOf(name), Delete: true})
	}
	if errors.Is(err, storage.ErrNotExist) {
		err = ErrUnknown
	}
	return err
}

// List returns all robots, also those that have expired, by name, as the storage has
// them now.
func (a *Accounts) List(ctx context.Context) ([]Robot, error) {
	all, _, err := a.records.List(ctx, layout.Robots, func(key string) bool { return nameOf(key) != "" }, 2*maxRobots)
	var list []Robot
	for _, account := range all {
		list = append(list, account.Robot)
	}
	slices.SortFunc(list, func(x, y Robot) int { return cmp.Compare(x.Name, y.Name) })
	return list, err
}

// Login returns the robot with that name and secret. Errors: ErrUnknown, also for a wrong
// secret, sharedstate.ErrUnread, and the context's.
func (a *Accounts) Login(ctx context.Context, name string, secret []byte) (*Account, error) {
	account, err := a.find(ctx, name, func(account *Account) bool { return account.accepts(secret) })
	if err == nil {
		a.used.Store(account.Name, time.Now())
	}
	return account, err
}

// Current returns the robot with that name and id as it is now. Errors as with Login: ErrUnknown also
// if the name is another robot's by now.
func (a *Accounts) Current(ctx context.Context, name, id string) (*Account, error) {
	return a.find(ctx, name, func(account *Account) bool { return account.ID == id })
}

// Find returns the robot of that name. Errors are those of Login.
func (a *Accounts) Find(ctx context.Context, name string) (*Account, error) {
	return a.find(ctx, name, func(*Account) bool { return true })
}

// find returns a robot that fits and may log in. One that doesn't may have changed a moment ago, so it is
// read again, within bounds.
func (a *Accounts) find(ctx context.Context, name string, fits func(*Account) bool) (account *Account, err error) {
	if !nameForm.MatchString(name) {
		return nil, ErrUnknown
	}
	for _, get := range []func(context.Context, string) (*Account, error){a.records.Get, a.records.Renew} {
		account, err = get(ctx, keyOf(name))
		switch {
		case errors.Is(err, storage.ErrNotExist):
			return nil, ErrUnknown
		case err != nil:
			return nil, err
		case account.Expired(time.Now()):
			err = errExpired
		case account.broken || !fits(account):
			err = ErrUnknown
		default:
			return account, nil
		}
	}
	return nil, err
}
