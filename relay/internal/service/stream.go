package service

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	followEvery = 20 * time.Millisecond // streams look for messages no more often than that
	followAgain = time.Second           // after a failure

	streamPage  = 100       // messages that a stream holds in memory
	streamBytes = 256 << 10 // …and their text, beyond which it holds no second message
)

// hub tells streams how far the outbox is complete.
type hub struct {
	mu      sync.Mutex
	streams int
	horizon int64
	moved   chan struct{} // closed when there may be news, and replaced
	joined  chan struct{} // a stream has begun
}

// state returns the horizon and a channel that is closed when there may be news after it.
func (h *hub) state() (horizon int64, moved <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.horizon, h.moved
}

func (h *hub) move(horizon int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.horizon = max(h.horizon, horizon)
	close(h.moved)
	h.moved = make(chan struct{})
}

func (h *hub) join(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams += n
	if n > 0 {
		select {
		case h.joined <- struct{}{}:
		default:
		}
	}
}

func (h *hub) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams == 0
}

// Follow passes on to the streams what is committed, until ctx is done.
func (s *Inbox) Follow(ctx context.Context, log *zap.Logger) {
	for ctx.Err() == nil {
		news, end := s.store.Await(store.Activity)
		pause, err := followEvery, error(nil)
		if s.hub.idle() {
			news = s.hub.joined
		} else if err = s.pass(ctx); err != nil && ctx.Err() == nil {
			log.Debug("cannot look for new messages", zap.Error(err))
			pause = followAgain
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if err == nil {
			select {
			case <-ctx.Done():
			case <-news:
			}
		}
		end()
	}
}

// pass tells the streams how far the outbox is complete now.
func (s *Inbox) pass(ctx context.Context) error {
	horizon, err := s.store.Horizon(ctx)
	if err == nil {
		s.hub.move(horizon)
	}
	return err
}

// Stream gives one reader the messages after a position, oldest first. It is for one goroutine.
type Stream struct {
	inbox   *Inbox
	reading store.Reading
	moved   <-chan struct{}
}

// NewStream returns a stream of what v may read: after a message, or from now on if after is negative. The caller must close it.
func (s *Inbox) NewStream(ctx context.Context, v account.Principal, after int64) (*Stream, error) {
	r, err := reading(v)
	if err != nil {
		return nil, err
	}
	r.Oldest, r.Limit, r.Bytes = true, streamPage, streamBytes
	s.hub.join(1)
	horizon, err := s.store.Horizon(ctx)
	if err != nil {
		s.hub.join(-1)
		return nil, refusal.Unreadable(err)
	}
	r.After = horizon
	if after >= 0 {
		r.After = min(after, horizon)
		s.hub.move(horizon)
	}
	_, moved := s.hub.state()
	return &Stream{inbox: s, reading: r, moved: moved}, nil
}

// Horizon returns the ID up to which the outbox is complete.
func (s *Inbox) Horizon(ctx context.Context) (int64, error) {
	horizon, err := s.store.Horizon(ctx)
	if err != nil {
		return 0, refusal.Unreadable(err)
	}
	return horizon, nil
}

// Only limits the stream to an application; 0 leaves it as it is.
func (st *Stream) Only(application int64) {
	if application != 0 {
		st.reading.Application = application
	}
}

// Close ends the stream.
func (st *Stream) Close() { st.inbox.hub.join(-1) }

// Behind reports whether Next may have messages. Moved is closed once that may have changed.
func (st *Stream) Behind() bool {
	horizon, moved := st.inbox.hub.state()
	st.moved = moved
	return horizon > st.reading.After
}

// Next returns the messages that follow, none if there is nothing new. The next call returns those after them.
func (st *Stream) Next(ctx context.Context) ([]post.View, error) {
	horizon, moved := st.inbox.hub.state()
	st.moved = moved
	if horizon <= st.reading.After {
		return nil, nil
	}
	st.reading.Through = horizon
	all, more, err := st.inbox.store.Read(ctx, st.reading)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	if more {
		st.reading.After = all[len(all)-1].ID
	} else {
		st.reading.After = horizon
	}
	return all, nil
}

// Moved is closed when Next may have something that it had not when it or Behind was last called, or when the state of a message may have
// changed.
func (st *Stream) Moved() <-chan struct{} { return st.moved }

// Position is the id after which Next continues.
func (st *Stream) Position() int64 { return st.reading.After }
