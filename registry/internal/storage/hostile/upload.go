package hostile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"slipway/registry/internal/storage"
)

// checkpoint is the object that says what an upload has. It is only ever replaced
// by who has read it, which fences the holder before.
type checkpoint struct {
	Holder  string
	Parts   []part
	State   []byte `json:",omitempty"`
	Placing bool   // it is being put in place, and nobody may take it over
}

type part struct {
	Key  string
	Size int64
}

func (c checkpoint) size() (n int64) {
	for _, p := range c.Parts {
		n += p.Size
	}
	return n
}

// partSize is how much is written before it is stored.
const partSize = 1 << 20

// uploads is where checkpoints and parts lie. No valid key leads there.
const uploads = ".uploads"

func (p *Process) checkpoint(key string) (checkpoint, *object, error) {
	o, err := p.get("GET", uploads+key)
	if err != nil {
		return checkpoint{}, nil, err
	}
	var c checkpoint
	if err := json.Unmarshal(o.content, &c); err != nil {
		return checkpoint{}, nil, err
	}
	if c.Placing {
		return checkpoint{}, nil, errMissing
	}
	return c, o, nil
}

// upload is a storage.Upload. One goroutine uses it.
type upload struct {
	p       *Process
	key     string
	c       checkpoint // as it was last stored
	version string     // of that
	buffer  []byte     // what is not stored yet
	done    bool
}

// CreateUpload implements storage.Store.
func (p *Process) CreateUpload(ctx context.Context, key string, _ storage.UploadHint) (storage.Upload, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	if _, err := p.get("HEAD", key); !errors.Is(err, errMissing) {
		return nil, at(key, errors.Join(storage.ErrConflict, err))
	}
	u := &upload{p: p, key: key, c: checkpoint{Holder: rand.Text()}}
	if err := u.store(ctx, u.c, condition{absent: true}, time.Time{}); err != nil {
		return nil, at(key, err)
	}
	return u, nil
}

// ResumeUpload implements storage.Store.
func (p *Process) ResumeUpload(ctx context.Context, key string) (storage.Upload, error) {
	if err := valid(key); err != nil {
		return nil, err
	}
	for range 100 {
		c, o, err := p.checkpoint(key)
		if err != nil {
			return nil, at(key, err)
		}
		u := &upload{p: p, key: key}
		c.Holder = rand.Text()
		if err := u.store(ctx, c, condition{version: o.version}, time.Time{}); !errors.Is(err, storage.ErrConflict) {
			return u, at(key, err)
		}
	}
	return nil, at(key, storage.ErrUnavailable)
}

// store replaces the checkpoint. ErrConflict if it is not what was read.
func (u *upload) store(ctx context.Context, c checkpoint, cond condition, before time.Time) error {
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	key := uploads + u.key
	if u.p.b.o.NoConditions {
		unlock, err := u.p.lockKey(ctx, "upload", key)
		if err != nil {
			return err
		}
		defer unlock()
		if err := u.p.compare(key, cond); err != nil {
			return err
		}
	}
	if err := u.p.put(key, content, cond, before); err != nil {
		return err
	}
	o, err := u.p.get("GET", key)
	if err == nil && !bytes.Equal(o.content, content) {
		err = storage.ErrConflict // somebody took it meanwhile
	}
	if err != nil {
		return err
	}
	u.c, u.version = c, o.version
	return nil
}

// update stores the checkpoint if the upload is still held.
func (u *upload) update(c checkpoint, before time.Time) error {
	err := u.store(context.Background(), c, condition{version: u.version}, before)
	if !errors.Is(err, storage.ErrConflict) && !errors.Is(err, errMissing) {
		return err
	}
	if _, err := u.p.get("HEAD", uploads+u.key); errors.Is(err, errMissing) {
		return storage.ErrNotExist
	}
	return storage.ErrUploadTaken
}

// flush stores what is in the buffer, and the state of all there is.
func (u *upload) flush(state []byte) error {
	c := u.c
	c.State = state
	if len(u.buffer) > 0 {
		added := part{fmt.Sprintf("%s%s/%s", uploads, u.key, rand.Text()), int64(len(u.buffer))}
		if err := u.p.put(added.Key, u.buffer, condition{}, time.Time{}); err != nil {
			return err
		}
		c.Parts = append(slices.Clone(c.Parts), added)
	}
	if err := u.update(c, time.Time{}); err != nil {
		return err
	}
	u.buffer = nil
	return nil
}

func (u *upload) Write(b []byte) (int, error) {
	if u.done {
		return 0, storage.ErrUploadDone
	}
	if len(b) == 0 {
		return 0, nil
	}
	u.c.State = nil
	u.buffer = append(u.buffer, b...)
	if len(u.buffer) >= partSize {
		if err := u.flush(nil); err != nil {
			u.buffer = u.buffer[:len(u.buffer)-len(b)]
			return 0, at(u.key, err)
		}
	}
	return len(b), nil
}

func (u *upload) Progress() (int64, []byte) {
	return u.c.size() + int64(len(u.buffer)), bytes.Clone(u.c.State)
}

func (u *upload) Reader(_ context.Context, offset int64) (io.ReadCloser, error) {
	content, err := u.content()
	if err != nil {
		return nil, at(u.key, err)
	}
	if offset < 0 || offset > int64(len(content)) {
		return nil, fmt.Errorf("%s: offset %d is outside of the upload", u.key, offset)
	}
	return io.NopCloser(bytes.NewReader(content[offset:])), nil
}

func (u *upload) content() ([]byte, error) {
	var content []byte
	for _, part := range u.c.Parts {
		o, err := u.p.get("GET", part.Key)
		if err != nil {
			return nil, err
		}
		content = append(content, o.content...)
	}
	return append(content, u.buffer...), nil
}

func (u *upload) Suspend(_ context.Context, state []byte) error {
	if u.done {
		return nil
	}
	u.done = true
	return at(u.key, u.flush(bytes.Clone(state)))
}

func (u *upload) Cancel(context.Context) error {
	if u.done {
		return nil
	}
	u.done = true
	c := u.c
	c.Placing = true
	if err := u.update(c, time.Time{}); err != nil {
		if errors.Is(err, storage.ErrNotExist) {
			return nil
		}
		return at(u.key, err)
	}
	return u.p.deleteUpload(u.key, time.Time{})
}

// place puts the upload at key. While it does, nobody can take the upload over.
func (u *upload) place(key string, cond condition, before time.Time) error {
	if u.done {
		return storage.ErrUploadDone
	}
	content, err := u.content()
	if err != nil {
		return err
	}
	c := u.c
	c.Placing = true
	if err := u.update(c, before); err != nil {
		return err
	}
	if err := u.p.put(key, content, cond, before); err != nil {
		c.Placing = false
		return errors.Join(err, u.update(c, time.Time{}))
	}
	return u.p.deleteUpload(u.key, time.Time{})
}

// deleteUpload removes the checkpoint, then the parts.
func (p *Process) deleteUpload(key string, before time.Time) error {
	if err := p.delete(uploads+key, condition{}, before); err != nil {
		return err
	}
	for n, err := range p.list(uploads+key+"/", "", true) {
		if err != nil {
			return err
		}
		if err := p.delete(n.key, condition{}, before); err != nil {
			return err
		}
	}
	return nil
}

// endUploads closes the uploads of an Apply. One that has not been placed keeps what
// is stored of it.
func endUploads(stages []storage.Stage) {
	for _, stage := range stages {
		for _, c := range stage {
			if u, ok := c.Upload.(*upload); ok {
				u.done = true
			}
		}
	}
}
