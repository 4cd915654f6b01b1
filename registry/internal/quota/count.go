package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"
)

// flight is a count under way in this process.
type flight struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// count counts what is under the prefix, unless a count has ended since done were
// finished. Those who ask while one is under way wait for that one, which goes on when
// they give up.
func (c *counter) count(ctx context.Context, done int64) error {
	c.mu.Lock()
	if c.counts.Load() > done {
		c.mu.Unlock()
		return nil
	}
	if c.closed {
		c.mu.Unlock()
		return context.Canceled
	}
	f := c.flight
	if f == nil {
		f = c.begin(context.WithoutCancel(ctx))
	}
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin begins a count; c.mu is held.
func (c *counter) begin(ctx context.Context) *flight {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	f := &flight{cancel: cancel, done: make(chan struct{})}
	c.flight = f
	go func() {
		defer cancel()
		f.err = c.recount(ctx)
		c.mu.Lock()
		c.flight = nil
		c.mu.Unlock()
		close(f.done)
	}()
	return f
}

// close ends the count under way, and waits for that.
func (c *counter) close() {
	c.mu.Lock()
	c.closed = true
	f := c.flight
	c.mu.Unlock()
	if f != nil {
		f.cancel()
		<-f.done
	}
}

// recount walks over the tree. What is charged meanwhile is added, so that nothing that
// the walk has passed already is missing; who was charged before has written its links
// when the walk begins.
func (c *counter) recount(ctx context.Context) error {
	began, id := time.Now(), rand.Text()
	err := c.doc.Update(ctx, func(a *account) error {
		a.Counts = slices.DeleteFunc(a.Counts, func(r running) bool { return began.Sub(r.Began) > 2*countTimeout }) // its process died
		a.Counts = append(a.Counts, running{ID: id, Began: began})
		return nil
	})
	if err != nil {
		return err
	}
	var linked sizes
	if err = c.coordinator.Barrier(ctx); err == nil {
		linked, err = c.walk(ctx)
	}
	bytes := linked.total()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeTimeout)
	defer cancel()
	ended := c.doc.Update(ctx, func(a *account) error {
		i := slices.IndexFunc(a.Counts, func(r running) bool { return r.ID == id })
		if i < 0 {
			return errors.New("the count was lost with its document")
		}
		if err == nil {
			a.Charged = a.Counts[i].Charged
			a.Bytes, a.Counted, a.Took, a.Last = bytes+a.Charged, time.Now().UTC(), time.Since(began), id
		}
		a.Counts = slices.Delete(a.Counts, i, i+1)
		return nil
	})
	if err = errors.Join(err, ended); err == nil {
		c.found.Store(&found{id: id, ended: time.Now(), sizes: linked})
		c.counts.Add(1)
	}
	return err
}
