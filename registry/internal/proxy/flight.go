package proxy

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/upstream"
)

// flight is the transfer of one blob from the upstream: into the store, as an upload, and
// from there to all who read it meanwhile. Where it cannot be stored, its readers get
// what comes at the pace of the slowest.
//
// Bytes are shown to readers once they are stored; the last ones once the digest is right.
type flight struct {
	cache *Cache
	src   *Source
	repo  registry.Repository
	key   blobKey
	log   *zap.Logger

	got  int64     // bytes that came
	hash hash.Hash // of them, once they are not stored any more

	committing <-chan error // ends a commit that is not waited for; else nil

	mu      sync.Mutex
	cond    *sync.Cond
	upload  *registry.Upload // nil while nothing can be read from it
	readers map[*reader]bool
	size    int64 // -1 while it is not known
	state   state
	err     error // why it failed
	stuck   bool  // the store holds the upload, and whoever opens it waits
	shown   int64 // bytes that readers may have
	live    bool  // what comes is not stored any more
	from    int64 // where that began
	window  []byte
	at      int64 // where the window begins
	tail    []byte
	tailAt  int64 // where the tail, the last of what is stored, begins: it can be read while the upload becomes a blob
}

// state is how far a flight has come.
type state int

const (
	flying  state = iota
	placing       // all has come, and the upload becomes a blob
	stored        // the store has it
	kept          // it could not become a blob: the upload serves those who still read
	failed
)

// Bounds of a transfer.
const (
	chunk      = 64 << 10
	maxResumes = 3 // in a row without progress
	// commitGrace is how long a store has to end what was cancelled.
	commitGrace = time.Second
	progress    = 1 << 20
	resumeWait  = 250 * time.Millisecond
)

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

func newFlight(c *Cache, s *Source, r registry.Repository, key blobKey) *flight {
	f := &flight{
		cache: c, src: s, repo: r, key: key, size: -1, readers: map[*reader]bool{},
		log: c.opts.Log.With(zap.String("upstream", s.Name), zap.String("repository", string(key.name)), zap.String("digest", string(key.digest))),
	}
	f.cond = sync.NewCond(&f.mu)
	return f
}

// known is the blob's size, if it is known.
func (f *flight) known() (int64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size, f.size >= 0 && f.state != failed
}

// run is the whole transfer.
func (f *flight) run(ctx context.Context) {
	err := f.there(ctx)
	if err != nil {
		err = f.receive(ctx)
		if err == nil {
			f.place(ctx)
		}
	}
	if err != nil {
		f.fail(err)
	}
	f.cache.landed(f)
	f.clear(ctx)
}

// there is nil if the store has the bytes already: because they came a moment ago, or for
// another repository of the upstream. Then that is asked only whether they are in this one.
// What others have it must not get by claiming that it has it, too.
func (f *flight) there(ctx context.Context) error {
	desc, err := f.repo.StatBlob(ctx, f.key.digest)
	if err != nil && f.repo.HasBytes(ctx, f.key.digest) {
		if _, err = f.src.Client.StatBlob(ctx, f.src.remote(f.key.name), f.key.digest); err == nil {
			desc, err = f.repo.MountBlob(ctx, f.key.digest, "", func(name oci.Name) bool { return f.cache.source(name) == f.src })
		}
	}
	if err != nil {
		return err
	}
	f.set(func() { f.size, f.shown, f.state = desc.Size, desc.Size, stored })
	return nil
}

// set changes what readers see.
func (f *flight) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.cond.Broadcast()
}

// receive gets all bytes. A transfer that breaks is resumed.
func (f *flight) receive(ctx context.Context) error {
	var begin sync.WaitGroup
	begin.Go(func() { f.begin(ctx) }) // while the upstream is waited for
	for resumes := 0; ; resumes++ {
		before := f.got
		body, err := f.src.Client.Blob(ctx, f.src.remote(f.key.name), f.key.digest, f.got)
		begin.Wait()
		if err == nil {
			err = f.copy(ctx, body)
			_ = body.Close() // all that matters was read
		}
		f.src.note(err)
		if err == nil {
			return nil
		}
		if f.got-before >= progress {
			resumes = 0
		}
		reason := upstream.ReasonOf(err)
		broken := reason == upstream.Down || reason == upstream.Slow || reason == upstream.Fault
		if !broken || f.got == 0 || resumes >= maxResumes {
			f.cache.noteUnknown(f.key, err)
			return err
		}
		f.log.Info("a transfer from an upstream broke and is resumed", zap.Int64("bytes", f.got), zap.Error(err))
		select {
		case <-time.After(resumeWait << resumes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin begins the upload. Without one, readers get what comes.
func (f *flight) begin(ctx context.Context) {
	up, err := f.repo.StartUpload(ctx, f.key.digest.Algorithm())
	if err != nil {
		f.hash = f.key.digest.Algorithm().New()
		f.goLive(0, err)
		return
	}
	f.set(func() { f.upload = up })
}

// goLive gives up storing: from the offset on, readers get what comes.
func (f *flight) goLive(from int64, err error) {
	f.cache.notStored(f.src, f.key.name, string(f.key.digest), err)
	f.set(func() { f.live, f.from, f.at = true, from, from })
}

// rehash hashes what was stored, up to the offset.
func (f *flight) rehash(ctx context.Context, end int64) error {
	f.hash = f.key.digest.Algorithm().New()
	if end == 0 {
		return nil
	}
	src, err := f.upload.Reader(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // nothing was written
	_, err = io.CopyN(f.hash, src, end)
	return err
}

// copy takes what the upstream sends, to the end.
func (f *flight) copy(ctx context.Context, body *upstream.Body) error {
	if err := f.sized(ctx, body.Size); err != nil {
		return err
	}
	buf := chunks.Get().(*[chunk]byte)
	defer chunks.Put(buf)
	for {
		if f.got == f.size {
			return nil
		}
		n, err := body.Read(buf[:])
		if n > 0 {
			if err := f.take(ctx, buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF && f.size < 0: //nolint:errorlint // readers end with EOF itself
			return f.sized(ctx, f.got)
		case err == io.EOF && f.got < f.size: //nolint:errorlint // as above
			return &upstream.Error{Reason: upstream.Down, Err: io.ErrUnexpectedEOF}
		case err != nil && err != io.EOF: //nolint:errorlint // as above
			return err
		}
	}
}

// sized notes the size of the blob: then its readers can begin.
func (f *flight) sized(ctx context.Context, size int64) error {
	if size < 0 && f.live {
		return &upstream.Error{Reason: upstream.Invalid, Err: errors.New("the size of the blob is not given, and it cannot be stored")}
	}
	if size >= 0 && f.got > size {
		return errTooLong()
	}
	if f.size >= 0 && size >= 0 && f.size != size {
		return &upstream.Error{Reason: upstream.Invalid, Err: errors.New("the size of the blob has changed")}
	}
	if size < 0 {
		return nil
	}
	if f.upload != nil && f.got == 0 {
		f.upload.Expect(f.key.digest, size)
	}
	if f.got == size {
		if err := f.verify(ctx); err != nil {
			return err
		}
	}
	f.set(func() {
		f.size = size
		if f.got == size {
			f.shown = size
		}
	})
	return nil
}

// errTooLong is about bytes behind the end of a blob: they must not get past verify.
func errTooLong() error {
	return &upstream.Error{Reason: upstream.Invalid, Err: errors.New("more bytes came than the blob is said to have")}
}

// verify is nil if what came are the bytes of the digest.
func (f *flight) verify(ctx context.Context) error {
	if !f.live {
		err := f.upload.Verify(ctx, f.key.digest)
		var e *oci.Error
		if errors.As(err, &e) && e.Code == oci.CodeDigestInvalid {
			return &upstream.Error{Reason: upstream.Invalid, Err: err}
		}
		return err
	}
	if got := f.key.digest.Algorithm().Digest(f.hash.Sum(nil)); got != f.key.digest {
		return &upstream.Error{Reason: upstream.Invalid, Err: errors.New("the bytes are those of " + string(got))}
	}
	return nil
}

// take stores and shows what came.
func (f *flight) take(ctx context.Context, p []byte) error {
	start := f.got
	if f.size >= 0 && start+int64(len(p)) > f.size {
		return errTooLong()
	}
	f.got += int64(len(p))
	f.src.metrics.pulled(true, int64(len(p)))
	if !f.live {
		_, err := f.upload.Append(ctx, bytes.NewReader(p))
		if err == nil {
			return f.show(ctx, start, p)
		}
		if f.size < 0 {
			return err
		}
		if again := f.rehash(ctx, start); again != nil {
			return errors.Join(err, again)
		}
		f.goLive(start, err)
	}
	f.hash.Write(p) //nolint:errcheck // a hash never fails
	if f.got == f.size {
		if err := f.verify(ctx); err != nil {
			return err
		}
	}
	return f.pass(ctx, start, p)
}

// show lets readers have what is stored: the last bytes if all are right.
func (f *flight) show(ctx context.Context, start int64, p []byte) error {
	if f.size < 0 { // readers wait for the size
		return nil
	}
	var tail []byte
	if f.got == f.size {
		if err := f.verify(ctx); err != nil {
			return err
		}
		tail = bytes.Clone(p)
	}
	f.set(func() { f.shown, f.tail, f.tailAt = f.got, tail, start })
	return nil
}

// pass shows what came to all who read, and waits until they have it.
func (f *flight) pass(ctx context.Context, start int64, p []byte) error {
	defer context.AfterFunc(ctx, func() { f.set(func() {}) })()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.window, f.at, f.shown = p, start, start+int64(len(p))
	f.cond.Broadcast()
	defer func() { f.window, f.at = nil, f.shown }()
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(f.readers) == 0 {
			return errDeserted
		}
		waiting := false
		for r := range f.readers {
			waiting = waiting || r.at < f.shown
		}
		if !waiting {
			return nil
		}
		f.cond.Wait()
	}
}

var errDeserted = errors.New("nobody reads any more what cannot be stored")

// place makes the upload a blob of the repository.
func (f *flight) place(ctx context.Context) {
	if f.live {
		f.set(func() { f.state = kept })
		return
	}
	f.retain()
	f.set(func() { f.state = placing })
	done := make(chan error, 1)
	f.cache.work.Go(func() {
		within, cancel := context.WithTimeout(ctx, f.cache.opts.CommitTimeout)
		defer cancel()
		_, err := f.upload.Commit(within, f.key.digest)
		done <- err
	})
	select {
	case err := <-done:
		f.placed(err)
	case <-time.After(f.cache.opts.CommitTimeout + commitGrace):
		f.placed(errStuck)
		f.committing = done
	}
}

func (f *flight) placed(err error) {
	if err != nil {
		f.cache.notStored(f.src, f.key.name, string(f.key.digest), err)
		f.set(func() {
			f.state, f.stuck = kept, errors.Is(err, errStuck)
			for r := range f.readers {
				if f.stuck && !r.file {
					r.cut(err)
				}
			}
		})
		return
	}
	f.cache.count(f.size)
	f.set(func() { f.state = stored })
}

// errStuck is about a store that does not even end when its time is over.
var errStuck = errors.New("the storage does not store the blob in time")

// fail ends the transfer for all who read it.
func (f *flight) fail(err error) {
	if !errors.Is(err, errDeserted) {
		f.log.Warn("cannot fetch a blob from an upstream", zap.Int64("bytes", f.got), zap.Error(err))
	}
	err = f.src.fault(err, oci.CodeBlobUnknown)
	f.set(func() { f.state, f.err = failed, err })
}

// clear removes the upload, unless it has become a blob, when nobody reads it any more.
func (f *flight) clear(ctx context.Context) {
	if f.upload == nil {
		return
	}
	if f.committing != nil {
		f.cache.stuck.Add(1)
		err := <-f.committing
		f.cache.stuck.Add(-1)
		if err == nil { // the blob is there after all
			f.cache.count(f.size)
			_ = f.upload.Close() // nothing is left in it
			return
		}
	}
	f.mu.Lock()
	stop := context.AfterFunc(ctx, func() { f.set(func() {}) })
	for f.state == kept && len(f.readers) > 0 && ctx.Err() == nil {
		f.cond.Wait()
	}
	cancel := f.state != stored
	f.mu.Unlock()
	stop()
	if cancel {
		if err := f.upload.Cancel(context.WithoutCancel(ctx)); err != nil {
			f.log.Warn("cannot remove an incomplete upload; the purge of uploads will", zap.Error(err))
		}
	}
	_ = f.upload.Close() // nothing is left in it
}
