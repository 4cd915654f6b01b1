package collect

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"slipway/registry/internal/oci"
)

// id stands for a digest within a run.
type id = uint32

// What is known of a digest.
const (
	inUse      uint8 = 1 << iota // a manifest needs it to which a tag leads
	byUntagged                   // a manifest needs it to which none leads
	recent                       // a client may rely on it
	unreadable                   // a repository that is skipped may need it
	isRevision                   // some repository has it as a manifest; see readOrphans

	isKept = inUse | byUntagged | recent | unreadable
)

// references is what a manifest needs, and its subject. Nobody changes it.
type references struct {
	needs      []id
	subject    id
	hasSubject bool
}

// digests numbers digests, in some 100 bytes each, and remembers what is known of them. A
// digest of another algorithm than sha256 goes by the sha256 of its text. It is safe for
// concurrent use.
type digests struct {
	mu     sync.Mutex
	ids    map[[sha256.Size]byte]id
	all    []entry
	others map[id]oci.Digest // those that their key does not tell
	// refs are those of the manifests that were read. A digest fixes them, so each is read
	// once in a run.
	refs map[id]*references
}

// entry is what is known of a digest.
type entry struct {
	key  [sha256.Size]byte
	what uint8
}

func newDigests() *digests {
	return &digests{ids: map[[sha256.Size]byte]id{}, others: map[id]oci.Digest{}, refs: map[id]*references{}}
}

func keyOf(d oci.Digest) (key [sha256.Size]byte) {
	if d.Algorithm() == oci.SHA256 {
		if n, err := hex.Decode(key[:], []byte(d.Hex())); err == nil && n == len(key) {
			return key
		}
	}
	return sha256.Sum256([]byte(d))
}

// add returns the number of d, a new one if need be.
func (s *digests) add(d oci.Digest) id {
	key := keyOf(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, known := s.ids[key]
	if !known {
		i = id(len(s.all))
		s.ids[key], s.all = i, append(s.all, entry{key: key})
		if d.Algorithm() != oci.SHA256 {
			s.others[i] = d
		}
	}
	return i
}

// digest is the one with the number.
func (s *digests) digest(i id) oci.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.others[i]; ok {
		return d
	}
	return oci.SHA256.Digest(s.all[i].key[:])
}

// mark notes something of numbers.
func (s *digests) mark(what uint8, of ...id) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range of {
		s.all[i].what |= what
	}
}

// known returns what was noted of a number.
func (s *digests) known(i id) uint8 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[i].what
}

// why says why the bytes of a digest stay, 0 if they do not.
func (s *digests) why(i id) uint8 { return s.known(i) & isKept }

// isRevision says whether some repository is known to have a digest as a manifest.
func (s *digests) isRevision(i id) bool { return s.known(i)&isRevision != 0 }

// refer notes what a manifest needs.
func (s *digests) refer(i id, refs *references) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refs[i] = refs
}

// references returns what is known of a manifest, nil if it was not read.
func (s *digests) references(i id) *references {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refs[i]
}

// needs is what a manifest needs, if it was read.
func (s *digests) needs(i id) []id {
	if refs := s.references(i); refs != nil {
		return refs.needs
	}
	return nil
}

// marked is how many digests stay.
func (s *digests) marked() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if s.all[i].what&isKept != 0 {
			n++
		}
	}
	return n
}
