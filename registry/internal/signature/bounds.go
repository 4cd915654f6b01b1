package signature

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// Bounds of a bundle. sigstore-go decodes its parts, and verifies some by keys in them, before it asks whether the root trusts them.
const (
	maxProofs    = 4        // log entries, and timestamps
	maxPart      = 16 << 10 // bytes of a certificate, log entry, checkpoint or timestamp
	maxNested    = 32       // elements of DER in each other
	maxBitString = 600      // bytes in DER; an RSA key of 4096 bits has 527
)

// constructed marks elements of DER that contain others.
const constructed = 0x20

// checkBounds returns why a bundle may cost more to verify than a genuine one, or nil.
func checkBounds(b *protobundle.Bundle) error {
	material := b.GetVerificationMaterial()
	certificate := material.GetCertificate().GetRawBytes()
	if chain := material.GetX509CertificateChain().GetCertificates(); len(chain) > 0 {
		certificate = chain[0].GetRawBytes()
	}
	if len(certificate) == 0 {
		return errors.New("the bundle has no certificate")
	}
	entries, timestamps := material.GetTlogEntries(), material.GetTimestampVerificationData().GetRfc3161Timestamps()
	if len(entries) > maxProofs || len(timestamps) > maxProofs {
		return fmt.Errorf("more than %d log entries or timestamps", maxProofs)
	}
	if err := checkPart(certificate); err != nil {
		return fmt.Errorf("the certificate %w", err)
	}
	for _, t := range timestamps {
		if err := checkPart(t.GetSignedTimestamp()); err != nil {
			return fmt.Errorf("a timestamp %w", err)
		}
		if !hasOneSigner(t.GetSignedTimestamp()) {
			return errors.New("a timestamp doesn't have one signer")
		}
	}
	for _, e := range entries {
		if len(e.GetCanonicalizedBody()) > maxPart || len(e.GetInclusionProof().GetCheckpoint().GetEnvelope()) > maxPart {
			return fmt.Errorf("a log entry is larger than %d bytes", maxPart)
		}
		if err := checkBody(e.GetCanonicalizedBody(), certificate); err != nil {
			return fmt.Errorf("a log entry %w", err)
		}
	}
	return nil
}

func checkPart(der []byte) error {
	if len(der) > maxPart {
		return fmt.Errorf("is larger than %d bytes", maxPart)
	}
	return checkDER(der, maxNested)
}

// checkDER refuses other encodings of ASN.1, such as those of indefinite length, and keys that are too large.
func checkDER(der cryptobyte.String, depth int) error {
	for !der.Empty() {
		var content cryptobyte.String
		var tag asn1.Tag
		if !der.ReadAnyASN1(&content, &tag) {
			return errors.New("is not in DER")
		}
		if tag == asn1.BIT_STRING && len(content) > maxBitString {
			return errors.New("has a key of more than 4096 bits")
		}
		if tag&constructed == 0 {
			continue
		}
		if depth == 0 {
			return fmt.Errorf("is nested deeper than %d elements", maxNested)
		}
		if err := checkDER(content, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// hasOneSigner reports whether a response of RFC 3161 has one signature, as all have. Each would be verified.
func hasOneSigner(der cryptobyte.String) bool {
	var response, token, content, signed, signers cryptobyte.String
	zero := asn1.Tag(0).ContextSpecific().Constructed()
	one := asn1.Tag(1).ContextSpecific().Constructed()
	return der.ReadASN1(&response, asn1.SEQUENCE) && response.SkipASN1(asn1.SEQUENCE) && response.ReadASN1(&token, asn1.SEQUENCE) &&
		token.SkipASN1(asn1.OBJECT_IDENTIFIER) && token.ReadASN1(&content, zero) && content.ReadASN1(&signed, asn1.SEQUENCE) &&
		signed.SkipASN1(asn1.INTEGER) && signed.SkipASN1(asn1.SET) && signed.SkipASN1(asn1.SEQUENCE) &&
		signed.SkipOptionalASN1(zero) && signed.SkipOptionalASN1(one) && signed.ReadASN1(&signers, asn1.SET) &&
		signers.SkipASN1(asn1.SEQUENCE) && signers.Empty()
}

// checkBody refuses the body of a log entry with a key other than the certificate, or with contents, which a log leaves out. Both would
// be verified. It looks at each string, wherever the JSON has it.
func checkBody(body, certificate []byte) error {
	tokens := json.NewDecoder(bytes.NewReader(body))
	for {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("is not in JSON: %w", err)
		}
		text, _ := token.(string)
		if strings.EqualFold(text, "proposedContent") || strings.EqualFold(text, "payload") {
			return errors.New("has contents")
		}
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || !bytes.Contains(key, []byte("-----BEGIN")) {
			continue
		}
		if block, rest := pem.Decode(bytes.TrimSpace(key)); block == nil || len(rest) > 0 || !bytes.Equal(block.Bytes, certificate) {
			return errors.New("has another key than that of the certificate")
		}
	}
}
