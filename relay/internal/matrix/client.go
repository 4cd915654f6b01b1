// Package matrix speaks to the homeserver for the relay: it keeps the bot's
// session, follows its rooms by sync and sends events. It implements what the
// rules ask for ([Sender], [Rooms]) and classifies every failure once.
//
// It retries nothing by itself: when to try a message again is the rules' business.
// Nothing that could hold a token, a password or a text goes into the log.
package matrix

import (
	"context"
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

// Options are what a [Client] is made of.
type Options struct {
	Homeserver    string   // base URL
	Username      string   // full Matrix ID or its local part; may be empty with AccessToken
	Password      string   // either this
	AccessToken   string   // or this
	InviteServers []string // server names whose people may invite the bot, besides known users
	State         State
	Log           *zap.Logger
	Timeout       time.Duration // of one request; 0 means 60 s
	// Delivers reports whether this relay is the one that delivers; nil means always. Only that one logs in: the others use the
	// session that it has stored.
	Delivers func() bool
	// PickleKey encrypts the bot's keys in the database; empty means that the bot cannot encrypt.
	PickleKey   []byte
	RecoveryKey string // of the bot's identity, if another client has made it
	// EncryptNewRooms encrypts the rooms that the bot makes, where it can encrypt.
	EncryptNewRooms bool
}

// State is what the client keeps in the relay's database.
type State interface {
	Setting(ctx context.Context, key string) (string, error)
	SetSetting(ctx context.Context, key, value string) error
	PendingJoins(ctx context.Context) ([]store.PendingJoin, error)
	SavePendingJoin(ctx context.Context, p store.PendingJoin) error
	DeletePendingJoin(ctx context.Context, roomID string) error
	// MatrixUsers lists the Matrix ids of the relay's users, who may invite the bot.
	MatrixUsers(ctx context.Context) ([]string, error)
	// Keys is the table of the bot's keys under the lease that this relay holds now.
	Keys() *store.Keys
}

// Client is the bot's connection to its homeserver. Its methods may be called by
// any number of goroutines.
type Client struct {
	options   Options
	log       *zap.Logger
	base      *url.URL
	transport *http.Transport
	http      *http.Client // over transport
	state     State
	events    chan Event

	session    atomic.Pointer[session]
	connecting sync.Mutex // held by the one goroutine that logs in
	login      loginState
	expired    chan struct{} // wakes Run when a request found the session over

	rooms   rooms
	pending pendingJoins
	crypt   crypt

	noAliases atomic.Bool // the homeserver does not let the bot make room aliases
}

// New makes a client. It does not touch the network.
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
	return &Client{
		options: o, log: o.Log, state: o.State, events: make(chan Event), base: base, transport: transport, http: newHTTPClient(transport),
		expired: make(chan struct{}, 1), rooms: rooms{known: map[string]*room{}}, pending: newPendingJoins(),
	}, nil
}

func (c *Client) delivers() bool { return c.options.Delivers == nil || c.options.Delivers() }

// Close ends idle connections. It does not log out: the session is for the next start.
func (c *Client) Close() {
	c.crypt.drop()
	c.transport.CloseIdleConnections()
}
