package oci

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"strings"
)

// Algorithm is a digest algorithm registered by the OCI image specification.
type Algorithm string

// Algorithms this registry accepts. SHA256 is the canonical one: the only
// algorithm that both lines of CNCF distribution store blobs under.
const (
	SHA256 Algorithm = "sha256"
	SHA384 Algorithm = "sha384"
	SHA512 Algorithm = "sha512"
)

const unsupportedAlgorithm = "unsupported digest algorithm"

// ParseAlgorithm accepts the algorithms above. The error is an *Error with
// CodeDigestInvalid.
func ParseAlgorithm(s string) (Algorithm, error) {
	a := Algorithm(s)
	if a.hexLen() == 0 {
		return "", Explain(CodeDigestInvalid, unsupportedAlgorithm)
	}
	return a, nil
}

// New returns a fresh hash of the algorithm.
func (a Algorithm) New() hash.Hash {
	switch a {
	case SHA384:
		return sha512.New384()
	case SHA512:
		return sha512.New()
	default:
		return sha256.New()
	}
}

func (a Algorithm) hexLen() int {
	switch a {
	case SHA256:
		return 64
	case SHA384:
		return 96
	case SHA512:
		return 128
	default:
		return 0
	}
}

// Digest identifies content: "<algorithm>:<lower-case hex>". A value made by
// ParseDigest or FromBytes is well formed and safe inside a storage path.
type Digest string

// ParseDigest checks algorithm, length and alphabet. The error is an *Error
// with CodeDigestInvalid.
func ParseDigest(s string) (Digest, error) {
	if problem := digestProblem(s); problem != "" {
		return "", Explain(CodeDigestInvalid, problem)
	}
	return Digest(s), nil
}

// digestProblem describes what keeps s from being a digest, "" if nothing does.
func digestProblem(s string) string {
	alg, enc, ok := strings.Cut(s, ":")
	if !ok {
		return "digest must be <algorithm>:<hex>"
	}
	length := Algorithm(alg).hexLen()
	if length == 0 {
		return unsupportedAlgorithm
	}
	if len(enc) != length {
		return "invalid checksum digest length"
	}
	for i := range len(enc) {
		if c := enc[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "invalid checksum digest format"
		}
	}
	return ""
}

// FromBytes returns the digest of b.
func (a Algorithm) FromBytes(b []byte) Digest {
	if a == SHA256 {
		sum := sha256.Sum256(b)
		return a.Digest(sum[:])
	}
	h := a.New()
	h.Write(b)
	return a.Digest(h.Sum(nil))
}

// Digest formats a finished sum.
func (a Algorithm) Digest(sum []byte) Digest {
	buf := make([]byte, 0, len(a)+1+2*len(sum))
	buf = append(buf, a...)
	buf = append(buf, ':')
	return Digest(hex.AppendEncode(buf, sum))
}

// Algorithm is the part before the colon.
func (d Digest) Algorithm() Algorithm {
	a, _, _ := strings.Cut(string(d), ":")
	return Algorithm(a)
}

// Hex is the part after the colon.
func (d Digest) Hex() string {
	_, h, _ := strings.Cut(string(d), ":")
	return h
}

// Empty is the digest of zero bytes under the algorithm of d.
func (d Digest) Empty() bool { return d == d.Algorithm().FromBytes(nil) }
