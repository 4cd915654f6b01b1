package api

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"slipway/registry/internal/address"
	"slipway/registry/internal/oci"
)

const (
	// smallBody is the size up to which a body isn't counted.
	smallBody = 128 << 10

	answerMemory = 64 << 20 // bytes of large answers at the same time
	answerShare  = 16 << 20 // of one client
	bodyMemory   = 32 << 20 // bytes of large manifests being pushed at the same time
	bodyShare    = 8 << 20  // of one client

	// memoryPatience is how long a request waits for memory that others use.
	memoryPatience = 5 * time.Second
)

// budget bounds the bytes of large bodies. A client has a share, so that one that is slow
// doesn't keep others waiting. Methods are safe for concurrent use.
type budget struct {
	all   *semaphore.Weighted
	share int64

	mu      sync.Mutex
	clients map[string]*clientShare
}

type clientShare struct {
	room  *semaphore.Weighted
	users int
}

func newBudget(all, share int64) *budget {
	return &budget{all: semaphore.NewWeighted(all), share: share, clients: map[string]*clientShare{}}
}

// acquire blocks until there is room for n bytes, or for a full share if n is more. It fails
// with UNAVAILABLE.
func (m *budget) acquire(ctx context.Context, client string, n int64) (release func(), err error) {
	n = min(n, m.share)
	ctx, cancel := context.WithTimeout(ctx, memoryPatience)
	defer cancel()
	own := m.enter(client)
	if err = own.room.Acquire(ctx, n); err == nil {
		if err = m.all.Acquire(ctx, n); err != nil {
			own.room.Release(n)
		}
	}
	if err != nil {
		m.leave(client, own)
		return nil, &oci.Error{Code: oci.CodeUnavailable, Message: "too many large requests at the same time; try again", RetryAfter: memoryPatience, Err: err}
	}
	return func() {
		m.all.Release(n)
		own.room.Release(n)
		m.leave(client, own)
	}, nil
}

func (m *budget) enter(client string) *clientShare {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.clients[client]
	if own == nil {
		own = &clientShare{room: semaphore.NewWeighted(m.share)}
		m.clients[client] = own
	}
	own.users++
	return own
}

func (m *budget) leave(client string, own *clientShare) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(m.clients, client)
	}
}

// client is whose share a request takes: its user's or, without one, its network's.
func (r *request) client() string {
	if r.user != "" {
		return "user " + r.user
	}
	return address.Network(r.RemoteAddr)
}

// room waits for memory for an answer of about size bytes. The caller holds nothing large
// meanwhile. UNAVAILABLE.
func (a *API) room(r *request, size int64) (release func(), err error) {
	if size <= smallBody {
		return func() {}, nil
	}
	return a.answers.acquire(r.Context(), r.client(), size)
}

// roomForList is room for a JSON list of strings.
func (a *API) roomForList(r *request, list []string) (release func(), err error) {
	size := 0
	for _, s := range list {
		size += len(s) + 3
	}
	return a.room(r, int64(size))
}
