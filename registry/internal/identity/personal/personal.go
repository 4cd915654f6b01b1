// Package personal keeps personal access tokens: secrets by which their owner logs in with clients
// such as docker login. They are in the storage, so all replicas know them; of a
// secret only its hash is kept. What an owner may do is decided by the rules at each use.
package personal

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/sharedstate"
	"slipway/registry/internal/storage"
)

// Prefix begins each secret, so that logins and scanners for leaked secrets recognize one.
const Prefix = "slipway_pat_"

const (
	// MaxLifetime bounds how long a token is valid.
	MaxLifetime = 366 * 24 * time.Hour

	maxTokens = 100 // of one owner
	maxNote   = 200
)

// Errors that callers distinguish.
var (
	ErrUnknown = errors.New("no such token")
	ErrInvalid = errors.New("invalid token")
)

// Token is a personal access token.
type Token struct {
	ID      string    `json:"id"`
	Note    string    `json:"note,omitempty"`
	Allow   []string  `json:"allow,omitempty"` // rights that it is for; none stands for all of the owner's
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`

	// Bond ties the token to its owner as of its creation. The caller compares it at each use: the name
	// may have another owner by now.
	Bond string `json:"bond,omitempty"`
}

// Owned is a token with its owner.
type Owned struct {
	Token
	Owner string
}

// Only is the rights that the token is for, 0 for all.
func (t *Token) Only() access.Rights {
	rights, _ := access.ParseRights(t.Allow) // checked when it was read
	return rights.Needs()
}

// record is a token as it is stored.
type record struct {
	Token
	Owner string `json:"owner"`
	Hash  string `json:"hash"` // of the secret, which is random: SHA-256 is enough
}

// Person holds the claims of the identity provider about a person at the last login.
type Person struct {
	Owner  string   `json:"owner"`
	ID     string   `json:"id,omitempty"` // another one's if the name was given to somebody else
	Source string   `json:"source"`
	Groups []string `json:"groups"`
	More   bool     `json:"more,omitempty"` // there may be other groups
}

// Tokens are the tokens of all owners. It is safe for concurrent use.
type Tokens struct {
	store  storage.Store
	source string
	tokens *sharedstate.Records[record]
	people *sharedstate.Records[Person]
	used   sync.Map // id → time.Time of the last use here
}

// New does no I/O. source identifies the provider that names people, "" if none does: the same name
// may belong to another user at another one.
func New(store storage.Store, source string) *Tokens {
	return &Tokens{store: store, source: source, tokens: sharedstate.NewRecords(store, parseToken), people: sharedstate.NewRecords(store, parsePerson)}
}

func parseToken(key string, content []byte) *record {
	var r record
	if json.Unmarshal(content, &r) != nil || keyOf(r.Owner, r.ID) != key {
		return nil
	}
	return &r
}

func parsePerson(key string, content []byte) *Person {
	var p Person
	if json.Unmarshal(content, &p) != nil || personKey(p.Owner) != key {
		return nil
	}
	return &p
}

// HasProvider reports whether a provider names people.
func (t *Tokens) HasProvider() bool { return t.source != "" }

// folder is the prefix of an owner's records.
func folder(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return layout.People + "/" + hex.EncodeToString(sum[:16])
}

func keyOf(owner, id string) string { return folder(owner) + "/token-" + id }

func personKey(owner string) string { return folder(owner) + "/person" }

// validID reports whether Create may have made the ID.
func validID(id string) bool { return len(id) == 16 && strings.Trim(id, "0123456789abcdef") == "" }

// find returns a token of the owner, as it is stored.
func (t *Tokens) find(ctx context.Context, owner, id string) (record, error) {
	var r record
	if !validID(id) {
		return r, ErrUnknown
	}
	found, err := t.tokens.Get(ctx, keyOf(owner, id))
	if errors.Is(err, storage.ErrNotExist) {
		return r, ErrUnknown
	}
	if err != nil {
		return r, err
	}
	if _, err := access.ParseRights(found.Allow); err != nil || found.Owner != owner || !time.Now().Before(found.Expires) {
		return r, ErrUnknown
	}
	return *found, nil
}

// IDOf returns the ID that a secret contains, "" if it isn't one.
func IDOf(secret string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(secret, Prefix), "_")
	if !validID(id) {
		return ""
	}
	return id
}

// Login returns the owner's token with that secret. ErrUnknown.
func (t *Tokens) Login(ctx context.Context, owner, secret string) (Token, error) {
	id := IDOf(secret)
	r, err := t.find(ctx, owner, id)
	if err != nil {
		return Token{}, err
	}
	if subtle.ConstantTimeCompare([]byte(r.Hash), []byte(hashOf(secret))) != 1 {
		return Token{}, ErrUnknown
	}
	t.used.Store(id, time.Now())
	return r.Token, nil
}

// Current returns the owner's token of that id. ErrUnknown, also for one that has expired.
func (t *Tokens) Current(ctx context.Context, owner, id string) (Token, error) {
	r, err := t.find(ctx, owner, id)
	return r.Token, err
}

// Create makes a token for the owner and returns its secret, which can't be read again. ErrInvalid.
func (t *Tokens) Create(ctx context.Context, owner string, token Token) (secret string, err error) {
	now := time.Now().UTC().Truncate(time.Second)
	switch {
	case len(token.Note) > maxNote:
		return "", fmt.Errorf("%w: a note has at most %d bytes", ErrInvalid, maxNote)
	case !token.Expires.After(now) || token.Expires.After(now.Add(MaxLifetime)):
		return "", fmt.Errorf("%w: it expires after a day to a year", ErrInvalid)
	}
	if _, err := access.ParseRights(token.Allow); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	all, err := t.List(ctx, owner)
	if err != nil {
		return "", err
	}
	if len(all) >= maxTokens {
		return "", fmt.Errorf("%w: you have %d already; revoke some", ErrInvalid, len(all))
	}
	var b [40]byte
	_, _ = rand.Read(b[:]) // never fails
	token.ID, token.Created = hex.EncodeToString(b[:8]), now
	secret = Prefix + token.ID + "_" + hex.EncodeToString(b[8:])
	content, err := json.Marshal(record{token, owner, hashOf(secret)})
	if err != nil {
		return "", err
	}
	return secret, t.tokens.Apply(ctx, storage.Change{Key: keyOf(owner, token.ID), Content: content, If: storage.IfAbsent()})
}

// List returns the owner's tokens, the newest first, also those that have expired.
func (t *Tokens) List(ctx context.Context, owner string) ([]Token, error) {
	owned, _, err := t.list(ctx, folder(owner), maxTokens)
	all := []Token{}
	for _, token := range owned {
		if token.Owner == owner {
			all = append(all, token.Token)
		}
	}
	slices.SortFunc(all, func(a, b Token) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID)) })
	return all, err
}

// Everybody returns at most limit tokens of all owners, by owner, and reports whether there are more.
func (t *Tokens) Everybody(ctx context.Context, limit int) (all []Owned, more bool, err error) {
	all, more, err = t.list(ctx, layout.People, limit)
	slices.SortStableFunc(all, func(a, b Owned) int { return strings.Compare(a.Owner, b.Owner) })
	return all, more, err
}

// list returns at most limit of the tokens below a prefix, and reports whether there are more.
func (t *Tokens) list(ctx context.Context, prefix string, limit int) (all []Owned, more bool, err error) {
	records, more, err := t.tokens.List(ctx, prefix, func(key string) bool { return strings.HasPrefix(path.Base(key), "token-") }, limit)
	for _, r := range records {
		all = append(all, Owned{r.Token, r.Owner})
	}
	return all, more, err
}

// LastUsed returns the time at which the token was last used at this process, the zero time if it never was.
func (t *Tokens) LastUsed(id string) time.Time {
	at, _ := t.used.Load(id)
	used, _ := at.(time.Time)
	return used
}

// Revoke removes a token of the owner: it ends here immediately, and at other replicas within sharedstate.Fresh. The error is ErrUnknown if there is none.
func (t *Tokens) Revoke(ctx context.Context, owner, id string) error {
	if !validID(id) {
		return ErrUnknown
	}
	key := keyOf(owner, id)
	if _, err := t.store.Stat(ctx, key); errors.Is(err, storage.ErrNotExist) {
		return ErrUnknown
	} else if err != nil {
		return err
	}
	return t.tokens.Apply(ctx, storage.Change{Key: key, Delete: true})
}

// SetGroups notes the groups that a person has by the login of now, for tokens; more reports whether
// there may be others. subject is the provider's own name of the person. The ID that it returns is this
// person's, even if somebody else of the name logs in at the same moment.
func (t *Tokens) SetGroups(ctx context.Context, owner, subject string, groups []string, more bool) (id string, err error) {
	p := Person{owner, t.personID(subject), t.source, groups, more}
	content, err := json.Marshal(p)
	for err == nil && len(content) > sharedstate.MaxRecord {
		p.Groups, p.More = p.Groups[:len(p.Groups)/2], true
		content, err = json.Marshal(p)
	}
	if err != nil {
		return p.ID, err
	}
	key := personKey(owner)
	if now, err := t.people.Get(ctx, key); err == nil && reflect.DeepEqual(*now, p) {
		return p.ID, nil
	}
	return p.ID, t.people.Apply(ctx, storage.Change{Key: key, Content: content})
}

// Person returns what is known of the person with that name. Its ID differs from those of others who had the name
// before or get it later. ErrUnknown if there was no login at the present provider.
func (t *Tokens) Person(ctx context.Context, owner string) (p Person, err error) {
	found, err := t.people.Get(ctx, personKey(owner))
	if errors.Is(err, storage.ErrNotExist) {
		return p, ErrUnknown
	}
	if err != nil {
		return p, err
	}
	if found.Owner != owner || t.source == "" || found.Source != t.source {
		return p, ErrUnknown
	}
	return *found, nil
}

// personID is the ID of a person whom the provider calls subject.
func (t *Tokens) personID(subject string) string {
	sum := sha256.Sum256([]byte(t.source + "\x00" + subject))
	return hex.EncodeToString(sum[:8])
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
