// Package matrix is the relay's client of a Matrix homeserver: it keeps the bot's session, syncs its rooms, and sends events.
// It classifies every failure once, as a [*SendError], and retries nothing: delivery decides that. It logs no tokens,
// passwords, or messages.
package matrix

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// Options of [New].
type Options struct {
	Homeserver    string   // base URL
	Username      string   // full Matrix ID or its local part; may be empty with AccessToken
	Password      string   // either this
	AccessToken   string   // or this
	InviteServers []string // servers with users who may invite the bot, besides the relay's users
	Store         *store.Store
	Log           *zap.Logger
	Timeout       time.Duration // of one request; 0 means 60 s
	// Delivers reports whether this relay delivers; nil means always. Only the delivering relay logs in; the others use the session
	// that it stored.
	Delivers func() bool
	// PickleKey encrypts the bot's keys in the database. Without it the bot cannot encrypt.
	PickleKey   []byte
	RecoveryKey string // of the bot's identity, if another client created it
	// EncryptNewRooms encrypts the rooms that the bot creates, if it can encrypt.
	EncryptNewRooms bool
}

// Client is the bot's connection to its homeserver. It is safe for concurrent use.
type Client struct {
	options   Options
	log       *zap.Logger
	base      *url.URL
	transport *http.Transport
	http      *http.Client // over transport
	store     *store.Store
	events    chan Event

	session    atomic.Pointer[session]
	connecting sync.Mutex // held while logging in
	login      loginState
	expired    chan struct{} // wakes Run after a request found the session expired

	rooms rooms
	joins *joinList
	crypt crypt
	media mediaConfig

	joinedUnverified sync.Map // IDs of rooms that the bot may have joined before it could read their predecessor

	noAliases atomic.Bool // the homeserver forbids the bot to create room aliases

	creationWithin time.Duration // how long a room that the bot can't see may still be the one that the homeserver is making for it
}

// New returns a client. It does not use the network.
func New(o Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(o.Homeserver, "/"))
	if err != nil {
		return nil, fmt.Errorf("matrix: homeserver: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("matrix: homeserver %q is not an http or https URL", o.Homeserver)
	}
	if o.AccessToken == "" && (o.Username == "" || o.Password == "") {
		return nil, errors.New("matrix: neither username and password nor an access token")
	}
	base.RawPath = base.EscapedPath() // BuildURL drops a path before the API's own without it, and then the escapes of ids
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	transport := newTransport()
	c := &Client{
		options: o, log: o.Log, store: o.Store, events: make(chan Event), base: base, transport: transport, http: newHTTPClient(transport),
		expired: make(chan struct{}, 1), rooms: rooms{known: map[string]*room{}}, creationWithin: 30 * time.Second,
	}
	c.joins = newJoins(joinOptions{
		Store: o.Store, Log: o.Log, Servers: o.InviteServers, Join: c.follow, Ready: func() bool { return c.session.Load() != nil },
	})
	return c, nil
}

func (c *Client) delivers() bool { return c.options.Delivers == nil || c.options.Delivers() }

// Close closes idle connections. It doesn't log out: the next start continues the session.
func (c *Client) Close() {
	c.crypt.drop()
	c.transport.CloseIdleConnections()
}
