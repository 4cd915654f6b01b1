package signature

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registrytest"
)

// Before anything is verified by what a bundle itself holds, it is checked for sizes that no genuine one has.
func TestIdentities_CostlyBundles(t *testing.T) {
	d := newDeployment(t)
	ids, err := NewIdentities(d.trustedRoot(all), []Identity{{issuer, who}})
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, maxPart)
	for name, change := range map[string]func(*protobundle.VerificationMaterial){
		"large certificate": func(m *protobundle.VerificationMaterial) {
			m.GetCertificate().RawBytes = append(m.GetCertificate().RawBytes, large...)
		},
		"large timestamp": func(m *protobundle.VerificationMaterial) {
			stamp := m.TimestampVerificationData.Rfc3161Timestamps[0]
			stamp.SignedTimestamp = append(stamp.SignedTimestamp, large...)
		},
		"large log entry": func(m *protobundle.VerificationMaterial) {
			m.TlogEntries[0].CanonicalizedBody = append(m.TlogEntries[0].CanonicalizedBody, large...)
		},
		"large checkpoint": func(m *protobundle.VerificationMaterial) {
			m.TlogEntries[0].InclusionProof = &protorekor.InclusionProof{Checkpoint: &protorekor.Checkpoint{Envelope: strings.Repeat(" ", maxMaterial)}}
		},
		"many timestamps": func(m *protobundle.VerificationMaterial) {
			data := m.TimestampVerificationData
			data.Rfc3161Timestamps = slices.Repeat(data.Rfc3161Timestamps, 100)
		},
		"many log entries": func(m *protobundle.VerificationMaterial) { m.TlogEntries = slices.Repeat(m.TlogEntries, 100) },
		"a chain": func(m *protobundle.VerificationMaterial) {
			m.Content = &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: &protocommon.X509CertificateChain{
				Certificates: []*protocommon.X509Certificate{m.GetCertificate()},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := d.signed(who, issuer)
			if res := ids.verify(statement{bundle: b, artifact: d.image.Bytes}); res.Verdict != Verified {
				t.Fatal(res)
			}
			change(b.VerificationMaterial)
			if res := ids.verify(statement{bundle: b, artifact: d.image.Bytes}); res.Verdict != Unverified || !strings.HasPrefix(res.Cause, "the bundle has ") {
				t.Error(res)
			}
		})
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
	registrytest.PutManifest(t, d.repo, manifest(&config, slices.Repeat([]oci.Descriptor{layer}, maxReads/certificateReads)...), signatureTag(d.image.Digest))
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

// Of requests at the same time, one verifies a certificate.
func TestIdentities_AtTheSameTime(t *testing.T) {
	d := newDeployment(t)
	d.attach(d.signed(who, issuer))
	p := d.policy(all, Identity{issuer, who})
	referrers, _, err := d.repo.Referrers(t.Context(), d.image.Digest, "", "", 0)
	if err != nil || len(referrers) != 1 {
		t.Fatal(referrers, err)
	}
	synctest.Test(t, func(t *testing.T) {
		slots := int64(0)
		for ; verifications.TryAcquire(1); slots++ {
		}
		var res Result
		go func() { res, err = p.Check(t.Context(), d.repo, d.image) }()
		synctest.Wait()
		known := Result{Verdict: Unverified, Cause: "by another request"}
		(*p.rules.Load())[0].verdicts.Put(judged{d.image.Digest, referrers[0].Digest, 0}, known, 1)
		verifications.Release(slots)
		synctest.Wait()
		if known.Refuse = true; err != nil || res != known {
			t.Errorf("%v, %v", res, err)
		}
	})
}
