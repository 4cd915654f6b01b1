package registry

import (
	"context"
	"errors"
	"time"

	"slipway/registry/internal/integrity"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// section is a storage.Section in which the rules look at what they rely on. A nil
// *section is that of a reader who relies on nothing.
type section struct {
	storage.Section
	advertise bool // what is found is confirmed to a client, so its link is renewed
}

// errListed ends an attempt: a garbage collection is about to delete something that
// is needed.
var errListed = errors.New("a garbage collection is about to delete it")

// A garbage collection withdraws its list within about a second.
const (
	maxListed  = 5 * time.Second // how long a writer waits for it
	listedPoll = 15 * time.Millisecond
)

// depend calls f in a section: what f finds in it stays until f has returned. While
// something that f needs is about to be deleted, it waits and calls f again.
// UNAVAILABLE after maxListed.
func (r *Registry) depend(ctx context.Context, f func(*section) error) error {
	return r.retry(ctx, func() error { return r.inSection(ctx, false, f) })
}

// advertise is depend for f that finds what is confirmed to a client, which may rely on
// it for Options.Grace. On a store that cannot be written nothing is renewed.
func (r *Registry) advertise(ctx context.Context, f func(*section) error) error {
	err := r.hasJoined("nothing can be promised now: ")
	if r.opts.ReadOnly || unwritable(err) {
		return f(nil)
	}
	if err != nil {
		return err
	}
	return r.retry(ctx, func() error {
		err := r.inSection(ctx, true, f)
		if errors.Is(err, errNoSection) {
			return f(nil)
		}
		return err
	})
}

// errNoSection means that there can be no section on a store that cannot be written.
var errNoSection = errors.New("cannot begin a section")

func (r *Registry) inSection(ctx context.Context, advertise bool, f func(*section) error) error {
	s, err := r.coordinator.Begin(ctx)
	if unwritable(err) {
		err = errors.Join(errNoSection, err)
	}
	if err != nil {
		return fault(err)
	}
	defer s.End()
	if err := f(&section{s, advertise}); err != nil {
		return err
	}
	if end := s.Deadline(); advertise && !end.IsZero() && !time.Now().Before(end) {
		return storage.ErrExpired
	}
	return nil
}

// retry calls f until it does not fail for a garbage collection, an expired section,
// bytes that have to be read again or a quota that has to be counted.
func (r *Registry) retry(ctx context.Context, f func() error) error {
	var begun time.Time // waiting
	for {
		err := f()
		if u := (*integrity.Unproved)(nil); errors.As(err, &u) {
			if err = r.integrity.Prove(ctx, u); err == nil || errors.Is(err, ErrDamaged) || absent(err) {
				continue // it is known by now
			}
			return fault(err)
		}
		if u := (*Uncounted)(nil); errors.As(err, &u) {
			if err := u.Count(ctx); err != nil {
				return fault(err)
			}
			continue
		}
		if err == nil || !errors.Is(err, errListed) && !errors.Is(err, storage.ErrExpired) {
			return err
		}
		if begun.IsZero() {
			begun = time.Now()
		}
		if time.Since(begun) > maxListed {
			return unavailable("a garbage collection is deleting what this request needs; try again", err)
		}
		select {
		case <-time.After(listedPoll):
		case <-ctx.Done():
			return fault(ctx.Err())
		}
	}
}

// touch lets a deletion of key know that a section writes something that points at it.
func (s *section) touch(key string) {
	if t, ok := s.Section.(interface{ Touch(key string) }); ok {
		t.Touch(key)
	}
}

// stat describes the object at key. In a section, errListed if it is about to be
// deleted.
func (r *Registry) stat(ctx context.Context, s *section, key string) (storage.Info, error) {
	if s != nil && s.Listed(key) {
		return storage.Info{}, errListed
	}
	return r.store.Stat(ctx, key)
}

// renew makes the link at key, which info describes, young if it is old and
// is confirmed to a client: collectors keep what is young. Where that cannot be written,
// nothing can be deleted either.
func (r *Registry) renew(ctx context.Context, s *section, key string, d oci.Digest, info storage.Info) error {
	if s == nil || !s.advertise || r.opts.Grace <= 0 {
		return nil
	}
	if age := r.now().Sub(info.Modified); age >= 0 && age < r.opts.RenewAfter {
		return nil
	}
	renewal := storage.Change{Key: key, Content: layout.Link(d), Renew: true}
	if r.store.Remote && info.Version != "" { // otherwise the store asks for it
		renewal.If = storage.IfVersion(info.Version)
	}
	err := r.store.Apply(ctx, s.Section, storage.Stage{renewal})
	if isConflict(err) { // somebody else writes it at the same time
		renewal.If = storage.Condition{}
		err = r.store.Apply(ctx, s.Section, storage.Stage{renewal})
	}
	if unwritable(err) {
		return nil
	}
	return err
}

// linked is the stage before a link to d is written. While a collection is under
// way it leaves a mark, so that the bytes stay though the collection has seen no
// link to them.
func (s *section) linked(d oci.Digest) []storage.Stage {
	if s.Run() == "" {
		return nil
	}
	return []storage.Stage{{{Key: layout.Linked(s.Run(), d), Ephemeral: true}}}
}

func unwritable(err error) bool {
	return errors.Is(err, storage.ErrReadOnly) || errors.Is(err, storage.ErrDenied)
}
