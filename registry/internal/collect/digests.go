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

// references is what a manifest needs, and its subject.
type references struct {
	needs      []id
	subject    id
	hasSubject bool
}

// digests numbers digests, in some 45 bytes each, and remembers what is known of them. A
// digest of another algorithm than sha256 goes by the sha256 of its text. It is safe for
// concurrent use.
type digests struct {
	mu    sync.Mutex
	table []uint32 // number + 1, open addressing
	keys  []*[chunk][sha256.Size]byte
	notes []*[chunk]uint8 // what is known of each
	n     uint32
	// others are those that their key does not tell.
	others map[id]oci.Digest
	// refs are those of the manifests that were read. A digest fixes them, so each is read
	// once in a run.
	refs map[id]references
}

const chunk = 1 << 13

func newDigests() *digests {
	return &digests{table: make([]uint32, chunk), others: map[id]oci.Digest{}, refs: map[id]references{}}
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
		s.keys = append(s.keys, new([chunk][sha256.Size]byte))
		s.notes = append(s.notes, new([chunk]uint8))
	}
	i := s.n
	*s.key(i) = key
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

// digest is the one with the number.
func (s *digests) digest(i id) oci.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.others[i]; ok {
		return d
	}
	return oci.SHA256.Digest(s.key(i)[:])
}

// key, slot and grow need s.mu.
func (s *digests) key(i id) *[sha256.Size]byte { return &s.keys[i/chunk][i%chunk] }

// mark notes something of a number.
func (s *digests) mark(i id, what uint8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[i/chunk][i%chunk] |= what
}

// what says why the bytes of a digest stay, 0 if they do not.
func (s *digests) what(i id) uint8 { return s.all(i) & isKept }

// is says whether one thing is known of a digest.
func (s *digests) is(i id, what uint8) bool { return s.all(i)&what != 0 }

func (s *digests) all(i id) uint8 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notes[i/chunk][i%chunk]
}

// marked is how many digests stay.
func (s *digests) marked() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.n {
		if s.notes[i/chunk][i%chunk]&isKept != 0 {
			n++
		}
	}
	return n
}

// references returns what is known of a manifest. Nobody changes it.
func (s *digests) references(i id) (refs references, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refs, known = s.refs[i]
	return refs, known
}

// refer notes what a manifest needs.
func (s *digests) refer(i id, refs references) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refs[i] = refs
}

// slot is where key is in the table, or would be. Digests are spread evenly
// already; whoever makes some that are not pays for each with 2³² hashes.
func (s *digests) slot(key *[sha256.Size]byte) uint32 {
	mask := uint32(len(s.table) - 1)
	for slot := binary.LittleEndian.Uint32(key[8:]) & mask; ; slot = (slot + 1) & mask {
		if i := s.table[slot]; i == 0 || *s.key(i - 1) == *key {
			return slot
		}
	}
}

func (s *digests) grow() {
	s.table = make([]uint32, 2*len(s.table))
	for i := range s.n {
		s.table[s.slot(s.key(i))] = i + 1
	}
}
