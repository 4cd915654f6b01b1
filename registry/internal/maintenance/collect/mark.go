package collect

import (
	"crypto/sha256"
	"encoding/hex"

	"slipway/registry/internal/oci"
)

// reason is a set of reasons why bytes stay.
type reason uint8

const (
	inUse      reason = 1 << iota // a manifest needs them to which a tag leads
	byUntagged                    // a manifest needs them to which none leads
	restorable                    // a manifest needs them that was deleted and can be restored
	recent                        // a client may rely on them
	unreadable                    // a repository that is skipped may need them
)

// marks are the digests whose bytes stay, by their hash: a large registry has
// millions, and their text would take three times the memory.
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
