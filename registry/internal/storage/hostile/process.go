package hostile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"slipway/registry/internal/storage"
)

// Process is what one registry has of a Bucket.
type Process struct {
	storage.Coordinator
	b      *Bucket
	leases *leases // nil where another service coordinates
	dead   atomic.Bool
	frozen atomic.Bool
}

var (
	_ storage.Store       = (*Process)(nil)
	_ storage.Coordinator = (*Process)(nil)
)

// Process returns another process that uses the bucket. Close ends it.
func (b *Bucket) Process() *Process {
	p := &Process{b: b}
	if b.o.NoConditions {
		p.Coordinator = b.redis
		return p
	}
	p.leases = newLeases(p)
	p.Coordinator = p.leases
	return p
}

// Kill ends the process as SIGKILL would: none of its requests is sent any more, and
// what it holds is held until its leases run out.
func (p *Process) Kill() {
	p.dead.Store(true)
	if p.leases != nil {
		p.leases.stop()
	}
}

// Freeze stops the process as SIGSTOP would, until Thaw: its requests wait, and it
// renews nothing.
func (p *Process) Freeze() { p.frozen.Store(true) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() { p.frozen.Store(false) }

// Close implements storage.Store.
func (p *Process) Close() error {
	if p.leases != nil {
		p.leases.stop()
		p.leases.leave()
	}
	p.dead.Store(true)
	p.b.late.Wait()
	return nil
}

// alive is called before each request.
func (p *Process) alive() error {
	for p.frozen.Load() && !p.dead.Load() {
		time.Sleep(time.Millisecond)
	}
	if p.dead.Load() {
		return fmt.Errorf("%w: this process is dead", storage.ErrUnavailable)
	}
	return nil
}

// tries is how often a request is sent before the storage counts as unavailable.
const tries = 8

// read sends a request that changes nothing, again if it fails.
func read[T any](p *Process, request func() (T, error)) (v T, err error) {
	for range tries {
		if err := p.alive(); err != nil {
			return v, err
		}
		if v, err = request(); !errors.Is(err, errTrouble) {
			return v, err
		}
	}
	return v, fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

func (p *Process) get(op, key string) (*object, error) {
	return read(p, func() (*object, error) { return p.b.get(op, key) })
}

// put writes an object. before is the time after which it sends nothing, or zero.
// When it returns, no request of it can take effect any more.
func (p *Process) put(key string, content []byte, c condition, before time.Time) error {
	writer := rand.Text()
	return p.change(before, c, func() error { return p.b.put(key, content, writer, c) }, func() bool {
		o, err := p.get("HEAD", key)
		return err == nil && o.writer == writer
	})
}

// delete removes an object, which may be absent unless c asks for a version.
func (p *Process) delete(key string, c condition, before time.Time) error {
	return p.change(before, c, func() error { return p.b.delete(key, c) }, func() bool {
		_, err := p.get("HEAD", key)
		return errors.Is(err, errMissing)
	})
}

// change sends a request until it is known what it did. After one that failed it
// waits until that cannot take effect any more. done says, then, whether what was
// asked for is the case.
func (p *Process) change(before time.Time, c condition, request func() error, done func() bool) error {
	doubt := false
	for range tries {
		if err := p.alive(); err != nil {
			return err
		}
		if !before.IsZero() && !time.Now().Before(before) {
			return storage.ErrExpired
		}
		err := request()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errTrouble):
			doubt = true
			time.Sleep(p.b.o.MaxLate)
			if c.asked() && done() {
				return nil
			}
		case doubt && done():
			return nil
		case doubt: // it took effect and was overwritten, or it did not
			return fmt.Errorf("%w: the outcome of a request is unknown", storage.ErrUnavailable)
		default:
			return storage.ErrConflict // errPrecondition
		}
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, errTrouble)
}

// Check implements storage.Store.
func (p *Process) Check(_ context.Context, write bool) error {
	key := ".check/" + rand.Text()
	if _, err := p.get("HEAD", key); err != nil && !errors.Is(err, errMissing) {
		return err
	}
	if !write {
		return nil
	}
	return errors.Join(p.put(key, nil, condition{}, time.Time{}), p.delete(key, condition{}, time.Time{}))
}
