package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/service"
	"slipway/shared/shares"
)

const (
	maxStreams   = 1000
	shareStreams = 50 // of one user and the user's applications

	maxHolding   = 32 // streams that hold messages for their readers at a time
	shareHolding = 8  // of one user

	changeEvery = 500 * time.Millisecond
	maxInput    = 64 // bytes of what a reader may send, which is ignored
)

// streamTimes is how long streams wait for their readers.
type streamTimes struct {
	check time.Duration // between two checks of a credential, unless this relay changes users or applications
	ping  time.Duration // between two pings
	pong  time.Duration // for the answer to one
	write time.Duration // for one message: a reader that is slower is cut off, and comes back for the rest
}

// gotifyTimes has Gotify's time between pings, which is shorter than proxies wait.
var gotifyTimes = streamTimes{check: time.Second, ping: 45 * time.Second, pong: 15 * time.Second, write: 10 * time.Second}

// openStream begins a stream after the message that the request names, or now.
func (a *API) openStream(r *http.Request, v account.Principal) (st *service.Stream, release func(), err error) {
	after := int64(-1)
	for _, name := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")} {
		if name == "" {
			continue
		}
		if after, err = strconv.ParseInt(name, 10, 64); err != nil || after < 0 {
			return nil, nil, refusal.Invalid("after", "The position must be the id of a message.")
		}
	}
	return a.stream(r.Context(), v, after)
}

// stream begins a stream after a message, or now if that is negative.
func (a *API) stream(ctx context.Context, v account.Principal, after int64) (st *service.Stream, release func(), err error) {
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	place, err := a.streams.Take(within, a.ownerOf(v), 1)
	if err != nil {
		return nil, nil, &refusal.Error{Kind: refusal.KindRateLimited, Message: "Too many streams are open.", RetryAfter: time.Minute}
	}
	st, err = a.service.NewStream(ctx, v, after)
	if err != nil {
		place.Release()
		return nil, nil, err
	}
	return st, func() { st.Close(); place.Release() }, nil
}

// ownerOf returns the user whose streams one counts among: applications are made by users.
func (a *API) ownerOf(v account.Principal) string {
	return strconv.FormatInt(cmp.Or(v.OwnerID, v.UserID), 10)
}

// pass calls send with the messages that follow in a stream, and reports whether there were any. Few streams do so at a time: readers that
// read nothing would fill the memory with messages.
func (a *API) pass(ctx context.Context, st *service.Stream, v account.Principal, send func([]post.View) error) (some bool, err error) {
	if !st.Behind() {
		return false, nil
	}
	place, err := a.takePlace(ctx, v)
	if err != nil {
		return false, err
	}
	defer place.Release()
	all, err := st.Next(ctx)
	if err != nil {
		return false, err
	}
	return len(all) > 0, send(all)
}

// takePlace takes a place among the streams that hold messages.
func (a *API) takePlace(ctx context.Context, v account.Principal) (*shares.Held, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-a.o.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return a.streaming.Take(ctx, a.ownerOf(v), 1)
}

// authenticator returns a function that authenticates the request again, because a stream outlives tokens and sessions.
func (a *API) authenticator(r *http.Request, v account.Principal) func(context.Context) error {
	token, _, _ := a.clientToken(r)
	switch {
	case v.ClientID != 0:
		return a.sparingly(func(ctx context.Context) error { return second(a.service.ClientViewer(ctx, token)) })
	case v.ApplicationID != 0:
		return a.sparingly(func(ctx context.Context) error { return second(a.service.TokenViewer(ctx, token)) })
	}
	return a.sparingly(func(context.Context) error {
		is, err := a.user(r)
		if is.Admin = is.Admin && v.Admin; err == nil && is != v { // no administrator any more
			err = refusal.Forbidden("Your rights have changed: connect again.")
		}
		return err
	})
}

// sparingly returns a check of a credential that reads the database no more often than needed.
func (a *API) sparingly(check func(context.Context) error) func(context.Context) error {
	var checked time.Time
	var edits int64
	return func(ctx context.Context) error {
		now := a.service.Edits()
		if now == edits && time.Since(checked) < a.times.check {
			return nil
		}
		edits, checked = now, time.Now()
		if err := check(ctx); refusal.KindOf(err) != refusal.KindUnavailable { // which says nothing about the credential
			return err
		}
		return nil
	}
}

// streamMessages is Gotify's stream: a WebSocket that gets each message as a text.
func (a *API) streamMessages(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	st, release, err := a.openStream(r, v)
	if err != nil {
		return err
	}
	defer release()
	authenticate := a.authenticator(r, v)
	_, cookie, _ := a.clientToken(r)
	conn, err := websocket.Accept(w, r, ofAnySite(r, v.ClientID != 0 && !cookie))
	if err != nil {
		return nil //nolint:nilerr // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go drain(ctx, cancel, conn)
	ping := time.NewTicker(a.times.ping)
	defer ping.Stop()
	for {
		if authenticate(ctx) != nil {
			return ignored(conn.Close(websocket.StatusPolicyViolation, "the token is not valid any more"))
		}
		var gone error
		some, err := a.pass(ctx, st, v, func(all []post.View) error {
			gone = a.writeMessages(ctx, conn, all)
			return gone
		})
		switch {
		case gone != nil:
			return nil // the reader is gone or too slow
		case err != nil:
			return ignored(conn.Close(websocket.StatusTryAgainLater, "the database does not answer, or the relay stops"))
		case some:
			continue
		}
		select {
		case <-st.Moved():
		case <-ping.C:
			go a.keepAlive(ctx, cancel, conn)
		case <-a.o.Stopping:
			return ignored(conn.Close(websocket.StatusGoingAway, "the relay stops"))
		case <-ctx.Done():
			return nil
		}
	}
}

// ofAnySite returns options that accept a WebSocket from pages of other sites if it has a token that only the page can have added: browsers add
// cookies and passwords that they know, and people may have entered a token as a password.
func ofAnySite(r *http.Request, token bool) *websocket.AcceptOptions {
	_, _, password := r.BasicAuth()
	return &websocket.AcceptOptions{InsecureSkipVerify: token && !password}
}

// ignored is for closing a connection whose reader may be gone.
func ignored(error) error { return nil }

// drain reads what the reader sends, among it the answers to pings, and cancels when the connection ends.
func drain(ctx context.Context, cancel context.CancelFunc, conn *websocket.Conn) {
	defer cancel()
	conn.SetReadLimit(maxInput)
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return
		}
	}
}

// keepAlive cancels if the reader does not answer a ping.
func (a *API) keepAlive(ctx context.Context, cancel context.CancelFunc, conn *websocket.Conn) {
	within, done := context.WithTimeout(ctx, a.times.pong)
	defer done()
	if conn.Ping(within) != nil {
		cancel()
	}
}

func (a *API) writeMessages(ctx context.Context, conn *websocket.Conn, all []post.View) error {
	for _, m := range all {
		text, err := encode(showGotify(m))
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, a.times.write)
		err = conn.Write(within, websocket.MessageText, text)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// encode returns the JSON of a value on one line, with <, > and & as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// streamEvents sends each message as a server-sent event, and an event "change" when the state of a message may have changed.
func (a *API) streamEvents(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	st, release, err := a.openStream(r, v)
	if err != nil {
		return err
	}
	defer release()
	authenticate := a.authenticator(r, v)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep the events
	h.Set("X-Content-Type-Options", "nosniff")
	events := events{w: w, flush: http.NewResponseController(w), within: a.times.write}
	if r.Method == http.MethodHead {
		return nil
	}
	var due <-chan time.Time // of an event "change"
	ping := time.NewTicker(a.times.ping)
	defer ping.Stop()
	err = events.send("retry: 2000\nid: %d\n\n", st.Position()) // a reader that loses the connection continues there
	for err == nil {
		if authenticate(r.Context()) != nil {
			return nil
		}
		some, fault := a.pass(r.Context(), st, v, events.sendMessages)
		if fault != nil {
			return nil //nolint:nilerr // the reader is gone or too slow, or comes back
		}
		if some {
			continue
		}
		select {
		case <-st.Moved():
			if due == nil {
				due = time.After(changeEvery)
			}
		case <-due:
			due = nil
			err = events.send("event: change\ndata: {}\n\n")
		case <-ping.C:
			err = events.send("id: %d\n\n", st.Position())
		case <-a.o.Stopping:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
	return nil
}

// events writes server-sent events.
type events struct {
	w      http.ResponseWriter
	flush  *http.ResponseController
	within time.Duration // for one of them
}

func (e events) sendMessages(all []post.View) error {
	for _, m := range all {
		position := m.ID
		if m.Target != 0 { // an edit or a reply is news of that message
			m.ID = m.Target
		}
		text, err := encode(showMessage(m))
		if err != nil {
			return err
		}
		if err := e.send("id: %d\ndata: %s\n\n", position, text); err != nil {
			return err
		}
	}
	return nil
}

func (e events) send(format string, args ...any) error {
	_ = e.flush.SetWriteDeadline(time.Now().Add(e.within)) // a writer of a test may have none
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	err := e.flush.Flush()
	_ = e.flush.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream whose deadline passes while nothing is written
	return err
}
