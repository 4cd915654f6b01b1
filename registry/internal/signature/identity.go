package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"slipway/registry/internal/pattern"
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
	parsed, err := root.NewTrustedRootProtobuf(content)
	if err == nil && parsed.MediaType == "" {
		err = errors.New("it has no mediaType")
	}
	if err != nil {
		return nil, fmt.Errorf("is no trusted root of Sigstore: %w", err)
	}
	trusted, err := root.NewTrustedRootFromProtobuf(parsed)
	switch {
	case err != nil:
		return nil, fmt.Errorf("is no trusted root of Sigstore: %w", err)
	case len(trusted.FulcioCertificateAuthorities()) == 0:
		return nil, errors.New("names no certificate authority")
	case !dates(trusted):
		return nil, errors.New("names no timestamp authority and no log of Rekor 1, which dates its entries: nothing can prove when a certificate was used")
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

// dates reports whether something in the root can date a signature: a timestamp authority, or a log of Rekor 1, whose ID is
// the hash of its key. Logs of Rekor 2 have other IDs, and date nothing.
func dates(trusted *root.TrustedRoot) bool {
	for _, log := range trusted.RekorLogs() {
		key, err := x509.MarshalPKIXPublicKey(log.PublicKey)
		if id := sha256.Sum256(key); err == nil && bytes.Equal(id[:], log.ID) {
			return true
		}
	}
	return len(trusted.TimestampingAuthorities()) > 0
}

// verify returns why no identity has signed the artifact, or nil if one has.
func (i *Identities) verify(artifact []byte, b *protobundle.Bundle) error {
	if err := checkBounds(b); err != nil {
		return err
	}
	signed, err := bundle.NewBundle(b)
	if err != nil {
		return err
	}
	_, err = i.verifier.Verify(signed, verify.NewPolicy(verify.WithArtifact(bytes.NewReader(artifact)), i.accepted...))
	return err
}
