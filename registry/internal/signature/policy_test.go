package signature

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// recording is a repository that cosign 3.1 has signed in, with the files of testdata/*.pub.
type recording struct {
	Manifests, Blobs []string
	Tags             map[string]oci.Digest
}

// The repositories of the recording: bundles (cosign 3), tags (cosign 2), and signatures of cosign 2 as referrers.
var formats = []string{"bundle", "tag", "referrer"}

// replay pushes the recording of a format.
func replay(t *testing.T, format string) registry.Repository {
	t.Helper()
	content, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]recording
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	repo := registry.New(registry.Options{Store: memory.New(), IndexParents: true}).Repository("app")
	for _, b := range all[format].Blobs {
		registrytest.Push(t, repo, b)
	}
	indexes := []string{} // after what is in them
	for _, m := range all[format].Manifests {
		if strings.Contains(m, `"manifests"`) {
			indexes = append(indexes, m)
			continue
		}
		registrytest.PutManifest(t, repo, m)
	}
	for _, m := range indexes {
		registrytest.PutManifest(t, repo, m)
	}
	for tag, d := range all[format].Tags {
		retag(t, repo, d, oci.Tag(tag))
	}
	return repo
}

func retag(t *testing.T, repo registry.Repository, d oci.Digest, tag oci.Tag) {
	t.Helper()
	registrytest.PutManifest(t, repo, string(peek(t, repo, oci.Reference{Digest: d}).Bytes), tag)
}

func peek(t testing.TB, repo registry.Repository, ref oci.Reference) *registry.Manifest {
	t.Helper()
	m, err := repo.Peek(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func policy(t *testing.T, keys ...string) *Policy {
	t.Helper()
	r := Rule{Repositories: pattern.MustNames([]string{"app"}), Refuse: true}
	for _, name := range keys {
		r.Keys = append(r.Keys, key(t, name))
	}
	return New([]Rule{r})
}

func key(t testing.TB, name string) Key {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKey(content)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// expect checks the verdict twice, since the second one is remembered.
func expect(t *testing.T, p *Policy, repo registry.Repository, ref oci.Reference, want Verdict) {
	t.Helper()
	for range 2 {
		if got, err := p.Check(t.Context(), repo, peek(t, repo, ref)); err != nil || got.Verdict != want {
			t.Errorf("verdict on %v = %v, %v; want %v", ref, got.Verdict, err, want)
		}
	}
}

func TestCheck_WhatCosignSigns(t *testing.T) {
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			repo, ours := replay(t, format), policy(t, "ours")
			for tag, want := range map[oci.Tag]Verdict{"signed": Verified, "index": Verified, "other": Unverified, "unsigned": Unsigned, "attested": Unsigned} {
				expect(t, ours, repo, oci.Reference{Tag: tag}, want)
			}
			expect(t, policy(t, "rsa", "other"), repo, oci.Reference{Tag: "other"}, Verified)
			expect(t, policy(t, "other"), repo, oci.Reference{Tag: "signed"}, Unverified)
			if format != "referrer" {
				for _, key := range []string{"ed25519", "p384", "rsa"} {
					expect(t, policy(t, key), repo, oci.Reference{Tag: oci.Tag("key-" + key)}, Verified)
					expect(t, ours, repo, oci.Reference{Tag: oci.Tag("key-" + key)}, Unverified)
				}
			}
			// All that cosign attaches stays readable.
			referrers, _, err := repo.Referrers(t.Context(), peek(t, repo, oci.Reference{Tag: "signed"}).Digest, "", "", 0)
			if err != nil || (len(referrers) == 0) != (format == "tag") {
				t.Fatalf("referrers: %v, %v", referrers, err)
			}
			for _, d := range referrers {
				expect(t, ours, repo, oci.Reference{Digest: d.Digest}, Exempt)
			}
			tags, _, _ := repo.Tags(t.Context(), -1, "")
			for _, tag := range tags {
				if strings.HasPrefix(tag, "sha256-") {
					expect(t, ours, repo, oci.Reference{Tag: oci.Tag(tag)}, Exempt)
				}
			}
		})
	}
}

func TestCheck_ChildOfASignedIndex(t *testing.T) {
	repo, p := replay(t, "bundle"), policy(t, "ours")
	index, err := oci.ReadManifest(peek(t, repo, oci.Reference{Tag: "index"}).Bytes)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, p, repo, oci.Reference{Digest: index.Manifests[0].Digest}, Verified)
	expect(t, policy(t, "other"), repo, oci.Reference{Digest: index.Manifests[0].Digest}, Unsigned)

	unsigned := peek(t, repo, oci.Reference{Tag: "unsigned"})
	registrytest.PutManifest(t, repo, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{unsigned.Descriptor}}, "around")
	expect(t, p, repo, oci.Reference{Tag: "around"}, Unsigned)
	expect(t, p, repo, oci.Reference{Tag: "unsigned"}, Unsigned)
}

func TestCheck_RepositoryWithoutARule(t *testing.T) {
	repo := replay(t, "tag")
	m := peek(t, repo, oci.Reference{Tag: "unsigned"})
	other := New([]Rule{{Repositories: pattern.MustNames([]string{"team/**"})}})
	for _, p := range []*Policy{nil, other} {
		if got, err := p.Check(t.Context(), repo, m); err != nil || !got.OK() || got.Verdict != Exempt {
			t.Errorf("result = %v, %v", got, err)
		}
	}
}

// A signature of another image doesn't sign this one, under whatever tag or subject.
func TestCheck_SignatureOfAnotherImage(t *testing.T) {
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			repo, p := replay(t, format), policy(t, "ours")
			image := peek(t, repo, oci.Reference{Tag: "unsigned"})
			signed := peek(t, repo, oci.Reference{Tag: "signed"})
			if format == "tag" {
				retag(t, repo, peek(t, repo, oci.Reference{Tag: signatureTag(signed.Digest)}).Digest, signatureTag(image.Digest))
			} else {
				referrers, _, err := repo.Referrers(t.Context(), signed.Digest, "", "", 0)
				if err != nil || len(referrers) != 1 {
					t.Fatalf("referrers: %v, %v", referrers, err)
				}
				object := string(peek(t, repo, oci.Reference{Digest: referrers[0].Digest}).Bytes)
				moved := registrytest.PutManifest(t, repo, strings.ReplaceAll(object, string(signed.Digest), string(image.Digest)))
				if m := peek(t, repo, oci.Reference{Digest: moved.Digest}); m.Subject != image.Digest {
					t.Fatalf("subject = %s", m.Subject)
				}
			}
			expect(t, p, repo, oci.Reference{Tag: "unsigned"}, Unsigned)
		})
	}
}

// A payload that names the image, with a signature of another payload.
func TestCheck_TamperedPayload(t *testing.T) {
	repo, p := replay(t, "tag"), policy(t, "ours")
	image, signed := peek(t, repo, oci.Reference{Tag: "unsigned"}), peek(t, repo, oci.Reference{Tag: "signed"})
	object, err := oci.ReadManifest(peek(t, repo, oci.Reference{Tag: signatureTag(signed.Digest)}).Bytes)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := repo.ReadBlob(t.Context(), object.Layers[0].Digest, maxContent)
	if err != nil {
		t.Fatal(err)
	}
	layer := registrytest.Push(t, repo, strings.ReplaceAll(string(payload), string(signed.Digest), string(image.Digest)))
	layer.MediaType, layer.Annotations = typeSimple, object.Layers[0].Annotations
	registrytest.PutManifest(t, repo, manifest(object.Config, layer), signatureTag(image.Digest))
	expect(t, p, repo, oci.Reference{Tag: "unsigned"}, Unverified)
}

// A signature that is deleted no longer counts.
func TestCheck_SignatureIsDeleted(t *testing.T) {
	repo, p := replay(t, "tag"), policy(t, "ours")
	expect(t, p, repo, oci.Reference{Tag: "signed"}, Verified)
	signed := peek(t, repo, oci.Reference{Tag: "signed"})
	retag(t, repo, peek(t, repo, oci.Reference{Tag: "unsigned"}).Digest, signatureTag(signed.Digest))
	expect(t, p, repo, oci.Reference{Tag: "signed"}, Unsigned)
}

// A layer that can't be read isn't remembered, and doesn't keep the others from it.
func TestCheck_LayersThatCannotBeRead(t *testing.T) {
	store := memory.New()
	repo, p := registry.New(registry.Options{Store: store}).Repository("app"), policy(t, "ours")
	registrytest.PushImage(t, repo, "v1", "{}", "layer")
	image := peek(t, repo, oci.Reference{Tag: "v1"})
	config, other, layer := registrytest.Push(t, repo, "{}"), registrytest.Push(t, repo, "{} "), registrytest.Push(t, repo, "{}  ")
	other.MediaType, layer.MediaType = typeBundle, typeBundle
	registrytest.PutManifest(t, repo, manifest(&config, other, layer), signatureTag(image.Digest))
	if err := store.Apply(t.Context(), nil, storage.Stage{{Key: layout.BlobData(layer.Digest), Content: []byte("[]  ")}}); err != nil {
		t.Fatal(err)
	}
	object := peek(t, repo, oci.Reference{Tag: signatureTag(image.Digest)})
	expect(t, p, repo, oci.Reference{Tag: "v1"}, Unsigned)
	verdicts := (*p.rules.Load())[0].verdicts
	if _, ok := verdicts.Get(judged{image.Digest, object.Digest, 0}); !ok {
		t.Error("the verdict on a layer is lost beside another that can't be read")
	}
	if _, ok := verdicts.Get(judged{image.Digest, object.Digest, 1}); ok {
		t.Error("the verdict on damaged bytes is remembered")
	}
}

// counted counts what is opened in a store.
type counted struct {
	storage.Store
	opened atomic.Int64
}

func (c *counted) Open(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	c.opened.Add(1)
	return c.Store.Open(ctx, key, offset, length)
}

// However much is attached to an image and to the indexes that contain it, a check reads a bounded number of manifests and layers.
func TestCheck_ManyReferrers(t *testing.T) {
	store := &counted{Store: memory.New()}
	repo := registry.New(registry.Options{Store: store, IndexParents: true, ManifestCache: 1}).Repository("app")
	image := registrytest.PushImage(t, repo, "unsigned", "1", "layer")
	config := registrytest.Push(t, repo, "{}")
	layer := registrytest.Push(t, repo, "signature")
	layer.MediaType = typeBundle
	layers := slices.Repeat([]oci.Descriptor{layer}, maxLayers)
	for i := range 8 {
		index := registrytest.PutManifest(t, repo, map[string]any{
			"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{image}, "annotations": map[string]string{"n": strconv.Itoa(i)},
		})
		for k := range maxReferrers {
			m := manifest(&config, layers...)
			m["subject"], m["artifactType"], m["annotations"] = index, "application/vnd.dev.cosign.artifact", map[string]string{"n": strconv.Itoa(k)}
			registrytest.PutManifest(t, repo, m)
		}
	}
	m := peek(t, repo, oci.Reference{Tag: "unsigned"})
	if _, err := repo.Parents(t.Context(), m.Digest); err != nil { // the first time reads all manifests of the repository
		t.Fatal(err)
	}
	store.opened.Store(0)
	got, err := policy(t, "ours").Check(t.Context(), repo, m)
	if n := store.opened.Load(); err != nil || got.Verdict != Unsigned || n > 2*maxReads {
		t.Errorf("%v, %v after %d reads", got, err, n)
	}
}

// An image that hasn't changed is in the index of each build, of which the one of the release is signed.
func TestCheck_ManyIndexes(t *testing.T) {
	for _, format := range formats {
		repo, p := replay(t, format), policy(t, "ours")
		index, err := oci.ReadManifest(peek(t, repo, oci.Reference{Tag: "index"}).Bytes)
		if err != nil {
			t.Fatal(err)
		}
		for i := range maxReads - 10 {
			registrytest.PutManifest(t, repo, map[string]any{
				"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": index.Manifests, "annotations": map[string]string{"n": strconv.Itoa(i)},
			})
		}
		expect(t, p, repo, oci.Reference{Digest: index.Manifests[0].Digest}, Verified)
	}
}

func manifest(config *oci.Descriptor, layers ...oci.Descriptor) map[string]any {
	return map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": config, "layers": layers}
}

// An image that looks like an attachment needs a signature as any other.
func TestCheck_ImageDisguisedAsAnAttachment(t *testing.T) {
	repo, p := replay(t, "tag"), policy(t, "ours")
	push := func(mediaType, content string) oci.Descriptor {
		d := registrytest.Push(t, repo, content)
		d.MediaType = mediaType
		return d
	}
	archive := "usr/bin/program" + strings.Repeat("\x00", 500) + "\x7fELF"
	layer, document := push("application/vnd.oci.image.layer.v1.tar", archive), push(typeSimple, `{"a":1}`)
	diffs := func(d oci.Digest) oci.Descriptor {
		return push("application/vnd.oci.image.config.v1+json", `{"os":"linux","config":{"Cmd":["sh"]},"rootfs":{"type":"layers","diff_ids":["`+string(d)+`"]}}`)
	}
	own, empty := diffs(layer.Digest), push("application/vnd.oci.empty.v1+json", "{}")
	subject := peek(t, repo, oci.Reference{Tag: "signed"}).Descriptor
	subject.Annotations = nil
	with := func(m map[string]any, key string, value any) map[string]any {
		m[key] = value
		return m
	}
	for name, m := range map[string]map[string]any{
		"subject":                     with(manifest(&own, layer), "subject", subject),
		"artifact type":               with(manifest(&own, layer), "artifactType", typeBundle),
		"empty config":                manifest(&empty, layer),
		"layer type":                  manifest(&own, push(typeSimple, archive)),
		"layer type and empty config": manifest(&empty, push(typeBundle, archive)),
		"compressed layer":            manifest(&empty, push(typeBundle, "\x1f\x8b\x08text")),
		"archive that begins as JSON": manifest(&empty, push(typeBundle, `{"a":`+archive)),
		"program's bytes":             manifest(&empty, push(typeBundle, `{"a":"`+"\x02\x01"+`"}`)),
		"one document, one layer":     manifest(&own, document, layer),
		"layers of another image":     manifest(new(diffs(subject.Digest)), document),
		"diff_ids twice":              manifest(new(push(own.MediaType, `{"rootfs":{},"RootFS":{"diff_ids":["`+string(subject.Digest)+`"]}}`)), document),
		"no layers":                   manifest(&own),
		"document of another type":    manifest(&empty, push("application/vnd.example.deployment+json", `{"a":1}`)),
	} {
		t.Run(name, func(t *testing.T) {
			d := registrytest.PutManifest(t, repo, m, "sha256-"+oci.Tag(strings.Repeat("a", 64))+".sig")
			expect(t, p, repo, oci.Reference{Digest: d.Digest}, Unsigned)
		})
	}
	for _, mediaType := range []string{"application/spdx+json", "application/vnd.aquasec.trivy.report+json"} {
		plain := registrytest.PutManifest(t, repo, manifest(&empty, push(mediaType, ` {"spdxVersion":"SPDX-2.3"}`)))
		expect(t, p, repo, oci.Reference{Digest: plain.Digest}, Exempt)
	}
}

func TestParseKey_Broken(t *testing.T) {
	for _, content := range []string{"", "no PEM", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := ParseKey([]byte(content)); err == nil {
			t.Errorf("%q is taken for a key", content)
		}
	}
}

func FuzzStatement(f *testing.F) {
	f.Add([]byte(`{"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"AAAA"}]}}`))
	f.Add([]byte(`{"critical":{"type":"cosign container image signature","image":{"docker-manifest-digest":"sha256:"}}}`))
	ours := key(f, "ours")
	deployed := newDeployment(f)
	ids, err := NewIdentities(deployed.trustedRoot(all), []Identity{{issuer, who}})
	if err != nil {
		f.Fatal(err)
	}
	bundle, err := protojson.Marshal(deployed.signed("eve@example.org", issuer))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bundle)
	annotations := deployed.annotations(deployed.bundle(deployed.Sign(who, issuer, nil)))
	f.Add([]byte(annotations[annotationEntry]))
	image := deployed.image
	f.Fuzz(func(t *testing.T, content []byte) {
		text := string(content)
		for _, read := range []func() (statement, bool){
			func() (statement, bool) { return readBundle(content, image) },
			func() (statement, bool) {
				return readSimple(deployed.payload(), map[string]string{annotationSignature: "AAAA", annotationCertificate: annotations[annotationCertificate], annotationEntry: text, annotationTimestamp: text}, image)
			},
			func() (statement, bool) {
				return readSimple(content, map[string]string{annotationSignature: "AAAA", annotationCertificate: text}, image)
			},
		} {
			if s, ok := read(); ok && (s.signedBy([]Key{ours}) || s.bundle != nil && ids.verify(s).OK()) {
				t.Errorf("%q is signed", content)
			}
		}
	})
}
