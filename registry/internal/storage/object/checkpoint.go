package object

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/storage"
)

// checkpoint says what an upload has. It is only ever replaced by who has read it, which
// fences the holder before.
type checkpoint struct {
	Holder  string
	Parts   []Source // objects in the bucket, each as large as a part has to be
	Rest    []Source `json:",omitempty"` // what follows them, if it is smaller than that: one or none
	Tail    []byte   `json:",omitempty"` // or if it is little
	Local   int64    `json:",omitempty"` // or in this machine's spool
	Old     []string `json:",omitempty"` // objects that are not needed any more
	State   []byte   `json:",omitempty"`
	Hashed  int64    `json:",omitempty"` // of how many bytes State is
	Boot    string   `json:",omitempty"` // of this machine, when Local was written
	Placing bool     `json:",omitempty"` // it is being put in place, and nobody may take it over
}

// maxTail is how much a checkpoint takes in itself.
const maxTail = 64 << 10

func sum(sources []Source) (n int64) {
	for _, s := range sources {
		n += s.Size
	}
	return n
}

func (c *checkpoint) size() int64 {
	return sum(c.Parts) + sum(c.Rest) + int64(len(c.Tail)) + c.Local
}

// state is what the last holder knew of all bytes.
func (c *checkpoint) state() []byte {
	if c.Hashed != c.size() {
		return nil
	}
	return c.State
}

// beside is the prefix of what an upload has in the bucket, a name that no valid key has.
func beside(key string) string { return path.Join(path.Dir(key), "."+path.Base(key))[1:] }

// names returns all objects of an upload but the checkpoint.
func (c *checkpoint) names() []string {
	names := slices.Clone(c.Old)
	for _, o := range slices.Concat(c.Parts, c.Rest) {
		names = append(names, o.Key)
	}
	return names
}

// shelf keeps checkpoints. Save replaces one if it has that version, "" for none.
type shelf interface {
	load(ctx context.Context, key string) (checkpoint, string, time.Time, error)
	save(ctx context.Context, key string, c checkpoint, version string, before time.Time) (next string, err error)
	remove(ctx context.Context, key string, before time.Time) error
}

// bucketShelf keeps them in the bucket, for all processes.
type bucketShelf struct{ s *Store }

func (b bucketShelf) load(ctx context.Context, key string) (c checkpoint, version string, modified time.Time, err error) {
	info, err := b.s.GetJSON(ctx, beside(key), &c)
	if err == nil && c.Placing {
		err = storage.ErrNotExist
	}
	return c, info.Version, info.Modified, err
}

func (b bucketShelf) save(ctx context.Context, key string, c checkpoint, version string, before time.Time) (string, error) {
	how := &Change{If: storage.IfAbsent(), Before: before, Versioned: true}
	if version != "" {
		how.If = storage.IfVersion(version)
	}
	return b.s.PutJSON(ctx, beside(key), c, how)
}

func (b bucketShelf) remove(ctx context.Context, key string, before time.Time) error {
	return b.s.Delete(ctx, beside(key), &Change{Before: before})
}

// localShelf keeps them in the spool, for this process and the one after it.
type localShelf struct{ s *Store }

// file is where the spool has an upload.
func (l localShelf) file(key, kind string) string {
	name := sha256.Sum256([]byte(l.s.root + key))
	return filepath.Join(l.s.o.Spool, hex.EncodeToString(name[:])+kind)
}

func (l localShelf) load(_ context.Context, key string) (c checkpoint, version string, modified time.Time, err error) {
	name := l.file(key, ".json")
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return c, "", modified, storage.ErrNotExist
	}
	if err == nil {
		err = json.Unmarshal(content, &c)
	}
	data, statErr := os.Stat(l.file(key, ".data"))
	if err != nil || statErr != nil || data.Size() < c.Local {
		return checkpoint{}, "", modified, storage.ErrNotExist // nothing to continue from
	}
	if c.Local > 0 && (c.Boot == "" || c.Boot != boot()) {
		c.State = nil // the file may hold other bytes after a power loss
	}
	return c, c.Holder, data.ModTime(), nil
}

// boot names the time since this machine was started, "" where that is not known.
var boot = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // Linux
	return strings.TrimSpace(string(id))
})

func (l localShelf) save(_ context.Context, key string, c checkpoint, _ string, _ time.Time) (string, error) {
	c.Boot = boot()
	content, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	name := l.file(key, ".json")
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		return "", spoolError(err)
	}
	return c.Holder, spoolError(os.Rename(name+".new", name))
}

func (l localShelf) remove(_ context.Context, key string, _ time.Time) error {
	err := errors.Join(os.Remove(l.file(key, ".json")), os.Remove(l.file(key, ".data")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return spoolError(err)
}
