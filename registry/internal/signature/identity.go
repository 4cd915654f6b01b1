package signature

import (
	"bytes"
	"errors"
	"fmt"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/proto"

	"slipway/registry/internal/pattern"
)

// Bounds of the certificate, log entries and timestamps of a bundle, in bytes. sigstore-go verifies some of them by keys in them before it
// asks whether the root trusts them, in a time that grows with the square of the size.
const (
	maxMaterial = 24 << 10 // of all of them
	maxPart     = 8 << 10  // of the largest
)

// Identity selects certificates by patterns of the issuer of the login and of the subject, which is an e-mail address or a URL.
type Identity struct{ Issuer, Subject string }

// Identities verifies signatures by certificates. It is safe for concurrent use.
type Identities struct {
	verifier *verify.Verifier
	accepted []verify.PolicyOption
}

// NewIdentities reads the trusted root of a Sigstore deployment, in the format of trusted_root.json. A signature counts if a
// certificate authority of the root certified one of the identities, valid at the time that a log or timestamp authority of the root has
// signed. A root with transparency logs demands an entry in one of them, a root with logs of certificates an entry there.
// The error continues a sentence that begins with the path of the root.
func NewIdentities(content []byte, identities []Identity) (*Identities, error) {
	trusted, err := root.NewTrustedRootFromJSON(content)
	if err != nil {
		return nil, fmt.Errorf("is no trusted root of Sigstore: %w", err)
	}
	options := []verify.VerifierOption{verify.WithObserverTimestamps(1), verify.WithoutStatementPredicate()}
	if len(trusted.RekorLogs()) > 0 {
		options = append(options, verify.WithTransparencyLog(1))
	}
	if len(trusted.CTLogs()) > 0 {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	ids := &Identities{}
	if ids.verifier, err = verify.NewVerifier(trusted, options...); err != nil {
		return nil, err
	}
	for _, i := range identities {
		c, err := verify.NewShortCertificateIdentity("", pattern.Value(i.Issuer).String(), "", pattern.Value(i.Subject).String())
		if err != nil {
			return nil, err
		}
		ids.accepted = append(ids.accepted, verify.WithCertificateIdentity(c))
	}
	return ids, nil
}

// verify returns Verified if one of the identities has signed the statement, else Unverified with the cause.
func (i *Identities) verify(s statement) Result {
	var b *bundle.Bundle
	err := checkBounds(s.bundle.GetVerificationMaterial())
	if err == nil {
		b, err = bundle.NewBundle(s.bundle)
	}
	if err == nil {
		_, err = i.verifier.Verify(b, verify.NewPolicy(verify.WithArtifact(bytes.NewReader(s.artifact)), i.accepted...))
	}
	if err != nil {
		return Result{Verdict: Unverified, Cause: fmt.Sprintf("%.300s", err)}
	}
	return Result{Verdict: Verified}
}

// checkBounds refuses what may take longer to verify than genuine bundles: they have one certificate, and some 10 KiB beside the statement.
func checkBounds(m *protobundle.VerificationMaterial) error {
	certificate := len(m.GetCertificate().GetRawBytes())
	largest := certificate
	for _, t := range m.GetTimestampVerificationData().GetRfc3161Timestamps() {
		largest = max(largest, len(t.GetSignedTimestamp()))
	}
	for _, e := range m.GetTlogEntries() {
		largest = max(largest, len(e.GetCanonicalizedBody()))
	}
	switch size := proto.Size(m); {
	case certificate == 0:
		return errors.New("the bundle has no certificate, or a chain of them")
	case size > maxMaterial || largest > maxPart:
		return fmt.Errorf("the bundle has %d bytes beside its statement, at most %d in a part; more than %d or %d are not read", size, largest, maxMaterial, maxPart)
	}
	return nil
}
