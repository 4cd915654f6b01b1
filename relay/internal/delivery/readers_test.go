package delivery

import (
	"testing"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

// TestQueue_ReaderHeardOfWhileItBlocks_TriesAgain: somebody who can read may be heard of at any moment while an attempt that has
// found nobody ends. Another attempt follows at once.
func TestQueue_ReaderHeardOfWhileItBlocks_TriesAgain(t *testing.T) {
	block := func(q *queue) {
		q.setRoom(func(r *store.Room) { r.BlockedAs = string(matrix.ClassEncrypted) })
	}
	ends := []func(*queue){block, func(q *queue) { q.retryAfter(blockedFor) }, (*queue).retryNow}
	for heard := range len(ends) + 1 {
		q := newQueue(nil, store.Room{ID: 1, Encrypted: true})
		for i := range len(ends) + 1 {
			if i == heard {
				readersChanged([]*queue{q})
			}
			if i < len(ends) {
				ends[i](q)
			}
		}
		if wait := q.due(); wait > 0 {
			t.Errorf("heard before step %d: the next attempt comes in %v", heard, wait)
		}
	}
}
