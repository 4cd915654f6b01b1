package signature

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage/memory"
)

const (
	who    = "https://github.com/acme/app/.github/workflows/release.yml@refs/tags/v1"
	issuer = "https://token.actions.githubusercontent.com"
)

// deployment is a Sigstore with a repository in which an image waits for a signature.
type deployment struct {
	*ca.VirtualSigstore
	t     testing.TB
	repo  registry.Repository
	image *registry.Manifest
}

func newDeployment(t testing.TB) *deployment {
	t.Helper()
	sigstore, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	repo := registry.New(registry.Options{Store: memory.New(), IndexParents: true}).Repository("app")
	registrytest.PushImage(t, repo, "v1", "{}", "layer")
	return &deployment{sigstore, t, repo, peek(t, repo, oci.Reference{Tag: "v1"})}
}

// parts of a trusted root.
type parts struct{ logs, timestamps, certificateLogs bool }

// trustedRoot returns a trusted root as a file has it.
func (d *deployment) trustedRoot(p parts) []byte {
	d.t.Helper()
	var stamps []root.TimestampingAuthority
	logs, certificateLogs := map[string]*root.TransparencyLog{}, map[string]*root.TransparencyLog{}
	if p.timestamps {
		stamps = d.TimestampingAuthorities()
	}
	if p.logs {
		logs = rawIDs(d.t, d.RekorLogs())
	}
	if p.certificateLogs {
		certificateLogs = rawIDs(d.t, d.CTLogs())
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, d.FulcioCertificateAuthorities(), certificateLogs, stamps, logs)
	if err != nil {
		d.t.Fatal(err)
	}
	content, err := trusted.MarshalJSON()
	if err != nil {
		d.t.Fatal(err)
	}
	return content
}

// rawIDs corrects the IDs of the logs, which a VirtualSigstore has in hexadecimal.
func rawIDs(t testing.TB, logs map[string]*root.TransparencyLog) map[string]*root.TransparencyLog {
	t.Helper()
	for id, log := range logs {
		raw, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		log.ID = raw
	}
	return logs
}

func (d *deployment) policy(p parts, identities ...Identity) *Policy {
	d.t.Helper()
	ids, err := NewIdentities(d.trustedRoot(p), identities)
	if err != nil {
		d.t.Fatal(err)
	}
	return New([]Rule{{Repositories: pattern.MustNames([]string{"app"}), Identities: ids, Refuse: true}})
}

func (d *deployment) statement(digest oci.Digest, predicate string) []byte {
	return []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"` + string(digest.Algorithm()) + `":"` + digest.Hex() + `"}}],"predicateType":"` + predicate + `","predicate":{}}`)
}

// signed returns a bundle with a statement about the image, a log entry and a timestamp.
func (d *deployment) signed(subject, issuer string) *protobundle.Bundle {
	d.t.Helper()
	return d.bundle(d.AttestAtTime(subject, issuer, d.statement(d.image.Digest, predicateSignature), time.Now().Add(time.Minute), true))
}

// bundle converts what the deployment has signed.
func (d *deployment) bundle(e *ca.TestEntity, err error) *protobundle.Bundle {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	content, err := e.VerificationContent()
	if err != nil {
		d.t.Fatal(err)
	}
	signature, err := e.SignatureContent()
	if err != nil {
		d.t.Fatal(err)
	}
	b := &protobundle.Bundle{MediaType: typeBundle, VerificationMaterial: &protobundle.VerificationMaterial{
		Content:                   &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: content.Certificate().Raw}},
		TimestampVerificationData: &protobundle.TimestampVerificationData{},
	}}
	if m := signature.MessageSignatureContent(); m != nil {
		b.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.1" // needs no proof of inclusion, which the entry lacks
		b.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
			MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: m.Digest()}, Signature: m.Signature(),
		}}
	} else {
		envelope := signature.EnvelopeContent().RawEnvelope()
		payload, err := envelope.DecodeB64Payload()
		if err != nil {
			d.t.Fatal(err)
		}
		b.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
			Payload: payload, PayloadType: envelope.PayloadType, Signatures: []*protodsse.Signature{{Sig: signature.Signature()}},
		}}
	}
	stamps, err := e.Timestamps()
	if err != nil {
		d.t.Fatal(err)
	}
	for _, s := range stamps {
		data := b.VerificationMaterial.TimestampVerificationData
		data.Rfc3161Timestamps = append(data.Rfc3161Timestamps, &protocommon.RFC3161SignedTimestamp{SignedTimestamp: s})
	}
	entries, err := e.TlogEntries()
	if err != nil {
		d.t.Fatal(err)
	}
	for _, entry := range entries {
		b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, d.promised(entry))
	}
	return b
}

// stamped replaces the timestamp of a bundle by one of the deployment.
func (d *deployment) stamped(b *protobundle.Bundle) *protobundle.Bundle {
	d.t.Helper()
	stamp, err := d.TimestampResponse(b.GetDsseEnvelope().Signatures[0].Sig)
	if err != nil {
		d.t.Fatal(err)
	}
	b.VerificationMaterial.TimestampVerificationData.Rfc3161Timestamps[0].SignedTimestamp = stamp
	return b
}

// promised adds to a log entry what the VirtualSigstore leaves out.
func (d *deployment) promised(entry *tlog.Entry) *protorekor.TransparencyLogEntry {
	d.t.Helper()
	e := entry.TransparencyLogEntry()
	if entry.IsRekorV2() {
		return e
	}
	var body struct{ Kind, APIVersion string }
	if err := json.Unmarshal(e.CanonicalizedBody, &body); err != nil {
		d.t.Fatal(err)
	}
	promise, err := d.RekorSignPayload(tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(e.CanonicalizedBody), IntegratedTime: e.IntegratedTime, LogIndex: e.LogIndex, LogID: hex.EncodeToString(e.LogId.KeyId),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	e.KindVersion = &protorekor.KindVersion{Kind: body.Kind, Version: body.APIVersion}
	e.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	return e
}

// attach pushes the bundle as a referrer of the image, as cosign 3 does.
func (d *deployment) attach(b *protobundle.Bundle) {
	d.t.Helper()
	content, err := protojson.Marshal(b)
	if err != nil {
		d.t.Fatal(err)
	}
	layer, config := registrytest.Push(d.t, d.repo, string(content)), registrytest.Push(d.t, d.repo, "{}")
	layer.MediaType = typeBundle
	m := manifest(&config, layer)
	m["artifactType"], m["subject"] = typeBundle, d.image.Descriptor
	registrytest.PutManifest(d.t, d.repo, m)
}

// all is a trusted root with a log and a timestamp authority, as that of the public Sigstore.
var all = parts{logs: true, timestamps: true}

func TestIdentities(t *testing.T) {
	ours := Identity{issuer, who}
	for name, tt := range map[string]struct {
		root       parts
		identities []Identity
		sign       func(d *deployment) *protobundle.Bundle
		want       Verdict
	}{
		"exact":              {all, []Identity{ours}, nil, Verified},
		"pattern":            {all, []Identity{{"https://*.actions.githubusercontent.com", "https://github.com/acme/**@refs/tags/*"}}, nil, Verified},
		"one of two":         {all, []Identity{{issuer, "ann@example.org"}, ours}, nil, Verified},
		"other subject":      {all, []Identity{{issuer, "https://github.com/acme/app/.github/workflows/release.yml@refs/tags/v2"}}, nil, Unverified},
		"part of a subject":  {all, []Identity{{issuer, strings.TrimSuffix(who, "1")}, {issuer, "https://github.com/acme/*"}, {issuer, who[1:]}}, nil, Unverified},
		"other issuer":       {all, []Identity{{"https://gitlab.com", who}}, nil, Unverified},
		"part of an issuer":  {all, []Identity{{strings.TrimSuffix(issuer, "m"), who}}, nil, Unverified},
		"issuer of another":  {all, []Identity{{issuer, "ann@example.org"}, {"https://gitlab.com", who}}, nil, Unverified},
		"certificate logged": {parts{logs: true, timestamps: true, certificateLogs: true}, []Identity{ours}, nil, Unverified}, // no SCT
		"nothing that dates": {parts{certificateLogs: true}, []Identity{ours}, nil, Unverified},
		"log alone":          {parts{logs: true}, []Identity{ours}, nil, Verified},
		"timestamp alone":    {parts{timestamps: true}, []Identity{ours}, nil, Verified},
		"no log entry": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed(who, issuer)
			b.VerificationMaterial.TlogEntries = nil
			return b
		}, Unverified},
		"neither entry nor timestamp": {parts{timestamps: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed(who, issuer)
			b.VerificationMaterial.TlogEntries, b.VerificationMaterial.TimestampVerificationData = nil, nil
			return b
		}, Unverified},
		"entry without a signed time": {parts{logs: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed(who, issuer)
			b.VerificationMaterial.TlogEntries[0].InclusionPromise = nil
			return b
		}, Unverified},
		"forged time": {parts{logs: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed(who, issuer)
			b.VerificationMaterial.TlogEntries[0].IntegratedTime++
			return b
		}, Unverified},
		"after the certificate ended": {parts{logs: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			return d.bundle(d.AttestAtTime(who, issuer, d.statement(d.image.Digest, predicateSignature), time.Now().Add(30*time.Minute), true))
		}, Unverified},
		"timestamp of another signature": {parts{timestamps: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed(who, issuer)
			b.VerificationMaterial.TimestampVerificationData = d.signed(who, issuer).VerificationMaterial.TimestampVerificationData
			return b
		}, Unverified},
		"log of Rekor 2": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			return d.bundle(d.AttestHashedRekordV2(who, issuer, d.statement(d.image.Digest, predicateSignature)))
		}, Verified},
		"time of Rekor 2, which is not signed": {parts{logs: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			return d.bundle(d.AttestHashedRekordV2(who, issuer, d.statement(d.image.Digest, predicateSignature)))
		}, Unverified},
		"signature of the manifest, of which cosign makes none": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			return d.bundle(d.SignAtTime(who, issuer, d.image.Bytes, time.Now().Add(time.Minute)))
		}, Unsigned},
		"statement about another image": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			return d.bundle(d.AttestAtTime(who, issuer, d.statement(oci.SHA256.FromBytes(nil), predicateSignature), time.Now().Add(time.Minute), true))
		}, Unsigned},
		"attestation": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			return d.bundle(d.AttestAtTime(who, issuer, d.statement(d.image.Digest, "https://slsa.dev/provenance/v1"), time.Now().Add(time.Minute), true))
		}, Unsigned},
		"two signatures, of which cosign makes one": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed(who, issuer)
			e := b.GetDsseEnvelope()
			e.Signatures = append(e.Signatures, e.Signatures[0])
			return b
		}, Unsigned},
		"tampered statement": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.bundle(d.AttestAtTime(who, issuer, d.statement(oci.SHA256.FromBytes(nil), predicateSignature), time.Now().Add(time.Minute), true))
			b.GetDsseEnvelope().Payload = d.statement(d.image.Digest, predicateSignature)
			return b
		}, Unverified},
		"certificate of ours, signature of another": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed("eve@example.org", issuer)
			b.VerificationMaterial.Content = d.signed(who, issuer).VerificationMaterial.Content
			return b
		}, Unverified},
		"key in place of a certificate": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed(who, issuer)
			b.VerificationMaterial.Content = &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "x"}}
			return b
		}, Unverified},
		"another deployment": {all, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			other := newDeployment(d.t)
			other.image = d.image
			return other.signed(who, issuer)
		}, Unverified},
		"another deployment, with a timestamp of ours": {parts{timestamps: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			other := newDeployment(d.t)
			other.image = d.image
			return d.stamped(other.signed(who, issuer))
		}, Unverified},
		"signature of another, with a timestamp of ours": {parts{timestamps: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.signed(who, issuer)
			b.GetDsseEnvelope().Signatures = d.signed("eve@example.org", issuer).GetDsseEnvelope().Signatures
			return d.stamped(b)
		}, Unverified},
		"statement of another signature, without a log": {parts{timestamps: true}, []Identity{ours}, func(d *deployment) *protobundle.Bundle {
			b := d.bundle(d.AttestAtTime(who, issuer, d.statement(oci.SHA256.FromBytes(nil), predicateSignature), time.Now().Add(time.Minute), true))
			b.GetDsseEnvelope().Payload = d.statement(d.image.Digest, predicateSignature)
			return b
		}, Unverified},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			p := d.policy(tt.root, tt.identities...)
			expect(t, p, d.repo, oci.Reference{Tag: "v1"}, Unsigned)
			if tt.sign == nil {
				d.attach(d.signed(who, issuer))
			} else {
				d.attach(tt.sign(d))
			}
			expect(t, p, d.repo, oci.Reference{Tag: "v1"}, tt.want)
		})
	}
}

// The log explains why a certificate isn't accepted, in a text of a bounded length.
func TestIdentities_Cause(t *testing.T) {
	d := newDeployment(t)
	long := "https://example.org/" + strings.Repeat("x", 1000)
	d.attach(d.signed(long, issuer))
	p := d.policy(all, Identity{issuer, who})
	for range 2 {
		res, err := p.Check(t.Context(), d.repo, d.image)
		if err != nil || res.Verdict != Unverified || !strings.Contains(res.Cause, "expected SAN value") || len(res.Cause) > 300 {
			t.Errorf("%v %q, %v", res.Verdict, res.Cause, err)
		}
	}
}

// cosign 2 writes the certificate, the log entry and the timestamp into annotations.
func TestIdentities_SignaturesByTag(t *testing.T) {
	for name, tt := range map[string]struct {
		root     parts
		identity Identity
		without  string
		want     Verdict
	}{
		"both":          {all, Identity{issuer, who}, "", Verified},
		"log entry":     {parts{logs: true}, Identity{issuer, who}, annotationTimestamp, Verified},
		"timestamp":     {parts{timestamps: true}, Identity{issuer, who}, annotationEntry, Verified},
		"no log entry":  {all, Identity{issuer, who}, annotationEntry, Unverified},
		"no timestamp":  {parts{timestamps: true}, Identity{issuer, who}, annotationTimestamp, Unverified},
		"certificate":   {all, Identity{issuer, who}, annotationCertificate, Unverified},
		"other subject": {all, Identity{issuer, "ann@example.org"}, "", Unverified},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			layer, config := registrytest.Push(t, d.repo, string(d.payload())), registrytest.Push(t, d.repo, "{}")
			layer.MediaType, layer.Annotations = typeSimple, d.annotations(d.bundle(d.SignAtTime(who, issuer, d.payload(), time.Now().Add(time.Minute))))
			delete(layer.Annotations, tt.without)
			registrytest.PutManifest(t, d.repo, manifest(&config, layer), signatureTag(d.image.Digest))
			expect(t, d.policy(tt.root, tt.identity), d.repo, oci.Reference{Tag: "v1"}, tt.want)
		})
	}
}

// A payload of another type states something else.
func TestReadSimple_AnotherType(t *testing.T) {
	d := newDeployment(t)
	if _, ok := readSimple(d.payload(), nil, d.image); !ok {
		t.Error("a payload of cosign isn't read")
	}
	if _, ok := readSimple([]byte(strings.Replace(string(d.payload()), simpleKind, "cosign container image attestation", 1)), nil, d.image); ok {
		t.Error("another type is taken for a signature")
	}
}

// payload returns the content that cosign 2 signs.
func (d *deployment) payload() []byte {
	return []byte(`{"critical":{"image":{"docker-manifest-digest":"` + string(d.image.Digest) + `"},"type":"` + simpleKind + `"}}`)
}

// annotations converts a bundle to what cosign 2 writes.
func (d *deployment) annotations(b *protobundle.Bundle) map[string]string {
	d.t.Helper()
	text := func(v any) string {
		content, err := json.Marshal(v)
		if err != nil {
			d.t.Fatal(err)
		}
		return string(content)
	}
	e := b.VerificationMaterial.TlogEntries[0]
	return map[string]string{
		annotationSignature:   base64.StdEncoding.EncodeToString(b.GetMessageSignature().Signature),
		annotationCertificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.VerificationMaterial.GetCertificate().RawBytes})),
		annotationEntry: text(map[string]any{"SignedEntryTimestamp": e.InclusionPromise.SignedEntryTimestamp, "Payload": map[string]any{
			"body": e.CanonicalizedBody, "integratedTime": e.IntegratedTime, "logIndex": e.LogIndex, "logID": hex.EncodeToString(e.LogId.KeyId),
		}}),
		annotationTimestamp: text(map[string]any{"SignedRFC3161Timestamp": b.VerificationMaterial.TimestampVerificationData.Rfc3161Timestamps[0].SignedTimestamp}),
	}
}

func TestNewIdentities_Broken(t *testing.T) {
	for _, content := range []string{"", "{}", "-----BEGIN CERTIFICATE-----"} {
		if _, err := NewIdentities([]byte(content), []Identity{{issuer, who}}); err == nil || !strings.HasPrefix(err.Error(), "is no trusted root of Sigstore: ") {
			t.Errorf("%s: %v", content, err)
		}
	}
}
