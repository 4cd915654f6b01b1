package signature

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"

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

	// The same for certificates: a bundle, and what its statement or signature is about. nil if there is none.
	bundle   *protobundle.Bundle
	artifact []byte
}

// readSimple reads the payload of a simple signing layer; see cosign's specs/SIGNATURE_SPEC.md. The docker-reference in it names no
// repository that anyone must pull from, so only the digest counts.
func readSimple(payload []byte, annotations map[string]string) (statement, error) {
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
	signature, err := base64.StdEncoding.DecodeString(annotations[annotationSignature])
	if err != nil {
		return statement{}, err
	}
	return statement{
		signed: payload, signatures: [][]byte{signature}, image: p.Critical.Type == simpleKind,
		about:  func(d oci.Digest) bool { return p.Critical.Image.Digest == d },
		bundle: newBundle(payload, signature, annotations), artifact: payload,
	}, nil
}

// readBundle reads a Sigstore bundle with a signed in-toto statement about a manifest.
func readBundle(content, manifest []byte) (statement, error) {
	b := &protobundle.Bundle{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(content, b); err != nil {
		return statement{}, err
	}
	e := b.GetDsseEnvelope()
	if e == nil || e.PayloadType != typeStatement {
		return statement{}, errors.New("a bundle without a statement")
	}
	s, err := readStatement(e.Payload)
	s.bundle, s.artifact = b, manifest
	s.signed = fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
	for _, sig := range e.Signatures[:min(len(e.Signatures), maxSignatures)] {
		s.signatures = append(s.signatures, sig.Sig)
	}
	return s, err
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
