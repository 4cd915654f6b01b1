package signature

import (
	"encoding/json"
	"fmt"
	"slices"

	"slipway/registry/internal/oci"
)

// Types of what cosign attaches.
const (
	typeSimple    = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeStatement = "application/vnd.in-toto+json"
	typeEnvelope  = "application/vnd.dsse.envelope.v1+json"
	typeBundle    = "application/vnd.dev.sigstore.bundle.v0.3+json"

	annotationSignature = "dev.cosignproject.cosign/signature"
	predicateSignature  = "https://sigstore.dev/cosign/sign/v1"
	simpleKind          = "cosign container image signature"
)

// statement holds the claim of a signature about an image.
type statement struct {
	signed     []byte   // the bytes that are signed
	signatures [][]byte // any of them
	image      bool     // it states that the image is signed; an attestation states something else
	about      func(oci.Digest) bool
}

// readSimple reads the payload of a simple signing layer; see cosign's specs/SIGNATURE_SPEC.md. The docker-reference in it names no
// repository that anyone must pull from, so only the digest counts.
func readSimple(payload, signature []byte) (statement, error) {
	var p struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest oci.Digest `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return statement{}, err
	}
	return statement{
		signed: payload, signatures: [][]byte{signature}, image: p.Critical.Type == simpleKind,
		about: func(d oci.Digest) bool { return p.Critical.Image.Digest == d },
	}, nil
}

// readBundle reads a Sigstore bundle with a signed in-toto statement, or with a signature of the manifest's bytes.
func readBundle(content, manifest []byte) (statement, error) {
	var b struct {
		Envelope *struct {
			Payload     []byte `json:"payload"`
			PayloadType string `json:"payloadType"`
			Signatures  []struct {
				Sig []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
		Message *struct {
			Signature []byte `json:"signature"`
		} `json:"messageSignature"`
	}
	if err := json.Unmarshal(content, &b); err != nil {
		return statement{}, err
	}
	switch e := b.Envelope; {
	case e != nil && b.Message == nil && e.PayloadType == typeStatement:
		s, err := readStatement(e.Payload)
		s.signed = fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
		for i := range e.Signatures[:min(len(e.Signatures), maxSignatures)] {
			s.signatures = append(s.signatures, e.Signatures[i].Sig)
		}
		return s, err
	case e == nil && b.Message != nil:
		about := func(d oci.Digest) bool { return d.Algorithm().FromBytes(manifest) == d }
		return statement{signed: manifest, signatures: [][]byte{b.Message.Signature}, image: true, about: about}, nil
	}
	return statement{}, fmt.Errorf("a bundle without a statement or a signature")
}

func readStatement(payload []byte) (statement, error) {
	var p struct {
		Predicate string `json:"predicateType"`
		Subject   []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return statement{}, err
	}
	about := func(d oci.Digest) bool {
		for _, s := range p.Subject {
			if s.Digest[string(d.Algorithm())] == d.Hex() {
				return true
			}
		}
		return false
	}
	return statement{image: p.Predicate == predicateSignature, about: about}, nil
}

// signedBy reports whether one of the keys has signed the statement.
func (s *statement) signedBy(keys []Key) bool {
	return slices.ContainsFunc(s.signatures, func(sig []byte) bool {
		return slices.ContainsFunc(keys, func(k Key) bool { return k.verifies(s.signed, sig) })
	})
}
