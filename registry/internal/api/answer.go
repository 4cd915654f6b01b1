package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Bounds of large answers, which are made in memory.
const (
	smallAnswer  = 128 << 10 // an answer up to this size is not counted: the kernel takes it at once
	answerMemory = 16 << 20  // bytes of large answers that are in memory at the same time
	answerPiece  = 32 << 10  // what is handed to the connection at once

	// answerPatience is after what time the answer of a client that takes nothing
	// leaves the memory, if another one waits for room.
	answerPatience = 50 * time.Millisecond
)

// render makes the body of an answer again: the same bytes, if nothing has changed.
type render func(ctx context.Context) ([]byte, error)

// errChanged cuts an answer off that cannot be gone on with.
var errChanged = errors.New("what was listed has changed while the client took its time")

// answers is the memory for large answers.
type answers struct {
	room    *semaphore.Weighted
	waiting atomic.Int32 // who wait for room

	mu     sync.Mutex
	inside map[*largeAnswer]bool // in memory
}

func newAnswers() *answers {
	return &answers{room: semaphore.NewWeighted(answerMemory), inside: map[*largeAnswer]bool{}}
}

// acquire waits for room. Answers that nobody takes make it meanwhile.
func (m *answers) acquire(ctx context.Context, n int64) error {
	if m.room.TryAcquire(n) {
		return nil
	}
	if m.waiting.Add(1) == 1 {
		go m.evict()
	}
	defer m.waiting.Add(-1)
	return m.room.Acquire(ctx, n)
}

// evict drops the answers that nobody takes, as long as somebody waits for room.
func (m *answers) evict() {
	for m.waiting.Load() > 0 {
		m.mu.Lock()
		stalled := slices.DeleteFunc(slices.Collect(maps.Keys(m.inside)), func(x *largeAnswer) bool { return !x.stalled() })
		m.mu.Unlock()
		for _, x := range stalled {
			x.drop()
		}
		time.Sleep(answerPatience / 2)
	}
}

// largeAnswer is a body on its way to a client. Where memory is short it is there
// only while the client takes it: one that has stopped reading holds a piece, and
// the rest is made again when it goes on.
type largeAnswer struct {
	memory *answers
	size   int64
	cost   int64 // bytes that making it takes, at least its size
	again  render
	since  atomic.Int64 // when its client was last handed a piece, in nanoseconds; 0 = it is not waited for

	mu   sync.Mutex
	body []byte // nil while it is not in memory
	sum  [sha256.Size]byte
}

// newAnswer takes the body over: nobody else may hold it any longer. cost is what
// making it again takes.
func (a *API) newAnswer(body []byte, cost int64, again render) *largeAnswer {
	size := int64(len(body))
	x := &largeAnswer{memory: a.memory, size: size, cost: min(max(cost, size), answerMemory), again: again, body: body}
	if x.memory.room.TryAcquire(x.weight()) {
		x.memory.enter(x)
	} else {
		x.sum, x.body = sha256.Sum256(body), nil
	}
	return x
}

func (m *answers) enter(x *largeAnswer) {
	m.mu.Lock()
	m.inside[x] = true
	m.mu.Unlock()
}

func (m *answers) leave(x *largeAnswer) {
	m.mu.Lock()
	delete(m.inside, x)
	m.mu.Unlock()
	m.room.Release(x.weight())
}

// stalled says whether the client has taken nothing for a while.
func (x *largeAnswer) stalled() bool {
	since := x.since.Load()
	return since != 0 && time.Now().UnixNano()-since > int64(answerPatience)
}

// weight is what the answer counts while it is in memory.
func (x *largeAnswer) weight() int64 { return min(x.size, answerMemory) }

// send writes the answer.
func (x *largeAnswer) send(ctx context.Context, w http.ResponseWriter) error {
	defer x.end()
	piece := make([]byte, answerPiece)
	for sent := int64(0); sent < x.size; {
		n, err := x.read(ctx, piece, sent)
		if err != nil {
			return err
		}
		x.since.Store(time.Now().UnixNano())
		if _, err := w.Write(piece[:n]); err != nil {
			return clientFailed(err)
		}
		x.since.Store(0)
		sent += int64(n)
	}
	return nil
}

// read copies what comes at the offset, so that whoever waits in Write does not hold
// the rest.
func (x *largeAnswer) read(ctx context.Context, piece []byte, offset int64) (int, error) {
	for {
		x.mu.Lock()
		body := x.body
		n := 0
		if body != nil {
			n = copy(piece, body[offset:])
		}
		x.mu.Unlock()
		if body != nil {
			return n, nil
		}
		if err := x.restore(ctx); err != nil {
			return 0, err
		}
	}
}

// restore brings the body into memory again, when there is room for it.
func (x *largeAnswer) restore(ctx context.Context) error {
	if err := x.memory.acquire(ctx, x.cost); err != nil {
		return err
	}
	body, err := x.again(ctx)
	if err == nil && sha256.Sum256(body) != x.sum {
		err = errChanged
	}
	if err != nil {
		x.memory.room.Release(x.cost)
		return err
	}
	x.memory.room.Release(x.cost - x.weight())
	x.mu.Lock()
	x.body = body
	x.mu.Unlock()
	x.memory.enter(x)
	return nil
}

// drop takes the body out of memory, until it is restored.
func (x *largeAnswer) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.body != nil {
		x.sum = sha256.Sum256(x.body)
		x.forget()
	}
}

// end takes the body out of memory for good.
func (x *largeAnswer) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.body != nil {
		x.forget()
	}
}

func (x *largeAnswer) forget() {
	x.body = nil
	x.memory.leave(x)
}

// writeLarge answers with a document that may be large. Whoever calls it holds
// nothing of the body any longer.
func (a *API) writeLarge(w http.ResponseWriter, r *request, contentType []string, body []byte, cost int64, again render) error {
	if len(body) <= smallAnswer || r.Method == http.MethodHead {
		return writeBody(w, r, http.StatusOK, contentType, body)
	}
	h := w.Header()
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	return a.newAnswer(body, cost, again).send(r.Context(), w)
}
