package proxy

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// transfer fetches one blob into a spool file, which any number of readers follow as it grows,
// and then stores it. It continues when its readers leave.
type transfer struct {
	reg   *Registry
	src   *Source
	local registry.Repository
	key   blobKey
	done  chan struct{} // closed when the blob is stored, or will not be

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change of what follows
	state   transferState
	size    int64      // -1 = unknown yet
	file    *spoolFile // nil before the first byte
	got     int64      // bytes of the file
	users   int        // the transfer itself and its readers
	err     error      // why it failed, for clients; nil = the spool failed, and readers continue by themselves
}

type transferState int

const (
	receiving transferState = iota
	received                // the file is complete and verified
	failed
)

const chunkSize = 64 << 10

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// set changes what readers see.
func (t *transfer) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// wanted reports whether there is a reader.
func (t *transfer) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.users > 1
}

// release ends one use. The last one closes the file.
func (t *transfer) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users == 0 && t.file != nil {
		_ = t.file.Close() // its bytes are no longer needed
	}
}

// run is the whole transfer.
func (t *transfer) run(ctx context.Context) {
	d := t.reg.download(ctx, t.src, t.key, t.wanted)
	err := t.receive(d)
	d.close()
	var unspooled *unspooledError
	switch {
	case err == nil:
		t.set(func() { t.state = received })
		err = t.store(ctx)
		if err != nil {
			t.reg.notStored(t.src, t.key.name, string(t.key.digest), err)
		}
	case errors.As(err, &unspooled):
		t.reg.notStored(t.src, t.key.name, string(t.key.digest), err)
		t.set(func() { t.state = failed })
	default:
		d.log.Warn("cannot fetch a blob from an upstream", zap.Int64("bytes", d.at), zap.Error(err))
		t.reg.noteUnknown(t.key, err)
		t.set(func() { t.state, t.err = failed, t.src.fault(err, oci.CodeBlobUnknown) })
	}
	t.reg.landed(t)
	close(t.done)
	t.release()
}

// unspooledError is a failure of the spool.
type unspooledError struct{ error }

// receive writes all bytes to the spool and shows them to readers.
func (t *transfer) receive(d *download) error {
	if err := d.connect(); err != nil {
		t.src.note(err)
		return err
	}
	t.set(func() { t.size = d.size })
	file, err := t.reg.spool.create()
	if err == nil {
		t.set(func() { t.file = file })
		err = file.reserve(d.size)
	}
	if err != nil {
		return &unspooledError{err}
	}
	buf := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(buf)
	for at := int64(0); ; {
		n, err := d.Read(buf[:])
		if n > 0 {
			if err := file.write(buf[:n], at); err != nil {
				return &unspooledError{err}
			}
			at += int64(n)
		}
		if err != nil && err != io.EOF { //nolint:errorlint // readers return EOF unwrapped
			return err
		}
		t.set(func() { t.got, t.size = at, d.size })
		if err != nil {
			return nil
		}
	}
}

// closeGrace is the time that a Close waits for a complete blob to be stored.
const closeGrace = 5 * time.Second

// store copies the file into the repository. When ctx ends, because the process stops, it
// has closeGrace left.
func (t *transfer) store(ctx context.Context) (err error) {
	stopping := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.reg.opts.CommitTimeout)
	defer cancel()
	defer context.AfterFunc(stopping, func() { time.AfterFunc(closeGrace, cancel) })()
	up, err := t.local.StartWhole(ctx, t.key.digest, t.size)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if err := up.Cancel(context.WithoutCancel(ctx)); err != nil {
				t.reg.opts.Log.Warn("cannot remove an incomplete upload; the purge of uploads will", zap.Error(err))
			}
		}
		_ = up.Close() // nothing is left in it
	}()
	if _, err := up.Append(ctx, io.NewSectionReader(t.file, 0, t.size), t.size); err != nil {
		return err
	}
	if _, err := up.Commit(ctx, t.key.digest); err != nil {
		return err
	}
	t.reg.origins.Put(origin{t.src, t.key.digest}, t.key.name, 1)
	t.reg.count(t.size)
	return nil
}
