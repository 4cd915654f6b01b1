package collect

import (
	"crypto/sha256"
	"encoding/hex"

	"slipway/registry/internal/oci"
)

// reason is a set of reasons why bytes stay.
type reason uint8

const (
	inUse      reason = 1 << iota // needed by a manifest that a tag leads to
	byUntagged                    // needed by a manifest that no tag leads to
	restorable                    // needed by a deleted manifest that can be restored
	recent                        // a client may rely on them
	unreadable                    // a repository that can't be read may need them
)

// marks holds why bytes stay, by the hash of their digest: a large registry has
// millions, and the digests' text would take three times the memory.
type marks map[[sha256.Size]byte]reason

func (m marks) add(why reason, all ...oci.Digest) {
	for _, d := range all {
		m[markKey(d)] |= why
	}
}

func (m marks) why(d oci.Digest) reason { return m[markKey(d)] }

func markKey(d oci.Digest) (key [sha256.Size]byte) {
	if d.Algorithm() == oci.SHA256 {
		if n, err := hex.Decode(key[:], []byte(d.Hex())); err == nil && n == len(key) {
			return key
		}
	}
	return sha256.Sum256([]byte(d))
}

// mark notes why the bytes of a manifest and of what it needs stay. It needs r.mu.
func (r *run) mark(repo *repository, rev *revision) {
	why := byUntagged
	switch {
	case repo.unreadable:
		why = unreadable
	case rev.tagged:
		why = inUse
	case rev.restorable && (rev.deleted || r.DeleteUntagged):
		why = restorable
	case r.DeleteUntagged:
		why = recent
	}
	r.marks.add(why, rev.digest)
	r.marks.add(why, rev.needs...)
}

// markLayer notes why the bytes of a linked blob stay. It needs r.mu.
func (r *run) markLayer(repo *repository, l *link) {
	why := r.marks.why(l.digest)
	switch {
	case why != 0: // as needed, or by another repository
	case repo.unreadable:
		why = unreadable
	default:
		why = recent
	}
	r.marks.add(why, l.digest, l.target)
}
