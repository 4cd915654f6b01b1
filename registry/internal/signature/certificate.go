package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
)

// Annotations of cosign 2 beside a signature by a certificate: the certificate in PEM, the log's entry, and a timestamp, both in JSON.
const (
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationEntry       = "dev.sigstore.cosign/bundle"
	annotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
)

// newBundle converts a signature of cosign 2, with the annotations of its layer, to a bundle. It returns nil if there is no certificate, and
// leaves out an entry or timestamp that can't be read.
func newBundle(payload, signature []byte, annotations map[string]string) *protobundle.Bundle {
	block, _ := pem.Decode([]byte(annotations[annotationCertificate]))
	if block == nil {
		return nil
	}
	material := &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: block.Bytes}},
	}
	var p struct {
		SignedEntryTimestamp, SignedRFC3161Timestamp []byte

		Payload struct {
			Body                     []byte
			IntegratedTime, LogIndex int64
			LogID                    string
		}
	}
	_ = json.Unmarshal([]byte(annotations[annotationEntry]), &p)
	_ = json.Unmarshal([]byte(annotations[annotationTimestamp]), &p)
	if p.SignedEntryTimestamp != nil {
		id, _ := hex.DecodeString(p.Payload.LogID) // an unknown log's, if it is none
		material.TlogEntries = []*protorekor.TransparencyLogEntry{{
			LogIndex: p.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: id}, IntegratedTime: p.Payload.IntegratedTime,
			KindVersion:       &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.1"},
			InclusionPromise:  &protorekor.InclusionPromise{SignedEntryTimestamp: p.SignedEntryTimestamp},
			CanonicalizedBody: p.Payload.Body,
		}}
	}
	if p.SignedRFC3161Timestamp != nil {
		material.TimestampVerificationData = &protobundle.TimestampVerificationData{
			Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: p.SignedRFC3161Timestamp}},
		}
	}
	digest := sha256.Sum256(payload)
	return &protobundle.Bundle{
		MediaType: "application/vnd.dev.sigstore.bundle+json;version=0.1", VerificationMaterial: material,
		Content: &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: digest[:]}, Signature: signature,
		}},
	}
}
