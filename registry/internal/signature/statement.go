package signature

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
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

// statement states that an image is signed. Nothing proves it yet.
type statement struct {
	signed, signature []byte

	// The same for certificates: a bundle, and what its statement or signature is about. nil if there is none.
	bundle   *protobundle.Bundle
	artifact []byte
}

// signedBy reports whether one of the keys has signed the statement.
func (s *statement) signedBy(keys []Key) bool {
	return slices.ContainsFunc(keys, func(k Key) bool { return k.verifies(s.signed, s.signature) })
}

// readSimple reads the payload of a simple signing layer; see cosign's specs/SIGNATURE_SPEC.md. ok is false if it doesn't sign the image.
// The docker-reference in it names no repository that anyone must pull from, so only the digest counts.
func readSimple(payload []byte, annotations map[string]string, image *registry.Manifest) (s statement, ok bool) {
	var p struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest oci.Digest `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	signature, err := base64.StdEncoding.DecodeString(annotations[annotationSignature])
	if err != nil || json.Unmarshal(payload, &p) != nil || p.Critical.Type != simpleKind || p.Critical.Image.Digest != image.Digest {
		return s, false
	}
	return statement{payload, signature, newBundle(payload, signature, annotations), payload}, true
}

// readBundle reads a Sigstore bundle with a signed in-toto statement. ok is false if that isn't a signature of the image: an attestation
// states something else.
func readBundle(content []byte, image *registry.Manifest) (s statement, ok bool) {
	b := &protobundle.Bundle{}
	if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(content, b) != nil {
		return s, false
	}
	var p struct {
		Predicate string `json:"predicateType"`
		Subject   []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	e := b.GetDsseEnvelope()
	if e.GetPayloadType() != typeStatement || len(e.GetSignatures()) != 1 || json.Unmarshal(e.GetPayload(), &p) != nil || p.Predicate != predicateSignature {
		return s, false
	}
	for _, subject := range p.Subject {
		ok = ok || subject.Digest[string(image.Digest.Algorithm())] == image.Digest.Hex()
	}
	return statement{dsse.PAE(e.GetPayloadType(), e.GetPayload()), e.GetSignatures()[0].GetSig(), b, image.Bytes}, ok
}
