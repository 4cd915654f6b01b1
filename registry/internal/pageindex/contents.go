package pageindex

import (
	"errors"
	"hash/maphash"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// Repository is the entry of a repository in the index.
type Repository struct {
	Name      oci.Name
	Tags      int
	Manifests int
	Blobs     int       // and manifests, each once
	Bytes     int64     // of them
	Own       int64     // of those that no other repository has
	Pushed    time.Time // of the storage's last write to a tag; zero = never
	Pulled    time.Time // when a manifest was last pulled; zero = unknown
	Read      time.Time // when the storage was read
}

// key stands for a digest. A collision, once in ten million storages, makes sizes wrong.
type key uint64

func (x *Index) key(d oci.Digest) key { return key(maphash.String(x.seed, string(d))) }

// blob counts the repositories that have some bytes. With one of them, owners is its ID.
type blob struct {
	size   int64
	owners uint32 // the IDs of the repositories that have it, by exclusive or
	count  uint32
}

// record is a repository with its blobs and manifests.
type record struct {
	Repository

	id   uint32
	keys []key
}

// contents holds repositories and their blobs.
type contents struct {
	repositories map[oci.Name]*record
	byID         map[uint32]*record
	blobs        map[key]blob
	last         uint32 // ID that was given
	links        int    // keys of all repositories
}

// Bounds of what is remembered: it takes some 80 MiB.
const (
	maxBlobs = 1 << 20
	maxLinks = 4 << 20 // of repositories to their blobs and manifests
)

var errTooMany = errors.New("the repositories have too many blobs for their sizes to be remembered")

// put replaces what is known of a repository. One that has nothing is forgotten.
func (c *contents) put(s *snapshot) error {
	r := c.repositories[s.Name]
	if r == nil {
		c.last++
		r = &record{Repository: Repository{Name: oci.Name(strings.Clone(string(s.Name)))}, id: c.last}
	}
	if c.links+len(s.sizes)-len(r.keys) > maxLinks {
		return errTooMany
	}
	c.repositories[r.Name], c.byID[r.id] = r, r
	c.links += len(s.sizes) - len(r.keys)
	own, name := r.Own, r.Name
	r.Repository = s.Repository
	r.Name, r.Own, r.Blobs = name, own, len(s.sizes)
	had := make(map[key]bool, len(r.keys))
	for _, k := range r.keys {
		had[k] = true
	}
	r.keys = make([]key, 0, len(s.sizes))
	for k, size := range s.sizes {
		r.keys, r.Bytes = append(r.keys, k), r.Bytes+size
		if !had[k] {
			c.add(k, size, r)
		}
		delete(had, k)
	}
	for k := range had {
		c.remove(k, r)
	}
	if s.Tags+s.Manifests+len(s.sizes) == 0 {
		delete(c.repositories, name)
		delete(c.byID, r.id)
	}
	return nil
}

func (c *contents) add(k key, size int64, r *record) {
	b := c.blobs[k]
	if b.count == 0 {
		b.size = size
		r.Own += size
	}
	if b.count == 1 {
		c.byID[b.owners].Own -= b.size
	}
	b.owners, b.count = b.owners^r.id, b.count+1
	c.blobs[k] = b
}

func (c *contents) remove(k key, r *record) {
	b := c.blobs[k]
	if b.count == 1 {
		r.Own -= b.size
		delete(c.blobs, k)
		return
	}
	b.owners, b.count = b.owners^r.id, b.count-1
	if b.count == 1 {
		c.byID[b.owners].Own += b.size
	}
	c.blobs[k] = b
}
