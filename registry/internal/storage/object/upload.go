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

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// upload is a storage.Upload. The bytes written last are in a local file, the spool; what doesn't
// fit there is in parts in the bucket. Suspend writes a checkpoint that names the parts, under the
// condition that it is still the one that this holder has read: two holders never mix their bytes.
type upload struct {
	s   *Store
	key string

	mu      sync.Mutex
	saved   checkpoint
	version string   // of the checkpoint, "" if there is none
	parts   []Source // objects in the bucket
	spool   *os.File // what follows them
	spooled int64
	state   []byte
	created bool // by this holder
	done    bool

	last   []string // objects with the last bytes of an attempt to place it
	placed []string // once it is in place: keys that are no longer needed
}

// maxState bounds the state that Suspend takes.
const maxState = 4 << 10

// OpenUpload implements storage.Store. In the bucket nothing shows a new upload before it is suspended or
// has a part.
func (s *Store) OpenUpload(ctx context.Context, key string, o storage.UploadOptions) (storage.Upload, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	if s.announces() {
		s.lists.prefetch() // Apply needs it soon
	}
	// A collection that is deleting the same bytes ends the push before they are sent.
	if o.Final != "" {
		if _, err := s.deadline(ctx, nil, o.Final); err != nil {
			return nil, at(o.Final, err)
		}
	}
	u := &upload{s: s, key: key, created: o.Create}
	var err error
	if o.Create {
		err = u.create(ctx)
	} else {
		err = u.resume(ctx)
	}
	if err != nil {
		u.end()
		return nil, at(key, err)
	}
	return u, nil
}

func (u *upload) create(ctx context.Context) (err error) {
	if u.s.mayObject(u.key) { // else the key is random
		if _, err := u.s.Head(ctx, u.key[1:]); !errors.Is(err, storage.ErrNotExist) {
			u.created = false
			return errors.Join(storage.ErrConflict, err)
		}
		if _, _, err := u.s.load(ctx, u.key); !errors.Is(err, storage.ErrNotExist) {
			u.created = false
			return errors.Join(storage.ErrConflict, err)
		}
	}
	u.s.mu.Lock()
	taken := u.s.live[u.key]
	u.s.live[u.key] = true
	u.s.mu.Unlock()
	if taken {
		u.created = false
		return storage.ErrConflict
	}
	u.spool, err = u.s.openSpool()
	return err
}

// resume continues from the checkpoint.
func (u *upload) resume(ctx context.Context) (err error) {
	var info Info
	if u.saved, info, err = u.s.load(ctx, u.key); err != nil {
		return err
	}
	u.version, u.parts, u.state = info.Version, u.saved.Parts, u.saved.state()
	if u.spool, err = u.s.openSpool(); err != nil {
		return err
	}
	src := io.Reader(bytes.NewReader(u.saved.Tail))
	if rest := u.saved.Rest; rest != nil {
		r := &reader{c: u.s.Client, ctx: ctx, key: rest.Key, length: -1}
		if err := r.open(); err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		src = r
	}
	u.spooled, err = io.Copy(io.NewOffsetWriter(u.spool, 0), src)
	if want := u.saved.size(); err == nil && u.size() != want {
		err = fmt.Errorf("%w: the upload has %d bytes instead of %d", storage.ErrUnavailable, u.size(), want)
	}
	return err
}

// size needs u.mu, as all below that is not exported.
func (u *upload) size() int64 { return sum(u.parts) + u.spooled }

func (u *upload) held() error {
	if u.done {
		return storage.ErrUploadDone
	}
	return nil
}

// end closes the upload for its holder.
func (u *upload) end() {
	u.done = true
	if u.spool != nil {
		u.spool.Close()
	}
	if u.created {
		u.s.mu.Lock()
		defer u.s.mu.Unlock()
		delete(u.s.live, u.key)
	}
}

func (u *upload) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.held(); err != nil || len(p) == 0 {
		return 0, err
	}
	n, err := u.spool.WriteAt(p, u.spooled)
	u.spooled += int64(n)
	u.state = nil
	if err != nil {
		return n, at(u.key, spoolError(err))
	}
	if u.spooled >= u.s.o.SpoolMax {
		err = u.part(context.Background())
	}
	return n, at(u.key, err)
}

// part moves what is in the spool into the bucket.
func (u *upload) part(ctx context.Context) error {
	o, err := u.move(ctx)
	if err != nil {
		return err
	}
	u.parts = append(slices.Clone(u.parts), o)
	u.spooled = 0
	return nil
}

// move writes what is in the spool to an object.
func (u *upload) move(ctx context.Context) (Source, error) {
	o := Source{beside(u.key) + "." + rand.Text(), u.spooled}
	_, err := u.s.put(ctx, o.Key, u.body(), false, &WriteOptions{})
	return o, err
}

func (u *upload) body() Body {
	return Body{Content: io.NewSectionReader(u.spool, 0, u.spooled), Size: u.spooled}
}

// minPart is the least that becomes a part. It grows with their number, so that an upload of small
// chunks does not come to the store's bound on parts early.
func (u *upload) minPart() int64 {
	return min(u.s.limits.MinPart<<(8*len(u.parts)/u.s.limits.MaxParts), u.s.o.SpoolMax)
}

func (u *upload) Progress() (int64, []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.size(), bytes.Clone(u.state)
}

func (u *upload) Reader(ctx context.Context, offset int64) (io.ReadCloser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.held(); err != nil {
		return nil, err
	}
	if offset < 0 || offset > u.size() {
		return nil, fmt.Errorf("%s: offset %d is outside of the upload", u.key, offset)
	}
	var readers []io.Reader
	for _, part := range u.parts {
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

// Suspend implements storage.Upload.
func (u *upload) Suspend(ctx context.Context, size int64, state []byte) error {
	ctx = context.WithoutCancel(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return nil
	}
	defer u.end()
	next, opened := u.saved, u.saved.size()
	switch {
	case len(state) > maxState:
		return fmt.Errorf("%s: a state of %d bytes: %w", u.key, len(state), storage.ErrTooLarge)
	case size != u.size() && size != opened:
		return fmt.Errorf("%s: cannot keep %d of %d bytes", u.key, size, u.size())
	case size != opened:
		if err := u.checkpoint(ctx, &next); err != nil {
			return at(u.key, errors.Join(err, u.remove(ctx, u.unsaved())))
		}
	}
	next.State, next.Hashed = bytes.Clone(state), size
	if u.version != "" && size == opened && bytes.Equal(state, u.saved.state()) { // nothing is new
		return at(u.key, u.remove(ctx, u.unsaved()))
	}
	if err := u.save(ctx, next); err != nil {
		_ = u.remove(ctx, u.unsaved()) // the next holder knows nothing of them
		return at(u.key, err)
	}
	unneeded := u.unsavedBy(next)
	if old := u.saved.Rest; old != nil && next.Rest != old {
		unneeded = append(unneeded, old.Key)
	}
	return at(u.key, u.remove(ctx, unneeded))
}

// checkpoint puts all bytes into a checkpoint: as parts, or little ones in itself.
func (u *upload) checkpoint(ctx context.Context, c *checkpoint) (err error) {
	c.Tail, c.Rest = nil, nil
	switch {
	case u.spooled == 0:
	case u.spooled >= u.minPart():
		if err := u.part(ctx); err != nil {
			return err
		}
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
		c.Rest = &o
	}
	c.Parts = u.parts
	return nil
}

// save replaces the checkpoint, or makes the first one.
func (u *upload) save(ctx context.Context, c checkpoint) error {
	how := &WriteOptions{If: storage.IfAbsent()}
	if u.version != "" {
		how.If = storage.IfVersion(u.version)
	}
	if !u.s.limits.ConditionalPut {
		if err := u.s.compare(ctx, beside(u.key), how.If); err != nil {
			return u.lost(ctx, err)
		}
		how.If = storage.Condition{}
	}
	c.Nonce = rand.Text()
	_, err := u.s.PutJSON(ctx, beside(u.key), c, how)
	return u.lost(ctx, err)
}

// lost makes of a conflict what has become of the upload.
func (u *upload) lost(ctx context.Context, err error) error {
	if !errors.Is(err, storage.ErrConflict) {
		return err
	}
	if _, err := u.s.Head(ctx, beside(u.key)); errors.Is(err, storage.ErrNotExist) {
		return storage.ErrNotExist
	}
	return storage.ErrUploadTaken
}

// check returns an error unless the checkpoint is still the one that was read.
func (u *upload) check(ctx context.Context) error {
	if u.version == "" {
		return nil // only this process knows of it
	}
	return u.lost(ctx, u.s.compare(ctx, beside(u.key), storage.IfVersion(u.version)))
}

// unsaved are the parts that this holder has written and its checkpoint doesn't name.
func (u *upload) unsaved() []string { return u.unsavedBy(u.saved) }

func (u *upload) unsavedBy(c checkpoint) []string {
	keys := slices.Clone(u.last)
	for _, part := range u.parts {
		if !slices.Contains(c.Parts, part) {
			keys = append(keys, part.Key)
		}
	}
	return keys
}

func (u *upload) remove(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return u.s.deleteMany(ctx, keys, &WriteOptions{})
}

// names are the objects of the upload in the bucket.
func (u *upload) names() []string {
	names := slices.Concat(u.saved.names(), u.unsaved())
	if u.version != "" {
		names = append(names, beside(u.key))
	}
	return names
}

// Cancel implements storage.Upload.
func (u *upload) Cancel(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return nil
	}
	defer u.end()
	if err := u.check(ctx); err != nil {
		if errors.Is(err, storage.ErrNotExist) {
			err = nil
		}
		return at(u.key, err)
	}
	return at(u.key, u.remove(ctx, u.names()))
}

// place puts the upload at key, and closes it.
func (u *upload) place(ctx context.Context, key string, how *WriteOptions) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.held()
	if err == nil {
		err = u.check(ctx)
	}
	if err == nil {
		err = u.write(ctx, key, how)
	}
	if err != nil {
		return err
	}
	u.placed = u.names() // Apply removes them
	u.end()
	return nil
}

// write writes the object of the upload.
func (u *upload) write(ctx context.Context, key string, how *WriteOptions) error {
	if len(u.parts) == 0 {
		body := u.body()
		if u.s.o.SHA256 != nil {
			body.SHA256 = u.s.o.SHA256("/" + key)
		}
		_, err := u.s.put(ctx, key, body, false, how)
		return err
	}
	sources := u.parts
	if u.spooled > 0 {
		rest, err := u.move(ctx)
		if err != nil {
			return err
		}
		u.last = append(u.last, rest.Key)
		sources = append(slices.Clone(sources), rest)
	}
	if most := u.s.limits.MaxParts; len(sources) > most {
		return fmt.Errorf("the upload has %d parts, and the store takes no more than %d: push it in larger chunks", len(sources), most)
	}
	_, err := u.s.compose(ctx, key, sources, how)
	return err
}

// removePlaced removes what placed uploads have left. What stays because the store fails only takes
// room, until a purge.
func (s *Store) removePlaced(ctx context.Context, stages []storage.Stage) {
	var keys []string
	for _, stage := range stages {
		for _, c := range stage {
			if u, ok := c.Upload.(*upload); ok {
				keys = append(keys, u.placed...)
			}
		}
	}
	if len(keys) > 0 {
		_ = s.deleteMany(ctx, keys, &WriteOptions{})
	}
}
