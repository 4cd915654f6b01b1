package collect

import (
	"crypto/sha256"
	"encoding/binary"
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

// digests numbers digests, in some 45 bytes each, and remembers what is known of them. A
// digest of another algorithm than sha256 goes by the sha256 of its text. It is safe for
// concurrent use.
type digests struct {
	mu     sync.Mutex
	table  []uint32 // number + 1, open addressing: a map takes twice the memory
	chunks []*[chunk]entry
	n      uint32
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

const chunk = 1 << 13

func newDigests() *digests {
	return &digests{table: make([]uint32, chunk), others: map[id]oci.Digest{}, refs: map[id]*references{}}
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
	slot := s.slot(&key)
	if s.table[slot] != 0 {
		return s.table[slot] - 1
	}
	if s.n%chunk == 0 {
		s.chunks = append(s.chunks, new([chunk]entry))
	}
	i := s.n
	s.entry(i).key = key
	if d.Algorithm() != oci.SHA256 {
		s.others[i] = d
	}
	s.n++
	s.table[slot] = s.n
	if uint64(s.n)*4 > uint64(len(s.table))*3 {
		s.grow()
	}
	return i
}

// entry, slot and grow need s.mu.
func (s *digests) entry(i id) *entry { return &s.chunks[i/chunk][i%chunk] }

// slot is where key is in the table, or would be. Digests are spread evenly
// already; whoever makes some that are not pays for each with 2³² hashes.
func (s *digests) slot(key *[sha256.Size]byte) uint32 {
	mask := uint32(len(s.table) - 1)
	for slot := binary.LittleEndian.Uint32(key[8:]) & mask; ; slot = (slot + 1) & mask {
		if i := s.table[slot]; i == 0 || s.entry(i-1).key == *key {
			return slot
		}
	}
}

func (s *digests) grow() {
	s.table = make([]uint32, 2*len(s.table))
	for i := range s.n {
		s.table[s.slot(&s.entry(i).key)] = i + 1
	}
}

// digest is the one with the number.
func (s *digests) digest(i id) oci.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.others[i]; ok {
		return d
	}
	return oci.SHA256.Digest(s.entry(i).key[:])
}

// mark notes something of numbers.
func (s *digests) mark(what uint8, of ...id) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range of {
		s.entry(i).what |= what
	}
}

// known returns what was noted of a number.
func (s *digests) known(i id) uint8 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entry(i).what
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
	for i := range s.n {
		if s.entry(i).what&isKept != 0 {
			n++
		}
	}
	return n
}
