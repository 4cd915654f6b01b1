package index

import (
	"encoding/binary"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// put replaces what is known of a repository. One that has nothing is forgotten.
func (x *Index) put(s *snapshot) error {
	return x.update(func(tx *bolt.Tx) error {
		w := writer{tx: tx, changed: map[uint64]int64{}}
		r, err := w.repository(s)
		if err != nil {
			return err
		}
		if err := w.contents(&r, s); err != nil {
			return err
		}
		r.Own += w.changed[r.id]
		delete(w.changed, r.id)
		if s.Tags+s.Manifests+len(s.contents) == 0 {
			if err = tx.Bucket(repositoriesBucket).Delete([]byte(s.Name)); err == nil {
				err = tx.Bucket(metaBucket).Delete(idKey(r.id))
			}
		} else {
			err = tx.Bucket(repositoriesBucket).Put([]byte(s.Name), r.encode())
		}
		if err != nil {
			return err
		}
		return w.others()
	})
}

// writer is one change of the file.
type writer struct {
	tx      *bolt.Tx
	changed map[uint64]int64 // bytes of their own that repositories get or lose, by ID
}

// repository is the new record, with the ID and the own bytes of the old one.
func (w *writer) repository(s *snapshot) (r repositoryRecord, err error) {
	r = decodeRepository([]byte(s.Name), w.tx.Bucket(repositoriesBucket).Get([]byte(s.Name)))
	if r.id == 0 {
		meta := w.tx.Bucket(metaBucket)
		if r.id, err = meta.NextSequence(); err != nil {
			return r, err
		}
		if err := meta.Put(idKey(r.id), []byte(s.Name)); err != nil {
			return r, err
		}
	}
	own := r.Own
	r.Repository = s.Repository
	r.Blobs, r.Own = len(s.contents), own
	for _, size := range s.contents {
		r.Bytes += size
	}
	return r, nil
}

func idKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte("id"), id) }

// contents compares what the repository has with what it had.
func (w *writer) contents(r *repositoryRecord, s *snapshot) error {
	old := w.tx.Bucket(contentsBucket).Get([]byte(s.Name))
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
		return w.tx.Bucket(contentsBucket).Delete([]byte(s.Name))
	}
	return w.tx.Bucket(contentsBucket).Put([]byte(s.Name), now)
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
