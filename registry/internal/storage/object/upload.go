package object

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// upload is a storage.Upload. What came last is in a local file, the spool; what does not
// fit there is in parts in the bucket.
type upload struct {
	s    *Store
	key  string
	told int64 // bytes of the parts

	mu      sync.Mutex
	c       checkpoint // as it was last saved, or would be
	version string     // of that; "" if it was never saved
	claimed bool       // no other process goes on with it unseen; see claim
	spool   *os.File
	spooled int64
	state   []byte
	done    bool
	lost    error // ErrUploadTaken or ErrNotExist, once that is known

	leftovers []string // once it is in place: keys that nobody needs
}

// CreateUpload implements storage.Store. In the bucket nothing shows it before it is
// suspended or has a part.
func (s *Store) CreateUpload(ctx context.Context, key string, _ storage.UploadHint) (storage.Upload, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	if s.mayObject(key) {
		if _, err := s.Head(ctx, key[1:]); !errors.Is(err, storage.ErrNotExist) {
			return nil, at(key, errors.Join(storage.ErrConflict, err))
		}
	}
	if !s.o.Shared || s.o.Upload == nil {
		if _, _, _, err := s.shelf.load(ctx, key); !errors.Is(err, storage.ErrNotExist) {
			return nil, at(key, errors.Join(storage.ErrConflict, err))
		}
	}
	u := &upload{s: s, key: key, c: checkpoint{Holder: rand.Text()}, claimed: true}
	u.mu.Lock() // whoever deletes it meanwhile waits until it is open
	defer u.mu.Unlock()
	s.mu.Lock()
	if s.live[key] != nil {
		s.mu.Unlock()
		return nil, at(key, storage.ErrConflict)
	}
	s.live[key] = u
	s.mu.Unlock()
	if err := u.open(true); err != nil {
		u.done = true
		s.forget(u)
		return nil, at(key, err)
	}
	return u, nil
}

// open opens the spool.
func (u *upload) open(empty bool) (err error) {
	name := ""
	if l, ok := u.s.shelf.(localShelf); ok {
		name = l.file(u.key, ".data")
	}
	if u.spool, err = u.s.openSpool(name); err != nil {
		return err
	}
	if empty {
		err = spoolError(u.spool.Truncate(0))
	}
	return err
}

// forget makes u no longer the holder.
func (s *Store) forget(u *upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[u.key] == u {
		delete(s.live, u.key)
	}
}

// ResumeUpload implements storage.Store.
func (s *Store) ResumeUpload(ctx context.Context, key string) (storage.Upload, error) {
	return s.resume(ctx, key, -1)
}

// ContinueUpload implements storage.Continuer.
func (s *Store) ContinueUpload(ctx context.Context, key string, size int64) (storage.Upload, error) {
	return s.resume(ctx, key, size)
}

func (s *Store) resume(ctx context.Context, key string, size int64) (storage.Upload, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	u := &upload{s: s, key: key}
	s.mu.Lock()
	before := s.live[key]
	s.live[key] = u
	u.mu.Lock()
	defer u.mu.Unlock()
	s.mu.Unlock()
	if before != nil {
		before.leave(!s.o.Shared)
	}
	if err := u.load(ctx, size); err != nil {
		u.done = true // nothing that whoever comes next could keep
		if u.spool != nil {
			u.spool.Close()
		}
		s.forget(u)
		return nil, at(key, err)
	}
	return u, nil
}

// leave fences a holder of this process off. What only this process knows is kept for
// the next one.
func (u *upload) leave(keep bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done || u.lost != nil {
		return
	}
	if keep {
		_ = u.save(context.Background(), time.Time{}) // else what was saved before counts
	}
	u.lost = storage.ErrUploadTaken
	u.spool.Close()
}

// load takes the checkpoint over, and needs u.mu. One of that size that this process remembers is
// gone on from without a request; claim finds out whether it is still the last one.
func (u *upload) load(ctx context.Context, size int64) error {
	last, known := u.s.left.take(u.key)
	if !known || last.c.size() != size {
		last.close()
		return u.takeOver(ctx)
	}
	u.hold(last.c, last.version)
	if last.spool != nil {
		u.spool, u.spooled = last.spool, size-u.told
		return nil
	}
	return u.restore(ctx)
}

// hold goes on from a checkpoint.
func (u *upload) hold(c checkpoint, version string) {
	u.c, u.version, u.state, u.told = c, version, c.state(), sum(c.Parts)
}

// takeOver reads the checkpoint and replaces it, which fences whoever else goes on from it.
func (u *upload) takeOver(ctx context.Context) error {
	for range 100 {
		c, version, _, err := u.s.shelf.load(ctx, u.key)
		if err != nil {
			return err
		}
		c.Holder = rand.Text()
		version, err = u.s.shelf.save(ctx, u.key, c, version, time.Time{})
		if errors.Is(err, storage.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		u.hold(c, version)
		u.claimed = true
		return u.restore(ctx)
	}
	return storage.ErrUnavailable
}

// restore fills the spool with what follows the parts.
func (u *upload) restore(ctx context.Context) error {
	if err := u.open(u.s.o.Shared); err != nil {
		return err
	}
	if !u.s.o.Shared {
		u.spooled = u.c.Local
		return spoolError(u.spool.Truncate(u.spooled))
	}
	src := io.Reader(bytes.NewReader(u.c.Tail))
	if len(u.c.Rest) > 0 {
		r := &reader{c: u.s.Client, ctx: ctx, key: u.c.Rest[0].Key, length: -1}
		if err := r.open(); err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		src = r
	}
	n, err := io.Copy(io.NewOffsetWriter(u.spool, 0), src)
	u.spooled = n
	if want := u.c.size() - u.told; err == nil && n != want {
		err = fmt.Errorf("%w: the upload has %d bytes less than it should", storage.ErrUnavailable, want-n)
	}
	return err
}

// held is nil while the upload can be used. It needs u.mu.
func (u *upload) held() error {
	if u.lost != nil {
		return u.lost
	}
	if u.done {
		return storage.ErrUploadDone
	}
	return nil
}

func (u *upload) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.held(); err != nil || len(p) == 0 {
		return 0, err
	}
	if !u.claimed {
		if err := u.claim(context.Background(), false, time.Time{}); err != nil {
			return 0, at(u.key, err)
		}
	}
	n, err := u.spool.WriteAt(p, u.spooled)
	u.spooled += int64(n)
	u.state = nil
	if err != nil {
		return n, at(u.key, spoolError(err))
	}
	if u.spooled >= u.s.o.SpoolMax {
		ctx := context.Background()
		if err = u.part(ctx); err == nil {
			err = u.save(ctx, time.Time{})
		}
	}
	return n, at(u.key, err)
}

// part moves what is in the spool into the bucket. It needs u.mu.
func (u *upload) part(ctx context.Context) error {
	o, err := u.move(ctx)
	if err != nil {
		return err
	}
	u.c.Parts = append(slices.Clone(u.c.Parts), o)
	u.told += o.Size
	u.spooled = 0
	return nil
}

// move writes what is in the spool to an object.
func (u *upload) move(ctx context.Context) (Source, error) {
	o := Source{beside(u.key) + "." + rand.Text(), u.spooled}
	_, err := u.s.put(ctx, o.Key, u.body(), false, &Change{})
	return o, err
}

func (u *upload) body() Body {
	return Body{Content: io.NewSectionReader(u.spool, 0, u.spooled), Size: u.spooled}
}

// save keeps the upload for whoever resumes it. ErrUploadTaken if somebody has, ErrNotExist
// if it was deleted. It needs u.mu.
func (u *upload) save(ctx context.Context, before time.Time) error {
	c := u.c
	c.Tail, c.Rest, c.Local, c.Old = nil, nil, 0, slices.Clone(c.Old)
	for _, o := range u.c.Rest {
		c.Old = append(c.Old, o.Key)
	}
	switch {
	case !u.s.o.Shared:
		c.Local = u.spooled
	case u.spooled == 0:
	case u.spooled >= u.minPart():
		u.c.Rest, u.c.Old = nil, c.Old
		if err := u.part(ctx); err != nil {
			return err
		}
		c.Parts = u.c.Parts
	case u.spooled <= maxTail:
		c.Tail = make([]byte, u.spooled)
		if _, err := u.spool.ReadAt(c.Tail, 0); err != nil {
			return spoolError(err)
		}
	default:
		o, err := u.move(ctx)
		if err != nil {
			return err
		}
		c.Rest = []Source{o}
	}
	c.State, c.Hashed = u.state, c.size()
	return u.replace(ctx, c, before)
}

// minPart is the least that becomes a part. It grows with their number, so that an upload of small
// chunks does not come to the store's bound on parts early.
func (u *upload) minPart() int64 {
	return min(u.s.limits.MinPart<<(8*len(u.c.Parts)/u.s.limits.MaxParts), u.s.o.SpoolMax)
}

func (u *upload) Progress() (int64, []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.told + u.spooled, bytes.Clone(u.state)
}

func (u *upload) Reader(ctx context.Context, offset int64) (io.ReadCloser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.held(); err != nil {
		return nil, err
	}
	if !u.claimed { // parts of one that another process ends are gone
		if err := u.claim(ctx, false, time.Time{}); err != nil {
			return nil, at(u.key, err)
		}
	}
	if offset < 0 || offset > u.told+u.spooled {
		return nil, fmt.Errorf("%s: offset %d is outside of the upload", u.key, offset)
	}
	var readers []io.Reader
	for _, part := range u.c.Parts {
		if offset >= part.Size {
			offset -= part.Size
			continue
		}
		readers = append(readers, &reader{c: u.s.Client, ctx: ctx, key: part.Key, offset: offset, length: -1})
		offset = 0
	}
	spool, err := sameFile(u.spool)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.key, spoolError(err))
	}
	readers = append(readers, io.NewSectionReader(spool, offset, u.spooled-offset))
	return &sequence{readers: readers, spool: spool}, nil
}

// sameFile is the open file once more: it can be read when the other is closed.
func sameFile(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// sequence reads its readers one after the other, and opens those in the bucket when it
// comes to them. The last one is the spool.
type sequence struct {
	readers []io.Reader
	spool   *os.File
}

func (q *sequence) Read(p []byte) (int, error) {
	for len(q.readers) > 0 {
		r, remote := q.readers[0].(*reader)
		if remote && r.body == nil {
			if err := r.open(); err != nil {
				return 0, err
			}
		}
		n, err := q.readers[0].Read(p)
		if err != io.EOF { //nolint:errorlint // readers end with EOF itself
			return n, err
		}
		if remote {
			_ = r.Close()
		}
		q.readers = q.readers[1:]
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

func (q *sequence) Close() error {
	_ = q.spool.Close() // nothing was written
	if len(q.readers) > 0 {
		if r, ok := q.readers[0].(*reader); ok && r.body != nil {
			return r.Close()
		}
	}
	return nil
}

func (u *upload) Suspend(ctx context.Context, state []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lost != nil {
		return u.lost
	}
	if u.done {
		return nil
	}
	u.state = nil
	if len(state) > 0 {
		u.state = bytes.Clone(state)
	}
	var err error
	if u.claimed || !bytes.Equal(u.state, u.c.state()) { // else nothing is new
		err = u.save(context.WithoutCancel(ctx), time.Time{})
	}
	if err == nil && u.s.o.Shared {
		last := saved{c: u.c, version: u.version}
		if u.spooled > 0 {
			last.spool, u.spool = u.spool, nil
		}
		u.s.left.put(u.key, last)
	}
	return at(u.key, u.end(err))
}

// end closes the upload for its holder.
func (u *upload) end(err error) error {
	u.done = true
	if u.spool != nil {
		u.spool.Close()
	}
	u.s.forget(u)
	return err
}

func (u *upload) Cancel(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lost != nil {
		return u.lost
	}
	if u.done {
		return nil
	}
	if err := u.fence(ctx, time.Time{}); err != nil {
		if errors.Is(err, storage.ErrNotExist) {
			return u.end(nil)
		}
		return at(u.key, u.end(err))
	}
	return at(u.key, u.end(u.remove(ctx, time.Time{})))
}

// remove deletes what the upload has.
func (u *upload) remove(ctx context.Context, before time.Time) error {
	if !u.s.o.Shared {
		if err := u.s.shelf.remove(ctx, u.key, before); err != nil {
			return err
		}
	}
	names := u.names()
	if len(names) == 0 {
		return nil
	}
	return u.s.deleteMany(ctx, names, &Change{Before: before})
}

// names are the objects of the upload in the bucket.
func (u *upload) names() []string {
	names := u.c.names()
	if u.s.o.Shared && u.version != "" {
		names = append(names, beside(u.key))
	}
	return names
}

// place puts the upload at key. While it does, nobody can take the upload over.
func (u *upload) place(ctx context.Context, key string, how *Change) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.held(); err != nil {
		return err
	}
	if err := u.fence(ctx, how.Before); err != nil {
		return err
	}
	err := u.write(ctx, key, how)
	if err != nil {
		u.c.Placing = false
		return err // and Apply suspends it
	}
	if !u.s.o.Shared {
		_ = u.s.shelf.remove(ctx, u.key, time.Time{}) // else it only takes room
	}
	u.leftovers = u.names() // Apply deletes them
	return u.end(nil)
}

// write writes the object of the upload.
func (u *upload) write(ctx context.Context, key string, how *Change) error {
	if len(u.c.Parts) == 0 {
		body := u.body()
		if u.s.o.SHA256 != nil {
			body.SHA256 = u.s.o.SHA256("/" + key)
		}
		_, err := u.s.put(ctx, key, body, false, how)
		return err
	}
	sources := u.c.Parts
	if u.spooled > 0 {
		rest, err := u.move(ctx)
		if err != nil {
			return err
		}
		u.c.Old = append(u.c.Old, rest.Key)
		sources = append(slices.Clone(sources), rest)
	}
	if most := u.s.limits.MaxParts; len(sources) > most {
		return fmt.Errorf("the upload has %d parts, and the store takes no more than %d: push it in larger chunks", len(sources), most)
	}
	_, err := u.s.compose(ctx, key, sources, how)
	return err
}

// closeUploads closes the uploads of an Apply. One that has not been placed can be
// resumed.
func (s *Store) closeUploads(stages []storage.Stage) {
	for _, stage := range stages {
		for _, c := range stage {
			if u, ok := c.Upload.(*upload); ok && u.s == s {
				_ = u.Suspend(context.Background(), nil) // else it is gone, as the contract allows
			}
		}
	}
}
