package account

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
)

const (
	// knownFor is for how long a token's application is remembered. What another relay changes counts after that, what this one changes
	// counts at once.
	knownFor  = time.Second
	maxTokens = 10_000 // that are remembered
)

// App is an application as it was read from the database.
type App struct {
	store.Application
	*traffic
	read  time.Time
	edits int64 // see [Accounts.Edits]; before it was read
}

// traffic limits an application's messages at this relay, and how often a payload is kept.
type traffic struct {
	bucket request.Bucket // of the messages
	kept   atomic.Int64   // when the last payload was kept, in Unix milliseconds
}

// known remembers applications by their tokens, and the traffic of each. It is safe for concurrent use.
type known struct {
	mu      sync.Mutex
	tokens  map[[sha256.Size]byte]*App // by hash
	traffic map[int64]*traffic         // of each application that was read, by ID
}

func (k *known) byToken(hash [sha256.Size]byte) *App {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tokens[hash]
}

func (k *known) remember(hash [sha256.Size]byte, a *App) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.tokens) >= maxTokens {
		clear(k.tokens)
	}
	k.tokens[hash] = a
}

func (k *known) trafficOf(application int64) *traffic {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.traffic[application]
	if t == nil {
		t = &traffic{}
		k.traffic[application] = t
	}
	return t
}

// Edits returns a number that rises when this relay has changed users, clients or applications.
func (s *Accounts) Edits() int64 { return s.store.Edits() }

// isCurrent reports whether a may still stand for what is in the database.
func (s *Accounts) isCurrent(a *App) bool {
	return a.edits == s.Edits() && time.Since(a.read) < knownFor
}

// readApp returns the application that read finds.
func (s *Accounts) readApp(read func() (store.Application, error)) (*App, error) {
	a := &App{read: time.Now(), edits: s.Edits()}
	var err error
	if a.Application, err = read(); err != nil {
		return nil, err
	}
	a.traffic = s.known.trafficOf(a.ID)
	return a, nil
}

// App returns an application by its ID.
func (s *Accounts) App(ctx context.Context, id int64) (*App, error) {
	a, err := s.readApp(func() (store.Application, error) { return s.store.Application(ctx, id) })
	return a, unread(err, "application")
}

// unread returns the refusal for a failed read of a row, nil without an error.
func unread(err error, noun string) error {
	switch {
	case err == nil:
		return nil
	case store.IsMissing(err):
		return refusal.NotFound(noun)
	}
	return refusal.Unreadable(err)
}

// AppFor returns an application that v may see.
func (s *Accounts) AppFor(ctx context.Context, v Principal, id int64) (*App, error) {
	a, err := s.App(ctx, id)
	if err == nil && !v.Sees(a.ID, a.OwnerID) {
		return nil, refusal.NotFound("application")
	}
	return a, err
}

// Current returns an application as it is now or was within the last second. One that was deleted since a was read is refused as its token is.
func (s *Accounts) Current(ctx context.Context, a *App) (*App, error) {
	if s.isCurrent(a) {
		return a, nil
	}
	now, err := s.App(ctx, a.ID)
	if refusal.KindOf(err) == refusal.KindNotFound {
		return nil, errToken
	}
	return now, err
}

// takes reports whether a token with this hash is the application's now.
func (a *App) takes(hash []byte) bool {
	return bytes.Equal(a.TokenHash, hash) || bytes.Equal(a.OldTokenHash, hash) && time.Now().UnixMilli() < a.OldTokenUntil
}

// HideTokens returns a text without the token of a request, which may be a client's, and without the application's own tokens: a reader
// of a message may not be allowed to send one.
func (a *App) HideTokens(text, token string) string {
	text = post.HideToken(text, token)
	sum := sha256.Sum256([]byte(token))
	if string(sum[:]) != string(a.TokenHash) || time.Now().UnixMilli() < a.OldTokenUntil {
		text = post.HideHashed(text, a.TokenHash, a.OldTokenHash)
	}
	return text
}

// Admit takes n messages from an application's rate limit, or returns how long to wait.
func (s *Accounts) Admit(ctx context.Context, app *App, n int, now time.Time, rate, burst int) time.Duration {
	if s.store.Shared() && rate > 0 {
		wait, err := s.store.Count(ctx, app.bucketKey(), n, rate, cmp.Or(burst, rate))
		if err == nil {
			return wait
		}
	}
	for taken := range n {
		if wait := app.bucket.Take(now, rate, burst); wait > 0 {
			for range taken {
				app.bucket.GiveBack()
			}
			return wait
		}
	}
	return 0
}

// GiveBack returns n messages to an application's rate limit.
func (s *Accounts) GiveBack(ctx context.Context, app *App, n, rate int) {
	if s.store.Shared() && rate > 0 {
		_ = s.store.GiveBack(ctx, app.bucketKey(), n) // on an error the application waits a little longer
		return
	}
	for range n {
		app.bucket.GiveBack()
	}
}

func (a *App) bucketKey() string { return "app " + strconv.FormatInt(a.ID, 10) }

const (
	maxToken     = 256
	lenientGrace = 24 * time.Hour // of a token's predecessor with CheckToken off

	tokenWithin = 5 * time.Second // how long a token waits for the database
)

// ByToken returns the application of a token. A token that another relay has revoked within the last second may still be good.
func (s *Accounts) ByToken(ctx context.Context, token string) (*App, error) {
	if !s.o.CheckToken {
		token = strings.TrimSpace(token)
	}
	if token == "" {
		return nil, &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "A token is required."}
	}
	hash := sha256.Sum256([]byte(token))
	a := s.known.byToken(hash)
	if a == nil || !s.isCurrent(a) {
		var err error
		a, err = lookUp(ctx, token, func(ctx context.Context) (*App, error) {
			return s.readApp(func() (store.Application, error) { return s.store.ApplicationOf(ctx, hash[:]) })
		})
		if err != nil {
			return nil, err
		}
		s.known.remember(hash, a)
	}
	if !a.takes(hash[:]) {
		return nil, errToken
	}
	return a, nil
}

var errToken = &refusal.Error{Kind: refusal.KindUnauthorized, Field: "token", Message: "No application or client has this token; was it replaced?"}

// lookUp finds the bearer of a token in the database. It looks for the token's hash, so its time tells nothing about existing tokens.
func lookUp[T any](ctx context.Context, token string, find func(context.Context) (T, error)) (found T, err error) {
	if len(token) > maxToken {
		return found, errToken
	}
	ctx, cancel := context.WithTimeout(ctx, tokenWithin)
	defer cancel()
	switch found, err = find(ctx); {
	case store.IsMissing(err):
		err = errToken
	case err != nil:
		err = &refusal.Error{
			Kind: refusal.KindUnavailable, Message: "The token cannot be checked: the database does not answer.", RetryAfter: refusal.RetryAfter, Err: err,
		}
	}
	return found, err
}

// TokenViewer returns the principal of an application's token.
func (s *Accounts) TokenViewer(ctx context.Context, token string) (Principal, error) {
	app, err := s.ByToken(ctx, token)
	if err != nil {
		return Principal{}, err
	}
	return Principal{Name: app.Name, ApplicationID: app.ID, OwnerID: app.OwnerID}, nil
}
