package object

import (
	"context"
	"errors"
	"path"
	"time"

	"slipway/registry/internal/storage"
)

// checkpoint names what an upload has in the bucket. It is only replaced by a holder that has read it.
type checkpoint struct {
	Parts  []Source // each as large as a part has to be
	Rest   *Source  `json:",omitempty"` // what follows them, if it is smaller than that
	Tail   []byte   `json:",omitempty"` // or if it is little
	State  []byte   `json:",omitempty"`
	Hashed int64    `json:",omitempty"` // of how many bytes State is
	Nonce  string   // makes the version of each checkpoint another
}

// maxTail bounds the bytes that a checkpoint takes in itself.
const maxTail = 64 << 10

func sum(sources []Source) (n int64) {
	for _, s := range sources {
		n += s.Size
	}
	return n
}

func (c *checkpoint) size() int64 {
	n := sum(c.Parts) + int64(len(c.Tail))
	if c.Rest != nil {
		n += c.Rest.Size
	}
	return n
}

// state is the last holder's knowledge of all bytes.
func (c *checkpoint) state() []byte {
	if c.Hashed != c.size() {
		return nil
	}
	return c.State
}

// beside is the key of the checkpoint, and the prefix of what an upload has in the bucket: a
// name that no valid key has.
func beside(key string) string { return path.Join(path.Dir(key), "."+path.Base(key))[1:] }

// names returns the objects that the checkpoint names.
func (c *checkpoint) names() (names []string) {
	for _, o := range c.Parts {
		names = append(names, o.Key)
	}
	if c.Rest != nil {
		names = append(names, c.Rest.Key)
	}
	return names
}

func (s *Store) load(ctx context.Context, key string) (c checkpoint, info Info, err error) {
	info, err = s.GetJSON(ctx, beside(key), &c)
	return c, info, err
}

// statUpload describes an upload. Where a writer has died before its first checkpoint, there are parts
// alone.
func (s *Store) statUpload(ctx context.Context, key string) (storage.Info, error) {
	c, info, err := s.load(ctx, key)
	if !errors.Is(err, storage.ErrNotExist) {
		return storage.Info{Key: key, Size: c.size(), Modified: info.Modified}, err
	}
	left := storage.Info{Key: key}
	for o, err := range s.Client.List(ctx, beside(key)+".", ListOptions{}) {
		if err != nil {
			return left, err
		}
		left.Size += o.Size
		if o.Modified.After(left.Modified) {
			left.Modified = o.Modified
		}
	}
	if left.Modified.IsZero() {
		return left, storage.ErrNotExist
	}
	return left, nil
}

// deleteUpload removes an upload under its holder, if there is one.
func (s *Store) deleteUpload(ctx context.Context, key string, before time.Time) error {
	names := []string{beside(key)}
	for o, err := range s.Client.List(ctx, beside(key)+".", ListOptions{}) {
		if err != nil {
			return err
		}
		names = append(names, o.Key)
	}
	return s.deleteMany(ctx, names, &WriteOptions{Before: before})
}
