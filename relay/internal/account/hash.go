package account

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// argonHash is a parsed hash.
type argonHash struct {
	time, memory, threads int
	salt, key             []byte
}

// Bounds of hashes that are verified: an imported one may ask for more memory than the machine has.
const (
	maxArgonMemory = 256 << 10 // KiB
	maxArgonTime   = 32
)

// parse reads $argon2id$v=19$m=…,t=…,p=…$salt$key.
func parse(hash string) (h argonHash, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return h, errors.New("a stored password hash is not argon2id")
	}
	var version int
	_, err = fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &h.memory, &h.time, &h.threads)
	if err == nil {
		h.salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	}
	if err == nil {
		h.key, err = base64.RawStdEncoding.DecodeString(parts[5])
	}
	if err != nil {
		return h, fmt.Errorf("a stored password hash cannot be read: %w", err)
	}
	if version != argon2.Version || h.memory < 8 || h.memory > maxArgonMemory || h.time < 1 || h.time > maxArgonTime ||
		h.threads < 1 || h.threads > 255 || len(h.salt) < 8 || len(h.salt) > 64 || len(h.key) < 16 || len(h.key) > 64 {
		return h, errors.New("a stored password hash has parameters out of bounds")
	}
	return h, nil
}

// usable reports whether a hash can be verified.
func usable(hash string) bool {
	_, err := parse(hash)
	return err == nil
}

// foreign reports whether a hash has other parameters than new ones.
func (h *hasher) foreign(hash string) bool {
	p, err := parse(hash)
	return err == nil && (p.memory != h.memory || p.time != argonTime || p.threads != argonThreads)
}
