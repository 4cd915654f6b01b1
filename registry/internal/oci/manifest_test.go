package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	someConfig = `{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"` + emptySHA256 + `","size":2}`
	someLayer  = `{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"` + emptySHA512 + `","size":3}`
	someChild  = `{"mediaType":"` + MediaTypeManifest + `","digest":"` + emptySHA256 + `","size":4,"platform":{"architecture":"amd64","os":"linux"}}`
)

func TestParseManifest(t *testing.T) {
	docker := func(mt, rest string) string { return `{"schemaVersion":2,"mediaType":"` + mt + `",` + rest + `}` }
	for _, c := range []struct {
		name, contentType, body string
		wrong                   string // part of the detail; "" if it is right
	}{
		{"oci", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"layers":[` + someLayer + `]}`, ""},
		{"oci with its type", MediaTypeManifest, docker(MediaTypeManifest, `"config":`+someConfig+`,"layers":[]`), ""},
		{"parameters and case are passed over", "Application/VND.oci.image.manifest.v1+json; charset=utf-8", `{"schemaVersion":2,"config":` + someConfig + `}`, ""},
		{"no content type", "", docker(MediaTypeManifest, `"config":`+someConfig), ""},
		{"neither type", "", `{"schemaVersion":2,"config":` + someConfig + `}`, "unsupported manifest media type"},
		{"schema2", MediaTypeDockerManifest, docker(MediaTypeDockerManifest, `"config":`+someConfig+`,"layers":null`), ""},
		{"index", MediaTypeIndex, `{"schemaVersion":2,"manifests":[` + someChild + `]}`, ""},
		{"index of nothing", MediaTypeIndex, `{"schemaVersion":2,"manifests":[]}`, ""},
		{"index of null", MediaTypeIndex, docker(MediaTypeIndex, `"manifests":null`), ""},
		{"index that looks like a manifest", MediaTypeIndex, `{"schemaVersion":2,"manifests":null}`, "cannot be told from"},
		{"list", MediaTypeDockerList, docker(MediaTypeDockerList, `"manifests":[`+someChild+`]`), ""},
		{"extra fields", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"new":{"a":[1]}}`, ""},

		{"not json", MediaTypeManifest, `{"schemaVersion":2`, "not valid JSON"},
		{"trailing data", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `}{}`, "not valid JSON"},
		{"wrong shape", MediaTypeManifest, `[]`, "a JSON object is expected, not: array"},
		{"text for a number", MediaTypeManifest, `{"schemaVersion":"2"}`, "schemaVersion: string does not belong there"},
		{"number for text, inside", MediaTypeManifest, `{"schemaVersion":2,"layers":[{"digest":5}]}`, "layers.digest: number does not belong there"},
		{"number that is too large", MediaTypeManifest, `{"schemaVersion":2,"layers":[{"size":99999999999999999999}]}`, "layers.size: number 99999999999999999999 does not belong there"},
		{"unknown type", "application/json", `{"schemaVersion":2,"config":` + someConfig + `}`, "unsupported manifest media type"},
		{"schema1", mediaTypeSchema1Signed, `{"schemaVersion":1}`, "unsupported manifest media type"},
		{"schema version", MediaTypeManifest, `{"config":` + someConfig + `}`, "schema version 0"},
		{"schema2 without its type", MediaTypeDockerManifest, `{"schemaVersion":2,"config":` + someConfig + `}`, "mediaType is required"},
		{"other type inside", MediaTypeManifest, docker(MediaTypeDockerManifest, `"config":`+someConfig), "mediaType in manifest is"},
		{"manifest with manifests", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"manifests":[]}`, "belong to an index"},
		{"index with layers", MediaTypeIndex, `{"schemaVersion":2,"manifests":[],"layers":[]}`, "belong to a manifest"},
		{"index with config", MediaTypeIndex, `{"schemaVersion":2,"manifests":[],"config":` + someConfig + `}`, "belong to a manifest"},
		{"fsLayers", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"fsLayers":[]}`, "fsLayers"},
		{"no config", MediaTypeManifest, `{"schemaVersion":2,"layers":[]}`, "no config"},
		{"config digest", MediaTypeManifest, `{"schemaVersion":2,"config":{"digest":"sha256:0","size":1}}`, "config: digest"},
		{"layer digest", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"layers":[` + someLayer + `,{"size":1}]}`, "layers[1]: digest"},
		{"layer size", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"layers":[{"digest":"` + emptySHA256 + `","size":-1}]}`, "negative"},
		{"child digest", MediaTypeIndex, `{"schemaVersion":2,"manifests":[{"digest":"../x"}]}`, "manifests[0]: digest"},
		{"key in another case", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"Layers":[]}`, "twice, or in the wrong case"},
		{"key in a folded letter", MediaTypeManifest, `{"\u017fchemaVersion":2,"config":` + someConfig + `}`, "twice, or in the wrong case"},
		{"key twice", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"config" : {}}`, "twice, or in the wrong case"},
		{"key deeper down", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"x":{"config":"config","CONFIG":":"},"y":"\"layers\":"}`, ""},
		{"subject digest", MediaTypeManifest, `{"schemaVersion":2,"config":` + someConfig + `,"subject":{"digest":"md5:0"}}`, "subject: digest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseManifest(c.contentType, []byte(c.body))
			if c.wrong == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeManifestInvalid || !strings.Contains(e.Text(), c.wrong) {
				t.Fatalf("error %v, want MANIFEST_INVALID with %q", err, c.wrong)
			}
		})
	}
}

func TestHostileShapes(t *testing.T) {
	for what, body := range map[string]string{
		"objects": `{"manifests":[` + strings.Repeat(`{},`, maxObjects) + `{}]}`,
		"numbers": `{"x":[` + strings.Repeat(`0,`, maxElements) + `0]}`,
		"depth":   strings.Repeat(`[`, maxDepth+1),
	} {
		if _, err := ReadManifest([]byte(body)); err == nil || !strings.Contains(err.Error(), "too many or too deeply") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	entry := `{"digest":"` + string(SHA256.FromBytes(nil)) + `"}`
	fine := `{"manifests":[` + strings.Repeat(entry+",", 10_000) + entry + `],"x":"` + strings.Repeat(`[{,`, maxElements) + `"}`
	if m, err := ReadManifest([]byte(fine)); err != nil || len(m.Manifests) != 10_001 {
		t.Errorf("a large index: error %v", err)
	}
	for _, cut := range []string{``, `"`, `"\`, `{"a`, `{"a\"`, `{"a" `} {
		if _, err := ReadManifest([]byte(cut)); err == nil {
			t.Errorf("%q is read", cut)
		}
	}
}

// TestLongValuesAreNotRepeated: a push of megabytes of nonsense gets an error, and the log a line, of
// ordinary length.
func TestLongValuesAreNotRepeated(t *testing.T) {
	long := strings.Repeat("7", 1<<20)
	for what, body := range map[string]string{
		"type":   `{"schemaVersion":2,"mediaType":"` + long + `"}`,
		"digest": `{"schemaVersion":2,"config":{"digest":"` + long + `"}}`,
		"number": `{"schemaVersion":` + long + `}`,
	} {
		_, err := ParseManifest(MediaTypeManifest, []byte(body))
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", what, len(fmt.Sprint(err)))
		}
	}
	if _, err := ParseManifest(long, []byte(`{"schemaVersion":2}`)); err == nil || len(err.Error()) > 1000 {
		t.Errorf("content type: an error of %d bytes", len(fmt.Sprint(err)))
	}
	if _, err := ReadReferences([]byte(`{"layers":[{"size":` + long + `}]}`)); err == nil || len(err.Error()) > 1000 {
		t.Errorf("references: an error of %d bytes", len(fmt.Sprint(err)))
	}
}

func TestReadManifestDerivesTheType(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                            MediaTypeManifest,
		`{"config":` + someConfig + `}`: MediaTypeManifest,
		`{"manifests":[]}`:              MediaTypeIndex,
		`{"mediaType":"` + MediaTypeDockerList + `"}`: MediaTypeDockerList,
		`{"schemaVersion":1}`:                         mediaTypeSchema1,
		`{"schemaVersion":1,"signatures":[]}`:         mediaTypeSchema1Signed,
	} {
		m, err := ReadManifest([]byte(body))
		if err != nil || m.MediaType != want {
			t.Errorf("%s: type %+v, error %v, want %s", body, m, err, want)
		}
	}
	if _, err := ReadManifest([]byte("\x00")); err == nil {
		t.Error("no error for what isn't JSON")
	}
}

// TestStoredManifestsOfOthers: distribution looks neither at artifactType nor at
// subject, nor at the annotations of Docker's types, and takes what it was sent.
func TestStoredManifestsOfOthers(t *testing.T) {
	for _, odd := range []string{`"artifactType":5`, `"subject":"x"`, `"subject":{"digest":5,"size":"1"}`, `"annotations":{"a":1,"b":"2"}`, `"annotations":[]`} {
		body := []byte(`{"mediaType":"` + MediaTypeDockerManifest + `",` + odd + `,"config":` + someConfig + `,"layers":[` + someLayer + `]}`)
		m, err := ReadManifest(body)
		if err != nil || m.MediaType != MediaTypeDockerManifest || len(m.Layers) != 1 || m.Config == nil {
			t.Errorf("%s: %+v, %v", odd, m, err)
		}
		if refs, err := ReadReferences(body); err != nil || len(refs.Needed) != 2 || refs.Subject != "" {
			t.Errorf("%s: %+v, %v", odd, refs, err)
		}
		if _, err := ParseManifest(MediaTypeDockerManifest, []byte(`{"schemaVersion":2,`+string(body[1:]))); err == nil {
			t.Errorf("%s can be pushed", odd)
		}
	}
	for _, wrong := range []string{`[]`, `5`, `{"layers":5}`, `{"config":"x"}`} {
		if _, err := ReadManifest([]byte(wrong)); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
	m, err := ReadManifest([]byte(`{"subject":"x","config":` + someConfig + `}`))
	if err != nil || m.Subject != nil {
		t.Errorf("a subject that is none: %+v, %v", m, err)
	}
}

func TestReferrerDescriptor(t *testing.T) {
	subject := `"subject":` + someChild + `,"annotations":{"k":"v"}`
	for _, c := range []struct{ name, body, artifactType string }{
		{"own type", `{"artifactType":"a/own","config":` + someConfig + `,` + subject + `}`, "a/own"},
		{"config's type", `{"config":` + someConfig + `,` + subject + `}`, "application/vnd.oci.image.config.v1+json"},
		{"index", `{"manifests":[],` + subject + `}`, ""},
		{"index with a type", `{"artifactType":"a/own","manifests":[],` + subject + `}`, "a/own"},
	} {
		m, err := ReadManifest([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		d := m.Descriptor(emptySHA256, 7)
		if d.ArtifactType != c.artifactType || d.Size != 7 || d.Digest != emptySHA256 || d.MediaType != m.MediaType || d.Annotations["k"] != "v" {
			t.Errorf("%s: %+v", c.name, d)
		}
		if m.Subject == nil || m.Subject.Digest != emptySHA256 {
			t.Errorf("%s: subject %+v", c.name, m.Subject)
		}
	}
	m, _ := ReadManifest([]byte(`{"mediaType":"` + MediaTypeDockerManifest + `",` + subject + `}`))
	if m.Subject != nil {
		t.Error("a Docker manifest has no subject")
	}
}

func TestMediaTypes(t *testing.T) {
	for mt, want := range map[string][3]bool{ // manifest, index, non-distributable
		MediaTypeManifest:           {true, false, false},
		MediaTypeDockerManifest:     {true, false, false},
		MediaTypeIndex:              {true, true, false},
		MediaTypeDockerList:         {true, true, false},
		MediaTypeDockerForeignLayer: {false, false, true},
		"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip": {false, false, true},
		"application/vnd.oci.image.layer.v1.tar":                       {false, false, false},
		"":                                                             {},
	} {
		if got := [3]bool{IsManifest(mt), IsIndex(mt), NonDistributable(mt)}; got != want {
			t.Errorf("%q: %v, want %v", mt, got, want)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add(MediaTypeManifest, []byte(`{"schemaVersion":2,"config":`+someConfig+`,"layers":[`+someLayer+`]}`))
	f.Add(MediaTypeIndex, []byte(`{"schemaVersion":2,"manifests":[`+someChild+`],"subject":`+someConfig+`}`))
	f.Add("", []byte(`{"schemaVersion":1,"signatures":[]}`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		m, err := ParseManifest(contentType, body)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeManifestInvalid {
				t.Fatalf("error of another kind: %#v", err)
			}
			return
		}
		if !json.Valid(body) || !IsManifest(m.MediaType) {
			t.Fatalf("accepted %q as %q", body, m.MediaType)
		}
		for _, list := range [][]Descriptor{m.Layers, m.Manifests} {
			for _, d := range list {
				if _, err := ParseDigest(string(d.Digest)); err != nil || d.Size < 0 {
					t.Fatalf("accepted the descriptor %+v", d)
				}
			}
		}
		if again, err := ReadManifest(body); err != nil || again.MediaType != m.MediaType {
			t.Fatalf("read back as %+v, error %v", again, err)
		}
	})
}

// Distribution 3 stores an index that lists what is no digest if validation.manifests.indexes.platforms doesn't name all.
func TestReadManifest_LeavesOutInvalidDigests(t *testing.T) {
	valid := Descriptor{Digest: SHA256.FromBytes(nil)}
	for _, invalid := range []string{"", "x", "sha256:", "sha256:ab", "sha256:../..", "blake3:" + valid.Digest.Hex()} {
		for _, kind := range []string{MediaTypeManifest, MediaTypeIndex} {
			body := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"digest":%q},"subject":{"digest":%[2]q},"layers":[{"digest":%[2]q},{"digest":%[3]q}],"manifests":[{"digest":%[2]q},{"digest":%[3]q}]}`, kind, invalid, valid.Digest)
			m, err := ReadManifest([]byte(body))
			if err != nil || m.Config != nil || m.Subject != nil || !reflect.DeepEqual(append(m.Layers, m.Manifests...), []Descriptor{valid}) {
				t.Errorf("%q: %+v, %v", invalid, m, err)
			}
		}
	}
}

func TestReadReferences(t *testing.T) {
	a, b, c, s := SHA256.FromBytes([]byte("a")), SHA256.FromBytes([]byte("b")), SHA512.FromBytes([]byte("c")), SHA256.FromBytes([]byte("s"))
	tests := []struct {
		name, body string
		want       References
	}{
		{"manifest", fmt.Sprintf(`{"config":{"digest":%q},"layers":[{"digest":%q},{"digest":%q}]}`, a, b, c), References{Needed: []Digest{a, b, c}}},
		{"index", fmt.Sprintf(`{"manifests":[{"digest":%q}],"subject":{"digest":%q}}`, a, s), References{Needed: []Digest{a}, Subject: s}},
		{"both at once", fmt.Sprintf(`{"config":{"digest":%q},"manifests":[{"digest":%q}]}`, a, b), References{Needed: []Digest{a, b}}},
		{"schema 1", fmt.Sprintf(`{"schemaVersion":1,"fsLayers":[{"blobSum":%q},{"blobSum":%q}]}`, a, b), References{Needed: []Digest{a, b}}},
		{"artifact", fmt.Sprintf(`{"blobs":[{"digest":%q}],"subject":{"digest":%q}}`, a, s), References{Needed: []Digest{a}, Subject: s}},
		{
			"foreign layer",
			fmt.Sprintf(`{"layers":[{"mediaType":"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip","digest":%q,"urls":["https://x.y/z"]}]}`, a),
			References{Needed: []Digest{a}},
		},
		{"no digests", `{"config":{"digest":"x"},"layers":[{}],"subject":{"digest":"sha256:../.."}}`, References{}},
	}
	for _, tt := range tests {
		got, err := ReadReferences([]byte(tt.body))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if !slices.Equal(got.Needed, tt.want.Needed) || got.Subject != tt.want.Subject {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
	for _, body := range []string{"", "[]", "{", "\x00", `{"layers":7}`} {
		if _, err := ReadReferences([]byte(body)); err == nil {
			t.Errorf("%q is read", body)
		}
	}
}
