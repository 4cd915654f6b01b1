package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// An image is fetched with all that belongs to it, through nested indexes and referrers, but
// without other platforms.
func TestSync(t *testing.T) {
	w := newWorld(t)
	layers := [][]byte{noise(100, 10_000), noise(101, 20_000), noise(102, 30_000)}
	amd := w.push("app", "amd", layers[0], layers[1])
	arm := w.push("app", "arm", layers[0], layers[2])
	entry := func(m *registry.Manifest, arch string) string {
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":%q}}`, m.MediaType, m.Digest, m.Size, arch)
	}
	inner := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[` + entry(amd, "amd64") + "," + entry(arm, "arm64") + `]}`)
	put := func(ref oci.Reference, body []byte) registry.PutResult {
		t.Helper()
		res, err := w.origin.Repository("app").PutManifest(t.Context(), ref, "", body, nil)
		check(t, err)
		return res
	}
	nested := put(oci.Reference{Digest: oci.SHA256.FromBytes(inner)}, inner).Descriptor
	index := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":%d}]}`, oci.MediaTypeIndex, nested.MediaType, nested.Digest, nested.Size)
	put(oci.Reference{Tag: "1.0"}, index)
	// What refers to an image, and what refers to that.
	signature := layers[0]
	refer := func(to oci.Descriptor) oci.Descriptor {
		body := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"artifactType":"a/sbom","config":{"mediaType":"a/b","digest":%q,"size":%d},"layers":[],"subject":{"mediaType":%q,"digest":%q,"size":%d}}`,
			oci.MediaTypeManifest, oci.SHA256.FromBytes(signature), len(signature), to.MediaType, to.Digest, to.Size)
		return put(oci.Reference{Digest: oci.SHA256.FromBytes(body)}, body).Descriptor
	}
	sbom := refer(arm.Descriptor)
	signed := refer(sbom)
	image := Image{Repository: "hub/app", Tags: mustTags(t, `\d.*`), Platforms: []string{"linux/arm64"}}
	var told []Progress
	report, err := w.cache.Sync(t.Context(), []Image{image}, func(p Progress) { told = append(told, p) })
	check(t, err)
	if report.Images != 1 || report.Blobs != 3 || !w.has(layers[2]) || w.has(layers[1]) || len(told) != 4 || told[3].Blobs != 3 || told[3].All != 3 || told[3].Image != "hub/app:1.0" {
		t.Errorf("%+v after %v", report, told)
	}
	// Now the upstream is not needed any more.
	w.front.fail(down)
	w.pull("hub/app", string(arm.Digest), layers[0], layers[2])
	for _, d := range []oci.Descriptor{nested, sbom, signed} {
		w.pull("hub/app", string(d.Digest))
	}
	for subject, want := range map[oci.Digest]oci.Digest{arm.Digest: sbom.Digest, sbom.Digest: signed.Digest} {
		if _, body := w.get("/v2/hub/app/referrers/" + string(subject)); !strings.Contains(string(body), string(want)) {
			t.Errorf("referrers: %s", body)
		}
	}
	w.front.fail(nil)
	if report, err = w.cache.Sync(t.Context(), []Image{image}, nil); err != nil || report.Blobs != 0 {
		t.Errorf("again: %+v, %v", report, err)
	}
	w.front.fail(down)
	w.clock.move(time.Hour)
	if _, err = w.cache.Sync(t.Context(), []Image{{Repository: "hub/app", Tags: mustTags(t, "z")}}, nil); err == nil || !strings.Contains(err.Error(), "cannot be reached") && !strings.Contains(err.Error(), "has a fault") {
		t.Errorf("while the upstream is down: %v", err)
	}
	w.front.fail(nil)
	w.clock.move(time.Hour)
	for _, wrong := range []Image{{Repository: "team/app"}, {Repository: "hub/app"}, {Repository: "hub/app", Tags: mustTags(t, "z")}} {
		if report, err = w.cache.Sync(t.Context(), []Image{wrong}, nil); err == nil || report.Failed != 1 {
			t.Errorf("%s: %+v, %v", wrong.Repository, report, err)
		}
	}
}

// BuildKit's attestations are entries of the index, and go with the image that they are about.
func TestSync_AttestationOfThePlatform(t *testing.T) {
	w := newWorld(t)
	entries, attestations := []string{}, map[string]oci.Digest{}
	for i, arch := range []string{"amd64", "arm64"} {
		m, about := w.push("app", oci.Tag(arch), noise(110+i, 1000)), w.push("app", oci.Tag("about-"+arch), noise(120+i, 1000))
		attestations[arch] = about.Digest
		entries = append(entries, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"unknown","architecture":"unknown"},"annotations":{"vnd.docker.reference.type":"attestation-manifest","vnd.docker.reference.digest":%q}}`,
			about.MediaType, about.Digest, about.Size, m.Digest), fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":%q}}`, m.MediaType, m.Digest, m.Size, arch))
	}
	index := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, oci.MediaTypeIndex, strings.Join(entries, ","))
	_, err := w.origin.Repository("app").PutManifest(t.Context(), oci.Reference{Tag: "1"}, "", []byte(index), nil)
	check(t, err)
	_, err = w.cache.Sync(t.Context(), []Image{{Repository: "hub/app", Tags: mustTags(t, "1"), Platforms: []string{"linux/amd64"}}}, nil)
	check(t, err)
	w.source.Offline = true
	w.pull("hub/app", string(attestations["amd64"]), noise(120, 1000))
	if resp, _ := w.get("/v2/hub/app/manifests/" + string(attestations["arm64"])); resp.StatusCode != 502 {
		t.Errorf("the attestation of another platform: %s", resp.Status)
	}
}

// An upstream that cannot list referrers, as some do not know that request, keeps nobody from the
// image itself. The run reports it.
func TestSync_ReferrersFail(t *testing.T) {
	w := newWorld(t)
	layer := noise(103, 10_000)
	w.push("app", "v1", layer)
	w.front.fail(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		rw.WriteHeader(http.StatusMethodNotAllowed)
		return true
	})
	report, err := w.cache.Sync(t.Context(), []Image{{Repository: "hub/app", Tags: mustTags(t, "v1")}}, nil)
	if err == nil || !strings.Contains(err.Error(), "referrers of sha256:") || report.Failed != 1 {
		t.Errorf("%+v, %v; want an error about referrers", report, err)
	}
	if text := err.Error(); strings.Contains(text, `"`) || !strings.HasSuffix(text, "; this answer is from the cache") {
		t.Errorf("%s; want the text of the warning alone", text)
	}
	if report.Blobs != 2 || !w.has(layer) {
		t.Errorf("%+v; want the config and the layer", report)
	}
}
