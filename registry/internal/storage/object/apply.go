package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"slipway/registry/internal/storage"
)

// Apply implements storage.Store.
func (s *Store) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	ctx = context.WithoutCancel(ctx)
	defer s.closeUploads(stages)
	for _, stage := range stages {
		for _, c := range stage {
			if err := valid(c.Key); err != nil {
				return err
			}
			if c.Upload == nil {
				continue
			}
			if u, ok := c.Upload.(*upload); !ok || u.s != s {
				return fmt.Errorf("upload %T of another store", c.Upload)
			}
		}
	}
	var unneeded []string
	defer func() { s.tidy(ctx, stages, unneeded) }()
	for i, stage := range stages {
		if keys, ok := s.leftovers(stage); ok && i > 0 && i == len(stages)-1 {
			unneeded = keys
			return nil
		}
		if err := s.applyStage(ctx, section, stage); err != nil {
			return err
		}
	}
	return nil
}

// leftovers are the keys of a stage that does nothing but delete what is ephemeral.
func (s *Store) leftovers(stage storage.Stage) (keys []string, ok bool) {
	for _, c := range stage {
		if !c.Delete || !c.Ephemeral || c.If != (storage.Condition{}) || s.mayUpload(c.Key) {
			return nil, false
		}
		keys = append(keys, c.Key[1:])
	}
	return keys, true
}

// tidy deletes what nobody needs any more: the keys, and what placed uploads have left. What
// stays because the store fails only takes room, until a purge.
func (s *Store) tidy(ctx context.Context, stages []storage.Stage, keys []string) {
	for _, stage := range stages {
		for _, c := range stage {
			if u, ok := c.Upload.(*upload); ok {
				keys = append(keys, u.leftovers...)
			}
		}
	}
	if len(keys) > 0 {
		_ = s.deleteMany(ctx, keys, &Change{})
	}
}

// guarded is where a store ignores conditions on DELETE.
func (s *Store) guarded() bool {
	return s.limits.ConditionalPut && !s.limits.ConditionalDelete && s.o.Guard != nil
}

func (s *Store) applyStage(ctx context.Context, section storage.Section, stage storage.Stage) error {
	if s.guarded() {
		return s.applyGuarded(ctx, section, stage)
	}
	return s.send(ctx, section, stage, time.Time{})
}

// send makes the changes of a stage, some at once.
func (s *Store) send(ctx context.Context, section storage.Section, stage storage.Stage, guarded time.Time) error {
	until := func() (time.Time, error) { // a section may last longer than it did when it began
		before, err := deadline(section)
		if !guarded.IsZero() && (before.IsZero() || guarded.Before(before)) {
			before = guarded
		}
		return before, err
	}
	single, batch := s.split(stage)
	for some := range slices.Chunk(batch, s.perDelete()) {
		before, err := until()
		if err != nil {
			return err
		}
		if err := s.deleteMany(ctx, some, &Change{Before: before, Settle: true}); err != nil {
			return at("/"+some[0], err)
		}
	}
	if len(single) == 0 {
		return nil
	}
	// A collector's section lasts no longer for a request without an answer: it settles here.
	unclean, lasts := section.(interface{ Unclean() })
	settles := section != nil && !lasts
	return parallel(single, func(c storage.Change) error {
		before, err := until()
		if err != nil {
			return err
		}
		how := &Change{If: c.If, Before: before, Settle: c.Delete && (!c.Ephemeral || settles) || s.o.Mutable(c.Key)}
		err = s.apply(ctx, c, how)
		if lasts && how.Lost {
			unclean.Unclean()
		}
		return at(c.Key, err)
	})
}

// perDelete is how many deletions are sent by one deadline of the section.
func (s *Store) perDelete() int {
	if b, ok := s.b.(BatchDeleter); ok {
		return b.MaxDelete()
	}
	return 4 * atOnce
}

// deadline is when the section can change nothing any more.
func deadline(section storage.Section) (time.Time, error) {
	if section == nil {
		return time.Time{}, nil
	}
	if e, ok := section.(interface{ Ended() bool }); ok && e.Ended() {
		return time.Time{}, storage.ErrExpired
	}
	return section.Deadline(), nil
}

// split parts the deletions that can share a request from all else.
func (s *Store) split(stage storage.Stage) (single storage.Stage, batch []string) {
	for _, c := range stage {
		if c.Delete && c.If == (storage.Condition{}) && s.limits.ConditionalPut && !s.mayUpload(c.Key) {
			batch = append(batch, c.Key[1:])
		} else {
			single = append(single, c)
		}
	}
	if len(batch) == 1 {
		return stage, nil
	}
	return single, batch
}

func (s *Store) apply(ctx context.Context, c storage.Change, how *Change) error {
	key := c.Key[1:]
	if c.Delete && how.If.Absent() {
		// There is nothing to send, and what a store makes of such a condition is its own affair.
		return s.compare(ctx, key, how.If)
	}
	if emulated := c.Delete && !s.limits.ConditionalDelete || !s.limits.ConditionalPut; emulated && (how.If != (storage.Condition{}) || s.o.Mutable(c.Key)) {
		// The changes of this process wait for each other; others are kept out by Guard, or there
		// are none.
		defer s.locks.lock(c.Key)()
		if !c.Renew { // which compares the version itself
			if err := s.compare(ctx, key, how.If); err != nil {
				return err
			}
		}
		how.If = storage.Condition{}
	}
	switch {
	case c.Delete:
		var err error
		if s.mayObject(c.Key) {
			err = s.Delete(ctx, key, how)
		}
		if err == nil && s.mayUpload(c.Key) {
			err = s.deleteUpload(ctx, c.Key, how.Before)
		}
		return err
	case c.Renew:
		return s.renew(ctx, c, how)
	case c.Upload != nil:
		return c.Upload.(*upload).place(ctx, key, how) //nolint:forcetypeassert // Apply has looked
	default:
		_, err := s.Put(ctx, key, c.Content, how)
		return err
	}
}

// compare looks whether a condition holds that the store ignores.
func (s *Store) compare(ctx context.Context, key string, c storage.Condition) error {
	if c == (storage.Condition{}) {
		return nil
	}
	info, err := s.Head(ctx, key)
	switch {
	case unlessAbsent(err) != nil:
		return err
	case c.Absent() != (err != nil) || c.Version() != "" && info.Version != c.Version():
		return storage.ErrConflict
	}
	return nil
}

// maxRenewed bounds what is read to be written again.
const maxRenewed = 64 << 20

// renew writes the object again, unless it is another by now. One whose content the caller does not know is
// touched, if the store can.
func (s *Store) renew(ctx context.Context, c storage.Change, how *Change) error {
	known := c.If.Version()
	if c.Content == nil {
		if known == "" {
			err := s.Touch(ctx, c.Key[1:], how)
			if err == nil || errors.Is(err, storage.ErrNotExist) || errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrExpired) {
				return err
			}
		}
		content, info, err := s.Get(ctx, c.Key[1:], maxRenewed)
		if err != nil {
			return err
		}
		c.Content, known = content, cmp.Or(known, info.Version)
	}
	for range 8 {
		version := known
		if version == "" || !s.limits.ConditionalPut {
			info, err := s.Head(ctx, c.Key[1:])
			if err != nil {
				return err
			}
			if version != "" && version != info.Version {
				return storage.ErrConflict
			}
			version = info.Version
		}
		again := &Change{Before: how.Before}
		if s.limits.ConditionalPut {
			again.If = storage.IfVersion(version)
		}
		_, err := s.Put(ctx, c.Key[1:], c.Content, again)
		how.Lost = how.Lost || again.Lost
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
		if known != "" {
			if _, err := s.Head(ctx, c.Key[1:]); err != nil {
				return err
			}
			return storage.ErrConflict
		}
	}
	return storage.ErrUnavailable
}

// applyGuarded makes a stage in which, on a store that ignores conditions on DELETE, no
// object is deleted that somebody else is changing. Who deletes under a condition keeps the
// others out. They look, in their section, whether somebody does.
func (s *Store) applyGuarded(ctx context.Context, section storage.Section, stage storage.Stage) error {
	var guard, look []string
	for _, c := range stage {
		switch {
		case c.Delete && c.If.Version() != "":
			guard = append(guard, c.Key)
		case c.Delete && c.If.Absent():
		case s.o.Mutable(c.Key) && s.mayObject(c.Key):
			look = append(look, c.Key)
		}
	}
	var until time.Time
	if len(guard) > 0 {
		deadline, release, err := s.o.Guard(ctx, guard)
		if err != nil {
			return err
		}
		defer release()
		until = deadline
	}
	if len(look) == 0 {
		return s.send(ctx, section, stage, until)
	}
	if _, knows := section.(guardedSection); knows {
		if isGuarded(section, look) {
			return storage.ErrExpired // the caller begins another section
		}
		return s.send(ctx, section, stage, until)
	}
	if end, err := deadline(section); err != nil {
		return err
	} else if until.IsZero() || !end.IsZero() && end.Before(until) {
		until = end
	}
	for begun := time.Now(); ; {
		own, err := s.o.Begin(ctx)
		if err != nil {
			return err
		}
		if !isGuarded(own, look) {
			err := s.send(ctx, own, stage, until)
			own.End()
			if !errors.Is(err, storage.ErrExpired) {
				return err
			}
		}
		own.End()
		if time.Since(begun) > guardPatience {
			return fmt.Errorf("%w: somebody deletes this object, or has died while he did", storage.ErrUnavailable)
		}
		time.Sleep(guardPause)
	}
}

const (
	guardPause    = 20 * time.Millisecond
	guardPatience = 10 * time.Second
)

// guardedSection is a section that knows what others keep it from changing.
type guardedSection interface{ Guarded(keys ...string) bool }

func isGuarded(section storage.Section, keys []string) bool {
	g, ok := section.(guardedSection)
	return ok && g.Guarded(keys...)
}
