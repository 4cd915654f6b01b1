package web

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/web/scanreport"
)

const (
	sarifType  = "application/sarif+json"
	bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	vulnType   = "https://cosign.sigstore.dev/attestation/vuln/v1"
)

// sarif is a report with findings of these scores.
func sarif(scanner string, scores ...string) string {
	var rules, results []string
	for i, s := range scores {
		rules = append(rules, fmt.Sprintf(`{"id":"%d","properties":{"security-severity":%q}}`, i, s))
		results = append(results, fmt.Sprintf(`{"ruleId":"%d","message":{"text":"x"}}`, i))
	}
	return fmt.Sprintf(`{"runs":[{"tool":{"driver":{"name":%q,"rules":[%s]}},"results":[%s]}]}`, scanner, strings.Join(rules, ","), strings.Join(results, ","))
}

// attach attaches a document to a manifest, as oras does.
func (s *site) attach(name oci.Name, subject oci.Descriptor, artifactType, content string, annotations map[string]string) oci.Descriptor {
	s.Helper()
	return s.put(name, oci.Reference{}, map[string]any{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "artifactType": artifactType, "config": s.blob(name, []byte("{}"), "application/vnd.oci.empty.v1+json"),
		"layers": []oci.Descriptor{s.blob(name, []byte(content), artifactType)}, "subject": subject, "annotations": annotations,
	})
}

func on(day int) map[string]string {
	return map[string]string{"org.opencontainers.image.created": time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)}
}

func bundled(statement string) string {
	return `{"dsseEnvelope":{"payload":"` + base64.StdEncoding.EncodeToString([]byte(statement)) + `"}}`
}

const attested = `{"predicateType":"` + vulnType + `","predicate":{"scanner":{"uri":"pkg:x/trivy@1","result":{"SchemaVersion":2,"ArtifactName":"a",
	"Results":[{"Vulnerabilities":[{"VulnerabilityID":"CVE-1","PkgName":"a","Severity":"HIGH"}]}]}}}}`

func TestScans(t *testing.T) {
	s := newSite(t, open)
	b := s.browser()
	shows := func(repository string, wants ...string) {
		t.Helper()
		b.get("/ui/repository/" + repository)
		b.want(200, wants...)
	}

	plain := s.image("plain", "v1", nil, "layer")
	shows("plain", "-findings", "-scan report")
	b.get("/ui/image/plain:v1")
	b.want(200, "-Scan reports")

	// The newest report of each scanner counts, and the worst of them is shown first.
	s.attach("plain", plain, sarifType, sarif("Trivy", "9.8", "9.8", "9.1"), on(1))
	s.attach("plain", plain, sarifType, sarif("trivy", "5.0", "5.1", "1.0"), on(2))
	s.attach("plain", plain, sarifType, sarif("grype"), on(3))
	shows("plain", `<span class="state warn">2 medium</span> <span class="hint">1 low</span>`, "-critical", "-scan report")
	b.get("/ui/image/plain:v1")
	b.want(200, `2 medium</span> <span class="hint">1 low</span> <span class="muted">trivy, `, `<span class="state info">no findings</span> <span class="muted">grype, `, "2026-03-02", "-critical")

	// Attestations: bundles and envelopes as referrers, and tags of cosign 2. Others stay what they are.
	of := s.image("attested", "bundle", nil, "1")
	s.attach("attested", of, bundleType, bundled(attested), map[string]string{"dev.sigstore.bundle.predicateType": vulnType})
	s.attach("attested", of, bundleType, bundled(`{"predicateType":"https://slsa.dev/provenance/v1"}`), map[string]string{"dev.sigstore.bundle.predicateType": "https://slsa.dev/provenance/v1"})
	shows("attested", ">1 high<", ">attestation<")
	of = s.image("statement", "v1", nil, "2")
	s.attach("statement", of, "application/vnd.in-toto+json", attested, nil)
	shows("statement", ">1 high<", "->attestation<")
	of = s.image("other", "v1", nil, "3")
	s.attach("other", of, "application/vnd.in-toto+json", `{"predicateType":"https://slsa.dev/provenance/v1"}`, nil)
	s.attach("other", of, "application/vnd.in-toto+json", `{`, nil)
	shows("other", ">attestation<", "-scan report", "-findings")
	of = s.image("tagged", "v1", nil, "4")
	layer := s.blob("tagged", []byte(bundled(attested)), "application/vnd.dsse.envelope.v1+json")
	layer.Annotations = map[string]string{"predicateType": vulnType}
	provenance := s.blob("tagged", []byte("{"), "application/vnd.dsse.envelope.v1+json")
	provenance.Annotations = map[string]string{"predicateType": "https://slsa.dev/provenance/v1"}
	s.put("tagged", oci.Reference{Tag: oci.Tag("sha256-" + of.Digest.Hex() + ".att")}, map[string]any{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": s.blob("tagged", []byte("{}"), configType), "layers": []oci.Descriptor{provenance, layer},
	})
	shows("tagged", ">1 high<", "-scan report")
}

// Whatever is attached, pages show the image.
func TestScans_Hostile(t *testing.T) {
	s := newSite(t, open)
	b := s.browser()
	shows := func(name oci.Name, wants ...string) {
		t.Helper()
		for range 2 { // the second time from memory
			for _, path := range []string{"/ui/repository/" + string(name), "/ui/image/" + string(name) + ":v1"} {
				b.get(path)
				b.want(200, wants...)
			}
		}
	}
	for name, content := range map[oci.Name]string{"malformed": `{"runs":[{`, "other": `{"spdxVersion":"SPDX-2.3"}`, "empty": `{}`} {
		s.attach(name, s.image(name, "v1", nil, "x"), sarifType, content, nil)
		shows(name, ">scan report<", "-findings")
	}
	s.attach("large", s.image("large", "v1", nil, "x"), sarifType, sarif(strings.Repeat("x", scanreport.MaxReport), "9.8"), nil)
	shows("large", ">scan report<", "-critical")

	evil := s.image("evil", "v1", nil, "x")
	s.attach("evil", evil, sarifType, sarif("<script>alert(1)</script>", "9.8"), map[string]string{"org.opencontainers.image.created": "<script>"})
	shows("evil", "1 critical", "-<script>alert")

	s.attach("name", s.image("name", "v1", nil, "x"), sarifType, sarif(strings.Repeat("y", 100_000), "9.8"), nil)
	shows("name", "1 critical", "-"+strings.Repeat("y", 200))

	s.attach("lost", s.image("lost", "v1", nil, "x"), sarifType, sarif("Trivy", "9.8"), nil)
	if err := s.rules.Repository("lost").DeleteBlob(t.Context(), oci.SHA256.FromBytes([]byte(sarif("Trivy", "9.8")))); err != nil {
		t.Fatal(err)
	}
	shows("lost", ">scan report<", "-critical")
}

// A page reads a bounded amount of reports, remembers them, and a later visit goes on. Signatures are none.
func TestScans_ReadOnce(t *testing.T) {
	store := &readStore{}
	s := newSite(t, open, func(c *setup) { store.Store, c.store = c.store, store })
	const size, images = 8<<20 - 65<<10, 8 // with its manifest, a report counts a fourth of maxScanBytes
	for i := range images {
		d := s.image("app", oci.Tag(fmt.Sprint("v", i)), nil, fmt.Sprint(i))
		s.attach("app", d, sarifType, `{"filler":"`+strings.Repeat("x", size)+`",`+sarif(fmt.Sprint("scanner", i), "9.8")[1:], nil)
		s.attach("app", d, bundleType, "{}", map[string]string{"dev.sigstore.bundle.predicateType": "https://sigstore.dev/cosign/sign/v1"})
	}
	b := s.browser()
	visit := func(done int, most int64) {
		t.Helper()
		store.read.Store(0)
		b.get("/ui/repository/app")
		b.want(200)
		if n := strings.Count(b.page, ">1 critical<"); n != done || strings.Count(b.page, ">scan report<") != images-done {
			t.Errorf("%d reports are read, want %d", n, done)
		}
		if read := store.read.Load(); read > most+1<<20 {
			t.Errorf("%d bytes are read, want at most %d", read, most)
		}
	}
	visit(maxScanBytes/size, maxScanBytes)
	visit(images, maxScanBytes)
	visit(images, 0)
}

// Reports are remembered whatever else is in their manifest, and a page reads all of a manifest in a few visits.
func TestScans_ReadOnceEach(t *testing.T) {
	store := &readStore{}
	s := newSite(t, open, func(c *setup) { store.Store, c.store = c.store, store })
	report := func(scanner string, size int) []byte {
		return []byte(`{"filler":"` + strings.Repeat("x", size) + `",` + sarif(scanner, "9.8")[1:])
	}
	attach := func(name oci.Name, layers ...oci.Descriptor) {
		t.Helper()
		s.put(name, oci.Reference{}, map[string]any{
			"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "artifactType": sarifType, "config": s.blob(name, []byte("{}"), "application/vnd.oci.empty.v1+json"),
			"layers": layers, "subject": s.image(name, "v1", nil, "x"),
		})
	}
	b := s.browser()
	visit := func(name oci.Name, most int64, wants ...string) {
		t.Helper()
		store.read.Store(0)
		b.get("/ui/image/" + string(name) + ":v1")
		b.want(200, wants...)
		if read := store.read.Load(); read > most+1<<20 {
			t.Errorf("%s: %d bytes are read, want at most %d", name, read, most)
		}
	}

	put := func(d oci.Digest, content []byte) {
		t.Helper()
		if err := store.Apply(t.Context(), nil, storage.Stage{{Key: layout.BlobData(d), Content: content}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[oci.Name]struct {
		stored []byte
		again  int64 // bytes that another visit reads
	}{
		"large": {report("grype", 2<<20+1), 0}, // than the manifest says
		"wrong": {report("other", 2<<20), 2 << 20},
	} {
		d := s.blob(name, report("grype", 2<<20), sarifType)
		attach(name, d, s.blob(name, report("trivy", 2<<20), sarifType))
		put(d.Digest, tt.stored)
		visit(name, 4<<20, ">trivy,", "->grype,", "->other,")
		visit(name, tt.again, ">trivy,", "->grype,", "->other,")
		put(d.Digest, report("grype", 2<<20)) // repaired, as by a push
		if tt.again > 0 {
			visit(name, tt.again, ">trivy,", ">grype,")
		}
	}

	lost := report("grype", 0)
	attach("lost", s.blob("lost", report("trivy", 2<<20), sarifType), s.blob("lost", lost, sarifType))
	if err := s.rules.Repository("lost").DeleteBlob(t.Context(), oci.SHA256.FromBytes(lost)); err != nil {
		t.Fatal(err)
	}
	visit("lost", 2<<20, ">trivy,", "->grype,")
	visit("lost", 0, ">trivy,", "->grype,")
	s.blob("lost", lost, sarifType)
	visit("lost", 0, ">trivy,", ">grype,")

	var five []oci.Descriptor
	for _, scanner := range []string{"old", "four", "three", "two", "one"} {
		five = append(five, s.blob("full", report(scanner, scanreport.MaxReport-300), sarifType))
	}
	attach("full", five...)
	visit("full", 4*scanreport.MaxReport, ">one,", ">two,", ">three,", ">four,", "->old,")
	visit("full", 0, ">four,", "->old,")
}

// However many small reports there are, a page reads a bounded number.
func TestScans_Many(t *testing.T) {
	store := &readStore{}
	s := newSite(t, open, func(c *setup) { store.Store, c.store = c.store, store })
	for i := range perPage {
		d := s.image("app", oci.Tag(fmt.Sprint("v", i)), nil, fmt.Sprint(i))
		for j := range maxReferrers {
			s.attach("app", d, sarifType, sarif(fmt.Sprint("scanner", i, "/", j), "9.8"), nil)
		}
	}
	b := s.browser()
	b.get("/ui/repository/app")
	b.want(200)
	store.opened.Store(0)
	b.get("/ui/repository/app") // its manifests are remembered
	if opened, most := store.opened.Load(), int64(maxScanBytes/minScanBytes); opened > most {
		t.Errorf("%d objects are opened, want at most %d", opened, most)
	}

	image := s.image("one", "v1", nil, "x")
	for i := range maxReferrers {
		s.attach("one", image, sarifType, sarif(fmt.Sprint("scanner", i)), nil)
	}
	b.get("/ui/image/one:v1")
	b.want(200, "-There are more than this page lists")
	s.attach("one", image, sarifType, sarif("another"), nil)
	b.get("/ui/image/one:v1")
	b.want(200, "There are more than this page lists")
}
