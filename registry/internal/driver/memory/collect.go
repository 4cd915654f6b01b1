package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"slipway/registry/internal/driver"
)

// Now implements driver.Driver.
func (d *Driver) Now() time.Time { return time.Now() }

// Touch implements driver.Driver.
func (d *Driver) Touch(_ context.Context, path string, at time.Time) error {
	if _, err := d.object(path); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(path)
	if n == nil {
		return notExist(path)
	}
	if at.IsZero() {
		at = time.Now()
	}
	d.changes++
	n.changed, n.version = at, d.changes
	return nil
}

// SetAside implements driver.Driver.
func (d *Driver) SetAside(_ context.Context, path, aside string) error { return d.move(path, aside) }

// Restore implements driver.Driver.
func (d *Driver) Restore(_ context.Context, aside, path string) error { return d.move(aside, path) }

func (d *Driver) move(from, to string) error {
	if _, err := d.object(from); err != nil {
		return err
	}
	if !driver.ValidPath(to) {
		return fmt.Errorf("%q: %w", to, driver.ErrInvalidPath)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.find(from)
	if n == nil || n.dir() {
		return notExist(from)
	}
	if d.find(to) != nil {
		return fmt.Errorf("%s: %w", to, driver.ErrExist)
	}
	if err := d.put(to, n.content); err != nil {
		return err
	}
	d.find(to).changed = n.changed
	d.remove(from)
	return nil
}

// Prune implements driver.Driver. There are no empty directories.
func (d *Driver) Prune(_ context.Context, dir string) error {
	if !driver.ValidPath(dir) {
		return fmt.Errorf("%q: %w", dir, driver.ErrInvalidPath)
	}
	return nil
}

// Flush implements driver.Driver.
func (d *Driver) Flush(context.Context, ...string) error { return nil }

// sections counts those that were entered in an epoch.
type sections struct {
	mu      sync.Mutex
	current *sync.WaitGroup
}

// Enter implements driver.Driver.
func (d *Driver) Enter(context.Context) (leave func(), err error) {
	d.sections.mu.Lock()
	defer d.sections.mu.Unlock()
	d.sections.current.Add(1)
	return d.sections.current.Done, nil
}

// Barrier implements driver.Driver.
func (d *Driver) Barrier(ctx context.Context) error {
	d.sections.mu.Lock()
	old := d.sections.current
	d.sections.current = new(sync.WaitGroup)
	d.sections.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		old.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lock implements driver.Driver.
func (d *Driver) Lock(context.Context) (unlock func(), err error) {
	if !d.collecting.TryLock() {
		return nil, driver.ErrBusy
	}
	return d.collecting.Unlock, nil
}

// Serve implements driver.Driver. Nobody else sees this storage.
func (d *Driver) Serve(ctx context.Context) (leave func(), err error) {
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	for !d.turn.TryRLock() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	d.count(1)
	return func() {
		d.count(-1)
		d.turn.RUnlock()
	}, nil
}

// Alone implements driver.Driver.
func (d *Driver) Alone(context.Context) (wanted func() bool, release func(), err error) {
	if !d.turn.TryLock() {
		return nil, nil, driver.ErrBusy
	}
	return func() bool { return d.waiting.Load() > 0 }, d.turn.Unlock, nil
}

func (d *Driver) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers += n
	d.serverChanges++
}

// Servers implements driver.Driver.
func (d *Driver) Servers(context.Context) (int, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.servers, nil
}

// Requested implements driver.Driver.
func (d *Driver) Requested(context.Context) { d.requested.Store(time.Now().UnixNano()) }

// Busy implements driver.Driver.
func (d *Driver) Busy(context.Context) bool {
	return time.Since(time.Unix(0, d.requested.Load())) < time.Second
}

// Crew implements driver.Driver.
func (d *Driver) Crew(context.Context) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return fmt.Sprint(d.serverChanges)
}
