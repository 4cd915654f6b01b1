package signature

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registrytest"
)

// largeKey returns an RSA key of that length in bits, which no one holds.
func largeKey(bits uint) *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), bits)
	return &rsa.PublicKey{N: n.Sub(n, big.NewInt(1)), E: 65537}
}

// Before anything is verified by what a bundle itself holds, its parts are checked for sizes that no genuine ones have.
func TestIdentities_CostlyBundles(t *testing.T) {
	d := newDeployment(t)
	ids, err := NewIdentities(d.trustedRoot(all), []Identity{{issuer, who}})
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(largeKey(32 << 10))
	if err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, largeKey(8<<10), private)
	if err != nil {
		t.Fatal(err)
	}
	nested := []byte{}
	for range maxNested + 2 {
		nested = append([]byte{0x30, byte(len(nested))}, nested...)
	}
	// A response with a status, and a token with version, algorithms, content and signers.
	signers, err := hex.DecodeString("301b3003020100301406012aa00f300d02010131003000" + "3104" + "30003000")
	if err != nil {
		t.Fatal(err)
	}
	other := d.signed("eve@example.org", issuer).VerificationMaterial.TlogEntries[0].CanonicalizedBody

	body := func(content string) func(m *protobundle.VerificationMaterial) {
		return func(m *protobundle.VerificationMaterial) { m.TlogEntries[0].CanonicalizedBody = []byte(content) }
	}
	timestamp := func(content []byte) func(m *protobundle.VerificationMaterial) {
		return func(m *protobundle.VerificationMaterial) {
			m.TimestampVerificationData.Rfc3161Timestamps[0].SignedTimestamp = content
		}
	}
	for name, tt := range map[string]struct {
		change func(*protobundle.VerificationMaterial)
		want   string
	}{
		"large key of an entry": {body(`{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{"signature":{"content":"AAAA","publicKey":{"content":"` + key + `"}}}}`), "another key"},
		"key of another":        {body(string(other)), "another key"},
		"two keys": {func(m *protobundle.VerificationMaterial) {
			block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.GetCertificate().RawBytes})
			m.TlogEntries[0].CanonicalizedBody, _ = json.Marshal(slices.Concat(block, block))
		}, "another key"},
		"proposed content": {body(`{"apiVersion":"0.0.1","kind":"dsse","spec":{"proposedContent":{"verifiers":[]}}}`), "has contents"},
		"payload":          {body(`{"apiVersion":"0.0.2","kind":"intoto","spec":{"content":{"envelope":{"payload":"e30="}}}}`), "has contents"},
		"two bodies":       {body(`{} {"payload":""}`), "has contents"},
		"broken body":      {body(`{]`), "a log entry is not in JSON"},
		"large body":       {body(strings.Repeat(" ", maxPart+1)), "a log entry is larger"},
		"large checkpoint": {func(m *protobundle.VerificationMaterial) {
			m.TlogEntries[0].InclusionProof = &protorekor.InclusionProof{Checkpoint: &protorekor.Checkpoint{Envelope: strings.Repeat(" ", maxPart+1)}}
		}, "a log entry is larger"},
		"large key of the certificate":   {func(m *protobundle.VerificationMaterial) { m.GetCertificate().RawBytes = certificate }, "the certificate has a key of more than 4096 bits"},
		"large certificate":              {func(m *protobundle.VerificationMaterial) { m.GetCertificate().RawBytes = make([]byte, maxPart+1) }, "the certificate is larger"},
		"large timestamp":                {timestamp(make([]byte, maxPart+1)), "a timestamp is larger"},
		"large key of a timestamp":       {timestamp(certificate), "a timestamp has a key of more than 4096 bits"},
		"nested timestamp":               {timestamp(nested), "a timestamp is nested"},
		"timestamp of two":               {timestamp(signers), "a timestamp doesn't have one signer"},
		"timestamp of indefinite length": {timestamp(append(bytes.Repeat([]byte{0x30, 0x80}, 10), make([]byte, 20)...)), "a timestamp is not in DER"},
	} {
		t.Run(name, func(t *testing.T) {
			b := d.signed(who, issuer)
			if err := ids.verify(d.image.Bytes, b); err != nil {
				t.Fatal(err)
			}
			tt.change(b.VerificationMaterial)
			if err := ids.verify(d.image.Bytes, b); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %s", err, tt.want)
			}
		})
	}
}

func TestIdentities_LargeAnnotations(t *testing.T) {
	d := newDeployment(t)
	b := d.bundle(d.SignAtTime(who, issuer, nil, time.Now().Add(time.Minute)))
	for _, key := range []string{annotationCertificate, annotationEntry, annotationTimestamp} {
		annotations := d.annotations(b)
		if newBundle(nil, nil, annotations) == nil {
			t.Fatal("no bundle")
		}
		annotations[key] += strings.Repeat(" ", maxAnnotation)
		if newBundle(nil, nil, annotations) != nil {
			t.Errorf("%s of %d bytes is read", key, len(annotations[key]))
		}
	}
}

// A check verifies a bounded number of certificates. It remembers nothing of the others, so a later check verifies them.
func TestIdentities_ManyCertificates(t *testing.T) {
	d := newDeployment(t)
	p := d.policy(all, Identity{issuer, who})
	content, err := protojson.Marshal(d.signed("eve@example.org", issuer))
	if err != nil {
		t.Fatal(err)
	}
	layer, config := registrytest.Push(t, d.repo, string(content)), registrytest.Push(t, d.repo, "{}")
	layer.MediaType = typeBundle
	registrytest.PutManifest(t, d.repo, manifest(&config, slices.Repeat([]oci.Descriptor{layer}, maxCertificates)...), signatureTag(d.image.Digest))
	d.attach(d.signed(who, issuer))
	for _, want := range []Verdict{Unverified, Verified} {
		if res, err := p.Check(t.Context(), d.repo, d.image); err != nil || res.Verdict != want {
			t.Errorf("verdict = %v, %v; want %v", res.Verdict, err, want)
		}
	}
}

// A caller who leaves doesn't wait for the verifications of others.
func TestIdentities_Busy(t *testing.T) {
	d := newDeployment(t)
	d.attach(d.signed(who, issuer))
	p := d.policy(all, Identity{issuer, who})
	slots := int64(0)
	for ; verifications.TryAcquire(1); slots++ {
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if res, err := p.Check(ctx, d.repo, d.image); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", res, err)
	}
	verifications.Release(slots)
	expect(t, p, d.repo, oci.Reference{Tag: "v1"}, Verified)
}
