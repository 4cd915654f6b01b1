package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	ct "github.com/google/certificate-transparency-go"
	"github.com/google/certificate-transparency-go/tls"
	"github.com/google/certificate-transparency-go/x509util"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
)

// public is a deployment with all that the public Sigstore has: its certificate authority submits to a log of certificates, too, which a
// VirtualSigstore leaves out.
type public struct {
	*deployment
	authority, intermediate *x509.Certificate
	key                     *ecdsa.PrivateKey // of the intermediate
	log                     *ecdsa.PrivateKey // of certificates
}

func newPublic(t *testing.T) *public {
	t.Helper()
	p := &public{deployment: newDeployment(t)}
	authority, key, err := ca.GenerateRootCa()
	if err != nil {
		t.Fatal(err)
	}
	p.authority = authority
	if p.intermediate, p.key, err = ca.GenerateFulcioIntermediate(authority, key); err != nil {
		t.Fatal(err)
	}
	p.log = newKey(t)
	return p
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (p *public) policy() *Policy {
	p.t.Helper()
	id, now := logID(p.t, p.log), time.Now()
	logs := map[string]*root.TransparencyLog{hex.EncodeToString(id[:]): {BaseURL: "https://ctfe.localhost", ID: id[:], HashFunc: crypto.SHA256, PublicKey: p.log.Public(), SignatureHashFunc: crypto.SHA256, ValidityPeriodStart: now.Add(-time.Hour)}}
	authority := &root.FulcioCertificateAuthority{Root: p.authority, Intermediates: []*x509.Certificate{p.intermediate}, ValidityPeriodStart: now.Add(-time.Hour)}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, []root.CertificateAuthority{authority}, logs, p.TimestampingAuthorities(), rawIDs(p.t, p.RekorLogs()))
	if err != nil {
		p.t.Fatal(err)
	}
	content, err := trusted.MarshalJSON()
	if err != nil {
		p.t.Fatal(err)
	}
	ids, err := NewIdentities(content, []Identity{{issuer, who}})
	if err != nil {
		p.t.Fatal(err)
	}
	return New([]Rule{{Repositories: pattern.MustNames([]string{"app"}), Identities: ids, Refuse: true}})
}

func logID(t testing.TB, key *ecdsa.PrivateKey) [sha256.Size]byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(der)
}

// certify issues a certificate with a timestamp by the log with the ID and the key.
func (p *public) certify(id [sha256.Size]byte, log *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	p.t.Helper()
	key := newKey(p.t)
	plain, err := ca.GenerateLeafCert(who, issuer, time.Now(), key, p.intermediate, p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	sct := ct.SignedCertificateTimestamp{SCTVersion: ct.V1, LogID: ct.LogID{KeyID: id}, Timestamp: uint64(time.Now().UnixMilli())} //nolint:gosec // after 1970
	signed, err := ct.SerializeSCTSignatureInput(sct, ct.LogEntry{Leaf: ct.MerkleTreeLeaf{
		Version: ct.V1, LeafType: ct.TimestampedEntryLeafType, TimestampedEntry: &ct.TimestampedEntry{
			Timestamp: sct.Timestamp, EntryType: ct.PrecertLogEntryType,
			PrecertEntry: &ct.PreCert{IssuerKeyHash: sha256.Sum256(p.intermediate.RawSubjectPublicKeyInfo), TBSCertificate: plain.RawTBSCertificate},
		},
	}})
	if err != nil {
		p.t.Fatal(err)
	}
	sct.Signature = ct.DigitallySigned{Algorithm: tls.SignatureAndHashAlgorithm{Hash: tls.SHA256, Signature: tls.ECDSA}, Signature: signWith(p.t, log, signed)}
	list, err := x509util.MarshalSCTsIntoSCTList([]*ct.SignedCertificateTimestamp{&sct})
	if err != nil {
		p.t.Fatal(err)
	}
	content, err := tls.Marshal(*list)
	if err != nil {
		p.t.Fatal(err)
	}
	if content, err = asn1.Marshal(content); err != nil {
		p.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: plain.SerialNumber, NotBefore: plain.NotBefore, NotAfter: plain.NotAfter,
		ExtraExtensions: append(plain.Extensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: content}),
	}, p.intermediate, key.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		p.t.Fatal(err)
	}
	return certificate, key
}

func signWith(t testing.TB, key *ecdsa.PrivateKey, content []byte) []byte {
	t.Helper()
	hash := sha256.Sum256(content)
	signature, err := ecdsa.SignASN1(rand.Reader, key, hash[:])
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// sign returns a bundle as cosign makes it at the public Sigstore, with an entry in a log.
func (p *public) sign(certificate *x509.Certificate, key *ecdsa.PrivateKey, log *deployment) *protobundle.Bundle {
	p.t.Helper()
	payload := p.statement(p.image.Digest, predicateSignature)
	signature := signWith(p.t, key, dsse.PAE(typeStatement, payload))
	entry, err := log.GenerateTlogEntry(certificate, &dsse.Envelope{
		PayloadType: typeStatement, Payload: base64.StdEncoding.EncodeToString(payload), Signatures: []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(signature)}},
	}, signature, time.Now().Add(time.Minute).Unix(), true)
	if err != nil {
		p.t.Fatal(err)
	}
	stamp, err := p.TimestampResponse(signature)
	if err != nil {
		p.t.Fatal(err)
	}
	return &protobundle.Bundle{
		MediaType: typeBundle,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content:                   &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: certificate.Raw}},
			TlogEntries:               []*protorekor.TransparencyLogEntry{log.promised(entry)},
			TimestampVerificationData: &protobundle.TimestampVerificationData{Rfc3161Timestamps: []*protocommon.RFC3161SignedTimestamp{{SignedTimestamp: stamp}}},
		},
		Content: &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			PayloadType: typeStatement, Payload: payload, Signatures: []*protodsse.Signature{{Sig: signature}},
		}},
	}
}

// A root as that of the public Sigstore demands a certificate in its log of certificates and a signature in its log, each with a valid proof.
func TestIdentities_Logs(t *testing.T) {
	for name, tt := range map[string]struct {
		sign  func(p *public) *protobundle.Bundle
		cause string // "" = it is verified
	}{
		"valid": {func(p *public) *protobundle.Bundle {
			certificate, key := p.certify(logID(p.t, p.log), p.log)
			return p.sign(certificate, key, p.deployment)
		}, ""},
		"certificate in another log": {func(p *public) *protobundle.Bundle {
			other := newKey(p.t)
			certificate, key := p.certify(logID(p.t, other), other)
			return p.sign(certificate, key, p.deployment)
		}, "only able to verify 0 SCT entries"},
		"certificate in another log under our ID": {func(p *public) *protobundle.Bundle {
			certificate, key := p.certify(logID(p.t, p.log), newKey(p.t))
			return p.sign(certificate, key, p.deployment)
		}, "only able to verify 0 SCT entries"},
		"certificate in no log": {func(p *public) *protobundle.Bundle {
			key := newKey(p.t)
			certificate, err := ca.GenerateLeafCert(who, issuer, time.Now(), key, p.intermediate, p.key)
			if err != nil {
				p.t.Fatal(err)
			}
			return p.sign(certificate, key, p.deployment)
		}, "only able to verify 0 SCT entries"},
		"entry in another log": {func(p *public) *protobundle.Bundle {
			certificate, key := p.certify(logID(p.t, p.log), p.log)
			return p.sign(certificate, key, newDeployment(p.t))
		}, "not enough verified log entries"},
		"entry in another log under our ID": {func(p *public) *protobundle.Bundle {
			certificate, key := p.certify(logID(p.t, p.log), p.log)
			b := p.sign(certificate, key, newDeployment(p.t))
			b.VerificationMaterial.TlogEntries[0].LogId = p.sign(certificate, key, p.deployment).VerificationMaterial.TlogEntries[0].LogId
			return b
		}, "not enough verified log entries"},
		"inclusion in another log": {func(p *public) *protobundle.Bundle {
			certificate, key := p.certify(logID(p.t, p.log), p.log)
			b := p.sign(certificate, key, p.deployment)
			b.VerificationMaterial.TlogEntries[0].InclusionProof = p.sign(certificate, key, newDeployment(p.t)).VerificationMaterial.TlogEntries[0].InclusionProof
			return b
		}, "failed to verify log inclusion"},
		"entry of another signature": {func(p *public) *protobundle.Bundle {
			certificate, key := p.certify(logID(p.t, p.log), p.log)
			b := p.sign(certificate, key, p.deployment)
			b.VerificationMaterial.TlogEntries = p.sign(certificate, key, p.deployment).VerificationMaterial.TlogEntries
			return b
		}, "transparency log signature does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublic(t)
			p.attach(tt.sign(p))
			res, err := p.policy().Check(t.Context(), p.repo, peek(t, p.repo, oci.Reference{Tag: "v1"}))
			if err != nil || (res.Verdict == Verified) != (tt.cause == "") || !strings.Contains(res.Cause, tt.cause) {
				t.Errorf("%v, %v; want %s", res, err, tt.cause)
			}
		})
	}
}
