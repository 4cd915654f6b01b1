package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/gorilla/mux"

	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/service"
)

const (
	maxOld       = 1000    // messages that a subscription begins with
	maxOldBytes  = 4 << 20 // …that it keeps in memory
	maxDelayed   = 100     // delayed messages that a subscription waits for
	delayedEvery = time.Second
)

// subscription is one request of an ntfy client for messages.
type subscription struct {
	a       *API
	q       ntfyQuery
	topics  string
	base    string
	readers []ntfyReader
	streams []*service.Stream // of the readers
	write   func(protocol.NtfyEvent) error

	delayed map[int64]delayedMessage // delayed messages, by id
	dirty   bool                     // their times may have changed
}

// delayedMessage is a delayed message that the subscriber gets once it is due.
type delayedMessage struct {
	reader int
	due    time.Time
}

// subscribeNtfy sends messages as ntfy does: those that the query asks for, and unless it polls those that follow.
func (a *API) subscribeNtfy(w http.ResponseWriter, r *http.Request) error {
	s := &subscription{a: a, topics: mux.Vars(r)["topics"], base: protocol.NtfyBase(r), delayed: map[int64]delayedMessage{}}
	form := mux.Vars(r)["form"]
	if form == "ws" && !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return refusal.Invalid("websocket", "invalid request: client not using the websocket protocol")
	}
	var err error
	if s.readers, err = a.ntfyReaders(r); err != nil {
		return err
	}
	if s.q, err = ntfyQueryOf(r); err != nil {
		return err
	}
	for _, reader := range s.readers {
		st, release, err := a.stream(r.Context(), reader.v, -1)
		if err != nil {
			return err
		}
		defer release()
		st.Only(reader.application)
		s.streams = append(s.streams, st)
	}
	_ = allowPages(w, r)
	if form == "ws" {
		return s.overWebSocket(w, r)
	}
	return s.overHTTP(w, r, form)
}

var ntfyTypes = map[string]string{"json": "application/x-ndjson", "sse": "text/event-stream", "raw": "text/plain"}

func (s *subscription) overHTTP(w http.ResponseWriter, r *http.Request, form string) error {
	h := w.Header()
	h.Set("Content-Type", ntfyTypes[form]+"; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep the events
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		return nil
	}
	out := events{w: w, flush: http.NewResponseController(w), within: s.a.times.write}
	s.write = func(e protocol.NtfyEvent) error {
		text, err := encode(e)
		switch {
		case err != nil:
			return err
		case form == "json":
			return out.send("%s\n", text)
		case form == "raw":
			return out.send("%s\n", strings.ReplaceAll(e.Message, "\n", " "))
		case e.Event != "message":
			return out.send("event: %s\ndata: %s\n\n", e.Event, text)
		}
		return out.send("data: %s\n\n", text)
	}
	return s.run(r.Context(), func() error {
		return s.write(protocol.NewNtfyEvent("keepalive", s.topics, time.Now()))
	})
}

func (s *subscription) overWebSocket(w http.ResponseWriter, r *http.Request) error {
	conn, err := websocket.Accept(w, r, ofAnySite(r, true)) // no cookie counts
	if err != nil {
		return nil //nolint:nilerr // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go drain(ctx, cancel, conn)
	s.write = func(e protocol.NtfyEvent) error {
		text, err := encode(e)
		if err != nil {
			return err
		}
		within, done := context.WithTimeout(ctx, s.a.times.write)
		defer done()
		return conn.Write(within, websocket.MessageText, text)
	}
	err = s.run(ctx, func() error {
		go s.a.keepAlive(ctx, cancel, conn)
		return nil
	})
	if err != nil {
		return err
	}
	return ignored(conn.Close(websocket.StatusNormalClosure, ""))
}

// run sends what the subscription asks for until the client is gone.
func (s *subscription) run(ctx context.Context, keepAlive func() error) error {
	var applications []int64
	for i := range s.readers {
		applications = append(applications, s.readers[i].reads())
	}
	changes, release := s.a.changes.subscribe(applications)
	defer release()
	if !s.q.poll {
		if s.write(protocol.NewNtfyEvent("open", s.topics, time.Now())) != nil {
			return nil
		}
	}
	if err := s.sendOld(ctx); err != nil || s.q.poll {
		return s.quietly(err)
	}
	if err := s.findDelayed(ctx); err != nil {
		return s.quietly(err)
	}
	keep := time.NewTicker(s.a.times.ping)
	defer keep.Stop()
	again := time.NewTicker(delayedEvery)
	defer again.Stop()
	var change *ntfyChange // not sent yet
	for {
		sent, err := s.sendNew(ctx)
		if err != nil {
			return s.quietly(err)
		}
		if sent {
			continue
		}
		next := changes
		switch {
		case change == nil:
		case s.streams[0].Position() < change.after:
			next = nil
		case s.sendChange(change) != nil:
			return nil
		default:
			change = nil
		}
		var due <-chan time.Time
		if len(s.delayed) > 0 {
			due = again.C
		}
		select {
		case <-s.streams[0].Moved(): // all have the same
			s.dirty = true
		case c := <-next:
			change = &c
		case <-due:
			err = s.sendDelayed(ctx)
		case <-keep.C:
			err = keepAlive()
		case <-s.a.o.Stopping:
			return nil
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return s.quietly(err)
		}
	}
}

// quietly ends a subscription that has begun. The client comes back, unless a poll lacks its messages.
func (s *subscription) quietly(err error) error {
	if s.q.poll && refusal.KindOf(err) == refusal.KindUnavailable {
		return err
	}
	return nil
}

// sendNew sends what has come since, and reports whether there was anything.
func (s *subscription) sendNew(ctx context.Context) (sent bool, err error) {
	for i, st := range s.streams {
		if err := s.readers[i].check(ctx); err != nil {
			return false, err
		}
		some, err := s.a.pass(ctx, st, s.readers[i].v, func(all []post.View) error {
			for _, m := range all {
				if s.delay(i, m) {
					continue
				}
				if err := s.send(i, m); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return false, err
		}
		sent = sent || some
	}
	return sent, nil
}

func (s *subscription) sendChange(c *ntfyChange) error {
	for i := range s.readers {
		if s.readers[i].reads() != c.application {
			continue
		}
		e := protocol.NewNtfyEvent(c.kind, s.readers[i].topic, time.Now())
		if e.Sequence = c.sequence; s.q.passes(e) {
			return s.write(e)
		}
	}
	return nil
}

// delay keeps a delayed message for later. It reports whether m is one.
func (s *subscription) delay(reader int, m post.View) bool {
	due := post.Time(m.QueuedAt)
	if !due.After(time.Now()) {
		return false
	}
	if len(s.delayed) < maxDelayed && m.Target == 0 {
		s.delayed[m.ID] = delayedMessage{reader, due}
	}
	return true
}

// findDelayed keeps the delayed messages that wait already.
func (s *subscription) findDelayed(ctx context.Context) error {
	for i, reader := range s.readers {
		f := service.Filter{States: post.PendingStates, ApplicationID: reader.application, Limit: service.MaxPage}
		for f.Limit > 0 {
			page, err := s.a.service.Messages(ctx, reader.v, f)
			if err != nil {
				return err
			}
			for _, m := range page.Messages {
				s.delay(i, m)
			}
			if f.Before = page.Next; f.Before == 0 {
				break
			}
			f.Limit -= len(page.Messages)
		}
	}
	return nil
}

// sendDelayed sends delayed messages that are due. Those that were withdrawn are forgotten, and those that were moved wait on.
func (s *subscription) sendDelayed(ctx context.Context) error {
	now, dirty := time.Now(), s.dirty
	s.dirty = false
	for id, h := range s.delayed {
		if !dirty && h.due.After(now) {
			continue
		}
		m, err := s.a.service.Message(ctx, s.readers[h.reader].v, id)
		if refusal.KindOf(err) == refusal.KindUnavailable {
			continue
		}
		if delete(s.delayed, id); err != nil || !m.State.Readable() || s.delay(h.reader, m) {
			continue
		}
		if err := s.send(h.reader, m); err != nil {
			return err
		}
	}
	return nil
}

// sendOld sends the messages that the query asks for, oldest first.
func (s *subscription) sendOld(ctx context.Context) error {
	place, err := s.a.takePlace(ctx, s.readers[0].v)
	if err != nil {
		return err
	}
	defer place.Release()
	all, err := s.old(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		f := &all[i]
		m := f.m
		if m == nil {
			reader := s.readers[f.reader]
			page, err := s.a.service.ReadMessages(ctx, reader.v, reader.application, f.id+1, 1)
			if err != nil {
				return err
			}
			if len(page.Messages) == 0 || page.Messages[0].ID != f.id { // removed meanwhile
				continue
			}
			m = &page.Messages[0]
		}
		if err := s.send(f.reader, *m); err != nil {
			return err
		}
		f.m = nil
	}
	return nil
}

// oldMessage is a message that a subscription begins with.
type oldMessage struct {
	reader int
	id     int64
	m      *post.View // nil if it is read when it is sent
}

// old returns the messages that the query asks for, oldest first. Messages that take more than maxOldBytes together aren't kept in memory.
func (s *subscription) old(ctx context.Context) (all []oldMessage, err error) {
	left := maxOldBytes
	for i := range s.readers {
		err := s.oldOf(ctx, i, func(m *post.View) {
			f := oldMessage{reader: i, id: m.ID}
			if left -= m.Size(); left >= 0 {
				f.m = m
			}
			all = append(all, f)
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b oldMessage) int { return cmp.Compare(a.id, b.id) })
	return all, nil
}

// oldOf passes on the messages of a reader that the query asks for and that the stream leaves out because it begins after them, newest first.
func (s *subscription) oldOf(ctx context.Context, i int, take func(*post.View)) error {
	if s.q.since == "none" {
		return nil
	}
	reader, before := s.readers[i], s.streams[i].Position()+1
	now, from := time.Now().UnixMilli(), post.Millis(s.q.from)
	for n := 0; ; {
		page, err := s.a.service.ReadMessages(ctx, reader.v, reader.application, before, service.MaxReaderPage)
		if err != nil {
			return err
		}
		for j := range page.Messages {
			m := &page.Messages[j]
			switch {
			case m.ID <= s.q.after:
				return nil
			case m.QueuedAt > now && !s.q.scheduled, m.QueuedAt < from:
				continue
			}
			own := *m // not the whole page
			take(&own)
			if n++; s.q.since == "latest" || n == maxOld {
				return nil
			}
		}
		if !page.More || page.Messages[len(page.Messages)-1].AcceptedAt < from-longestDelay.Milliseconds() {
			return nil
		}
		before = page.Messages[len(page.Messages)-1].ID
	}
}

// longestDelay is how much earlier than its time a message may have come in.
const longestDelay = 4 * 24 * time.Hour

// send sends a message, unless the query filters it out.
func (s *subscription) send(reader int, m post.View) error {
	e := protocol.ShowNtfy(m, s.readers[reader].topic, s.base)
	if !s.q.passes(e) {
		return nil
	}
	return s.write(e)
}

const defaultNtfyPriority = 3

func (q *ntfyQuery) passes(e protocol.NtfyEvent) bool {
	priority := e.Priority
	if priority == 0 {
		priority = defaultNtfyPriority
	}
	switch {
	case q.id != "" && q.id != e.ID, q.title != "" && q.title != e.Title, q.message != "" && q.message != e.Message:
		return false
	case len(q.priorities) > 0 && !slices.Contains(q.priorities, priority):
		return false
	}
	return !slices.ContainsFunc(q.tags, func(tag string) bool { return !slices.Contains(e.Tags, tag) })
}
