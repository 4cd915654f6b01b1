package index

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"slipway/registry/internal/oci"
)

// snapshot is a repository as it was read.
type snapshot struct {
	name      oci.Name
	read      time.Time
	tags      []Tag
	manifests int
	contents  map[key]int64 // blobs and manifests that exist, with their sizes
	news      map[key]manifest
}

// put replaces what is known of a repository. One that has nothing is forgotten.
func (x *Index) put(s *snapshot) error {
	return x.db.Update(func(tx *bolt.Tx) error {
		w := writer{tx: tx, changed: map[uint64]int64{}}
		r, err := w.repository(s)
		if err != nil {
			return err
		}
		if err := w.contents(&r, s); err != nil {
			return err
		}
		if err := w.tags(s); err != nil {
			return err
		}
		r.Own += w.changed[r.id]
		delete(w.changed, r.id)
		if len(s.tags)+s.manifests+len(s.contents) == 0 {
			if err = tx.Bucket(repositoriesBucket).Delete([]byte(s.name)); err == nil {
				err = tx.Bucket(metaBucket).Delete(idKey(r.id))
			}
		} else {
			err = tx.Bucket(repositoriesBucket).Put([]byte(s.name), r.encode())
		}
		if err != nil {
			return err
		}
		if err := w.others(); err != nil {
			return err
		}
		for k, m := range s.news {
			v, err := json.Marshal(m)
			if err == nil {
				err = tx.Bucket(manifestsBucket).Put(k[:], v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// writer is one change of the file.
type writer struct {
	tx      *bolt.Tx
	changed map[uint64]int64 // bytes of their own that repositories get or lose, by ID
}

// repository is the new record, with the ID and the own bytes of the old one.
func (w *writer) repository(s *snapshot) (r repositoryRecord, err error) {
	r = decodeRepository([]byte(s.name), w.tx.Bucket(repositoriesBucket).Get([]byte(s.name)))
	if r.id == 0 {
		meta := w.tx.Bucket(metaBucket)
		if r.id, err = meta.NextSequence(); err != nil {
			return r, err
		}
		if err := meta.Put(idKey(r.id), []byte(s.name)); err != nil {
			return r, err
		}
	}
	r.Name, r.Tags, r.Manifests, r.Blobs, r.Bytes, r.Read = s.name, len(s.tags), s.manifests, len(s.contents), 0, s.read
	r.Pushed, r.Pulled = time.Time{}, time.Time{}
	for _, t := range s.tags {
		r.Pushed, r.Pulled = later(r.Pushed, t.Pushed), later(r.Pulled, t.Pulled)
	}
	for _, size := range s.contents {
		r.Bytes += size
	}
	return r, nil
}

func idKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte("id"), id) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// contents compares what the repository has with what it had.
func (w *writer) contents(r *repositoryRecord, s *snapshot) error {
	old := w.tx.Bucket(contentsBucket).Get([]byte(s.name))
	had := make(map[key]bool, len(old)/len(key{}))
	for k := range slices.Chunk(old, len(key{})) {
		had[key(k)] = true
	}
	now := make([]byte, 0, len(s.contents)*len(key{}))
	for k, size := range s.contents {
		now = append(now, k[:]...)
		if had[k] {
			delete(had, k)
			continue
		}
		if err := w.add(k, size, r.id); err != nil {
			return err
		}
	}
	for k := range had {
		if err := w.remove(k, r.id); err != nil {
			return err
		}
	}
	if len(now) == 0 {
		return w.tx.Bucket(contentsBucket).Delete([]byte(s.name))
	}
	return w.tx.Bucket(contentsBucket).Put([]byte(s.name), now)
}

func (w *writer) add(k key, size int64, id uint64) error {
	b, _ := decodeBlob(w.tx.Bucket(blobsBucket).Get(k[:]))
	if b.count == 0 {
		b.size = size
	}
	if b.count == 1 {
		w.changed[b.owners] -= b.size
	}
	b.owners, b.count = b.owners^id, b.count+1
	if b.count == 1 {
		w.changed[id] += b.size
	}
	return w.tx.Bucket(blobsBucket).Put(k[:], b.encode())
}

func (w *writer) remove(k key, id uint64) error {
	blobs := w.tx.Bucket(blobsBucket)
	b, ok := decodeBlob(blobs.Get(k[:]))
	if !ok || b.count == 0 {
		return errForeign
	}
	if b.count == 1 {
		w.changed[id] -= b.size
		if err := w.tx.Bucket(manifestsBucket).Delete(k[:]); err != nil {
			return err
		}
		return blobs.Delete(k[:])
	}
	b.owners, b.count = b.owners^id, b.count-1
	if b.count == 1 {
		w.changed[b.owners] += b.size
	}
	return blobs.Put(k[:], b.encode())
}

// others writes what other repositories have got or lost.
func (w *writer) others() error {
	for id, n := range w.changed {
		name := w.tx.Bucket(metaBucket).Get(idKey(id))
		repositories := w.tx.Bucket(repositoriesBucket)
		r := decodeRepository(name, repositories.Get(name))
		if r.id != id || n == 0 {
			continue
		}
		r.Own += n
		if err := repositories.Put(name, r.encode()); err != nil {
			return err
		}
	}
	return nil
}

// tags replaces the tags of the repository.
func (w *writer) tags(s *snapshot) error {
	tags := w.tx.Bucket(tagsBucket)
	known := map[string]bool{}
	for i := range s.tags {
		v, err := json.Marshal(&s.tags[i])
		if err != nil {
			return err
		}
		k := tagKey(s.name, s.tags[i].Name)
		known[string(k)] = true
		if bytes.Equal(tags.Get(k), v) {
			continue
		}
		if err := tags.Put(k, v); err != nil {
			return err
		}
	}
	prefix := tagsOf(s.name)
	var gone [][]byte
	c := tags.Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if !known[string(k)] {
			gone = append(gone, bytes.Clone(k))
		}
	}
	for _, k := range gone {
		if err := tags.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
