package api

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registry/validation"
)

// The tests in this file hold the demands of distribution-spec 1.1, workflow by
// workflow, in the order of its text.

func TestDeterminingSupport(t *testing.T) {
	s := newServer(t)
	s.do("GET", "/v2/", nil).want(t, 200, "Content-Type", "application/json", "Content-Length", "2")
	s.do("HEAD", "/v2/", nil).want(t, 200)
}

func TestPullOfWhatIsNotThere(t *testing.T) {
	s := newServer(t)
	image := s.pushManifest("a", "latest", oci.MediaTypeManifest, s.image("a", "x"))
	s.pushBlob("only/blobs", []byte("x"))
	missing := string(digestOf([]byte("missing")))
	for _, method := range []string{"GET", "HEAD"} {
		s.do(method, "/v2/a/manifests/absent", nil).wantError(t, 404, oci.CodeManifestUnknown)
		s.do(method, "/v2/a/manifests/"+missing, nil).wantError(t, 404, oci.CodeManifestUnknown)
		s.do(method, "/v2/a/manifests/.INVALID_MANIFEST_NAME", nil).wantError(t, 404, oci.CodeManifestUnknown)
		s.do(method, "/v2/a/manifests/"+strings.Repeat("x", 129), nil).wantError(t, 404, oci.CodeManifestUnknown)
		s.do(method, "/v2/a/manifests/sha256:baz", nil).wantError(t, 400, oci.CodeDigestInvalid)
		s.do(method, "/v2/a/blobs/"+missing, nil).wantError(t, 404, oci.CodeBlobUnknown)
		s.do(method, "/v2/a/blobs/sha256:baz", nil).wantError(t, 400, oci.CodeDigestInvalid)
		s.do(method, "/v2/a/blobs/md5:d41d8cd98f00b204e9800998ecf8427e", nil).wantError(t, 400, oci.CodeDigestInvalid)
		s.do(method, "/v2/none/manifests/latest", nil).wantError(t, 404, oci.CodeNameUnknown)
		s.do(method, "/v2/none/manifests/"+missing, nil).wantError(t, 404, oci.CodeNameUnknown)
		s.do(method, "/v2/none/tags/list", nil).wantError(t, 404, oci.CodeNameUnknown)
		s.do(method, "/v2/a/manifests/"+string(digestOf([]byte("layer of x"))), nil).wantError(t, 404, oci.CodeManifestUnknown)
		s.do(method, "/v2/a/blobs/"+string(image), nil).wantError(t, 404, oci.CodeBlobUnknown)
		s.do(method, "/v2/only/blobs/manifests/latest", nil).wantError(t, 404, oci.CodeManifestUnknown)
		s.do(method, "/v2/only/manifests/latest", nil).wantError(t, 404, oci.CodeNameUnknown)
	}
}

func TestManifestsAreServedVerbatim(t *testing.T) {
	s := newServer(t)
	image := append(s.image("a", "x", `"unknown":{"b":1,  "a":"ü"}`), "\n  "...)
	d := s.pushManifest("a", "v1", oci.MediaTypeManifest, image)
	for _, ref := range []string{"v1", string(d)} {
		want := []string{
			"Content-Type", oci.MediaTypeManifest, "Content-Length", strconv.Itoa(len(image)),
			"Docker-Content-Digest", string(d), "Etag", `"` + string(d) + `"`, "Accept-Ranges", "", "Cache-Control", "",
		}
		if got := s.do("GET", "/v2/a/manifests/"+ref, nil).want(t, 200, want...); !bytes.Equal(got.body, image) {
			t.Errorf("by %s: %q, want %q", ref, got.body, image)
		}
		s.do("HEAD", "/v2/a/manifests/"+ref, nil).want(t, 200, want...)
		s.do("GET", "/v2/a/manifests/"+ref, nil, "Range", "bytes=0-1").want(t, 200)
	}
}

// Every type that clients push, and the answer's type is the one pushed.
func TestManifestTypes(t *testing.T) {
	s := newServer(t)
	image := s.image("a", "x")
	d := s.pushManifest("a", "oci", oci.MediaTypeManifest, image)
	docker := bytes.Replace(image, []byte(oci.MediaTypeManifest), []byte(oci.MediaTypeDockerManifest), 1)
	dd := s.pushManifest("a", "docker", oci.MediaTypeDockerManifest, docker)
	layer := `"layers":[` + describe("application/vnd.oci.empty.v1+json", s.pushBlob("a", []byte("{}")), 2) + `]`
	empty := `"config":` + describe("application/vnd.oci.empty.v1+json", digestOf([]byte("{}")), 2, `"data":"e30="`)
	for _, c := range []struct{ name, mediaType, body string }{
		{"index", oci.MediaTypeIndex, `"manifests":[` + describe(oci.MediaTypeManifest, d, len(image), `"platform":{"os":"linux","architecture":"amd64"}`) + `]`},
		{"empty index", oci.MediaTypeIndex, `"manifests":[]`},
		{"list", oci.MediaTypeDockerList, `"manifests":[` + describe(oci.MediaTypeDockerManifest, dd, len(docker)) + `]`},
		{"artifact", oci.MediaTypeManifest, `"artifactType":"application/vnd.example",` + empty + `,` + layer},
		{"artifact of nothing", oci.MediaTypeManifest, `"artifactType":"application/vnd.example",` + empty + `,"layers":[]`},
		{"artifact index", oci.MediaTypeIndex, `"artifactType":"application/vnd.example","manifests":[]`},
		{"layers elsewhere", oci.MediaTypeManifest, empty + `,"layers":[` + describe("application/vnd.oci.image.layer.nondistributable.v1.tar", digestOf([]byte("far")), 3, `"urls":["https://store.example.com/x"]`) + `]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tag := strings.ReplaceAll(c.name, " ", "-")
			body := []byte(`{"schemaVersion":2,"mediaType":"` + c.mediaType + `",` + c.body + `}`)
			s.pushManifest("a", tag, c.mediaType, body)
			if got := s.do("GET", "/v2/a/manifests/"+tag, nil).want(t, 200, "Content-Type", c.mediaType); !bytes.Equal(got.body, body) {
				t.Errorf("%s, want %s", got.body, body)
			}
		})
	}
	nested := []byte(`{"schemaVersion":2,"manifests":[` + describe(oci.MediaTypeManifest, d, len(image)) + `]}`)
	di := s.pushManifest("a", "inner", oci.MediaTypeIndex, nested)
	s.pushManifest("a", "outer", oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"manifests":[`+describe(oci.MediaTypeIndex, di, len(nested))+`]}`))
	s.do("GET", "/v2/a/manifests/outer", nil).want(t, 200, "Content-Type", oci.MediaTypeIndex) // without a mediaType in the document
}

func TestPushingManifests(t *testing.T) {
	s := newServer(t, func(s *setup) { s.options.MaxManifestSize, s.rules.MaxManifestSize = 64<<10, 64<<10 })
	image := s.image("a", "x")
	d := digestOf(image)
	put := func(ref string, body []byte, headers ...string) answer {
		return s.do("PUT", "/v2/a/manifests/"+ref, body, headers...)
	}
	const oct = oci.MediaTypeManifest
	got := put("latest", image, "Content-Type", oct+"; charset=utf-8").want(t, 201, "Docker-Content-Digest", string(d), "Content-Length", "0", "Oci-Subject", "", "Oci-Tag", "")
	if want := s.url + "/v2/a/manifests/" + string(d); got.location(t) != want {
		t.Errorf("Location %s, want %s", got.location(t), want)
	}
	s.do("GET", got.location(t), nil).want(t, 200)
	put(string(d), image, "Content-Type", oct).want(t, 201)
	put("no-type", image).want(t, 201)

	put(string(digestOf([]byte("other"))), image, "Content-Type", oct).wantError(t, 400, oci.CodeDigestInvalid)
	put(".bad", image, "Content-Type", oct).wantError(t, 400, oci.CodeTagInvalid)
	put("sha256:1", image, "Content-Type", oct).wantError(t, 400, oci.CodeDigestInvalid)
	put("bad", []byte("{"), "Content-Type", oct).wantError(t, 400, oci.CodeManifestInvalid)
	put("bad", image, "Content-Type", "text/plain").wantError(t, 400, oci.CodeManifestInvalid)
	put("bad", image, "Content-Type", oci.MediaTypeIndex).wantError(t, 400, oci.CodeManifestInvalid)
	missing := bytes.ReplaceAll(image, []byte("sha256:"), []byte("sha256:0"))
	put("bad", missing, "Content-Type", oct).wantError(t, 400, oci.CodeManifestInvalid)
	gone := []byte(`{"schemaVersion":2,"config":` + describe("x", digestOf([]byte("1")), 1) + `,"layers":[` + describe("x", digestOf([]byte("2")), 1) + `]}`)
	var told struct {
		Errors []struct{ Code, Detail string }
	}
	if err := json.Unmarshal(put("bad", gone, "Content-Type", oct).wantError(t, 400, oci.CodeManifestBlobUnknown).body, &told); err != nil || len(told.Errors) != 2 || told.Errors[0].Detail == "" {
		t.Errorf("the missing blobs are told as %+v", told)
	}
	s.do("GET", "/v2/a/manifests/bad", nil).wantError(t, 404, oci.CodeManifestUnknown)

	fill := func(n int) []byte {
		return append(image, bytes.Repeat([]byte(" "), n-len(image))...)
	}
	put("fits", fill(64<<10), "Content-Type", oct).want(t, 201)
	put("large", fill(64<<10+1), "Content-Type", oct).wantError(t, 413, oci.CodeManifestInvalid)
	s.send("PUT", "/v2/a/manifests/large", io.MultiReader(bytes.NewReader(fill(64<<10+1))), "Content-Type", oct).wantError(t, 413, oci.CodeManifestInvalid)
}

func TestManifestsOfFourMegabytes(t *testing.T) {
	s := newServer(t)
	image := s.image("a", "x", `"annotations":{"k":"`+strings.Repeat("A", 4<<20-1000)+`"}`)
	d := s.pushManifest("a", "large", oci.MediaTypeManifest, image)
	if got := s.do("GET", "/v2/a/manifests/large", nil).want(t, 200, "Docker-Content-Digest", string(d)); !bytes.Equal(got.body, image) {
		t.Error("a large manifest comes back changed")
	}
}

func TestTagParameters(t *testing.T) {
	s := newServer(t)
	image := s.image("a", "x")
	d := string(digestOf(image))
	s.do("PUT", "/v2/a/manifests/"+d+"?tag=one&tag=two&tag=one", image, "Content-Type", oci.MediaTypeManifest).want(t, 201, "Oci-Tag", "one, two", "Docker-Content-Digest", d)
	s.do("GET", "/v2/a/manifests/two", nil).want(t, 200, "Docker-Content-Digest", d)
	s.do("PUT", "/v2/a/manifests/"+d+"?tag=.bad", image, "Content-Type", oci.MediaTypeManifest).wantError(t, 400, oci.CodeTagInvalid)
	many := "?tag=x" + strings.Repeat("&tag=x", maxTagsPerPut)
	s.do("PUT", "/v2/a/manifests/"+d+many, image, "Content-Type", oci.MediaTypeManifest).wantError(t, 414, oci.CodeTagInvalid)
}

func TestBlobsByPostAndPut(t *testing.T) {
	s := newServer(t)
	for _, content := range [][]byte{[]byte("a blob"), {}, bytes.Repeat([]byte("0123456789"), 50_000)} {
		d := string(digestOf(content))
		start := s.do("POST", "/v2/a/b/blobs/uploads/", nil).want(t, 202, "Range", "0-0", "Docker-Upload-Uuid", "*", "Content-Length", "0", "Location", "*")
		done := s.do("PUT", with(start.location(t), "digest", d), content, "Content-Type", "application/octet-stream").want(t, 201, "Docker-Content-Digest", d, "Content-Length", "0")
		if want := s.url + "/v2/a/b/blobs/" + d; done.location(t) != want {
			t.Errorf("Location %s, want %s", done.location(t), want)
		}
		want := []string{
			"Docker-Content-Digest", d, "Content-Length", strconv.Itoa(len(content)), "Content-Type", "application/octet-stream",
			"Etag", `"` + d + `"`, "Cache-Control", "max-age=31536000", "Accept-Ranges", "bytes",
		}
		if got := s.do("GET", done.location(t), nil).want(t, 200, want...); !bytes.Equal(got.body, content) {
			t.Errorf("%d bytes come back as %d", len(content), len(got.body))
		}
		s.do("HEAD", done.location(t), nil).want(t, 200, want...)
		s.do("GET", start.location(t), nil).wantError(t, 404, oci.CodeBlobUploadUnknown)
	}
}

func TestBlobsBySinglePost(t *testing.T) {
	s := newServer(t)
	content := []byte("posted at once")
	d := string(digestOf(content))
	post := "/v2/a/blobs/uploads/?digest="
	got := s.do("POST", post+d, content).want(t, 201, "Docker-Content-Digest", d)
	s.do("GET", got.location(t), nil).want(t, 200)
	s.do("POST", post+string(digestOf(nil)), nil).want(t, 201)
	s.send("POST", post+d, io.MultiReader(bytes.NewReader(content))).want(t, 201)
	s.do("POST", post+d, nil).want(t, 202, "Location", "*") // begins an upload, as at registries without single POST
	s.do("POST", post+d, []byte("other")).wantError(t, 400, oci.CodeDigestInvalid)
	s.do("POST", post+"md5:1", content).wantError(t, 400, oci.CodeDigestInvalid)
	s.do("POST", "/v2/a/blobs/uploads?digest="+d, content).want(t, 201) // without the slash
}

func TestBlobsInChunks(t *testing.T) {
	s := newServer(t)
	content := []byte("first,second,third")
	d := string(digestOf(content))
	at := s.do("POST", "/v2/a/blobs/uploads/", nil, "Content-Length", "0").want(t, 202).location(t)
	at = s.do("PATCH", at, content[:6], "Content-Range", "0-5").want(t, 202, "Range", "0-5", "Content-Length", "0", "Docker-Upload-Uuid", "*").location(t)
	s.do("GET", at, nil).want(t, 204, "Range", "0-5", "Docker-Upload-Uuid", "*", "Location", "*")
	s.do("HEAD", at, nil).want(t, 204, "Range", "0-5")

	// Out of order, and where to go on.
	s.do("PATCH", at, content[13:], "Content-Range", "13-17").wantError(t, 416, oci.CodeRangeInvalid, "Range", "0-5")
	again := s.do("PATCH", at, content[:6], "Content-Range", "0-5").wantError(t, 416, oci.CodeRangeInvalid, "Location", "*")
	s.do("PUT", with(again.location(t), "digest", d), content[13:], "Content-Range", "13-17").wantError(t, 416, oci.CodeRangeInvalid)

	at = s.do("PATCH", again.location(t), content[6:13], "Content-Range", "6-12").want(t, 202, "Range", "0-12").location(t)
	s.do("PATCH", at, content[13:], "Content-Range", "13-14").wantError(t, 400, oci.CodeSizeInvalid)
	s.do("PATCH", at, content[13:], "Content-Range", "bytes=13-17").wantError(t, 416, oci.CodeRangeInvalid)
	at = s.do("PATCH", at, content[13:], "Content-Range", "13-17").want(t, 202).location(t)
	done := s.do("PUT", with(at, "digest", d), nil, "Content-Range", "13-17").want(t, 201) // of no chunk
	if got := s.do("GET", done.location(t), nil).want(t, 200); !bytes.Equal(got.body, content) {
		t.Errorf("the chunks became %q", got.body)
	}
}

func TestLastChunkInThePut(t *testing.T) {
	s := newServer(t)
	content := []byte("first,last")
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	at = s.do("PATCH", at, content[:6], "Content-Range", "0-5").want(t, 202).location(t)
	done := with(at, "digest", string(digestOf(content)))
	s.do("PUT", done, content[6:], "Content-Range", "0-3").wantError(t, 416, oci.CodeRangeInvalid)
	s.do("PUT", done, content[6:], "Content-Range", "6-8").wantError(t, 400, oci.CodeSizeInvalid)
	s.do("PUT", done, content[6:], "Content-Range", "6-9").want(t, 201)
}

// A chunk without a Content-Length whose body and Content-Range differ is refused; what has come of the range stays.
func TestBlobsAsStreams(t *testing.T) {
	s := newServer(t)
	content := bytes.Repeat([]byte("stream"), 100_000)
	stream := func(b []byte) io.Reader { return io.MultiReader(bytes.NewReader(b)) } // no Content-Length
	for _, c := range []struct {
		body, differs string
		end           int
	}{{"short", "199-300", 249}, {"long", "199-200", 200}} {
		t.Run(c.body, func(t *testing.T) {
			at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
			at = s.send("PATCH", at, stream(content[:99])).want(t, 202, "Range", "0-98").location(t)
			s.send("PATCH", at, stream(content[99:199]), "Content-Range", "98-197").wantError(t, 416, oci.CodeRangeInvalid)
			at = s.send("PATCH", at, stream(content[99:199]), "Content-Range", "99-198").want(t, 202, "Range", "0-198").location(t)
			s.send("PATCH", at, stream(content[199:250]), "Content-Range", c.differs).wantError(t, 400, oci.CodeSizeInvalid)
			at = s.do("GET", at, nil).want(t, 204, "Range", fmt.Sprint("0-", c.end)).location(t)
			at = s.send("PATCH", at, stream(content[c.end+1:])).want(t, 202).location(t)
			s.do("PUT", with(at, "digest", string(digestOf(content))), nil).want(t, 201)
		})
	}
}

func TestClosingAnUpload(t *testing.T) {
	s := newServer(t)
	content := []byte("content")
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	at = s.do("PATCH", at, content).want(t, 202).location(t)
	s.do("PUT", at, nil).wantError(t, 400, oci.CodeDigestInvalid)
	s.do("PUT", with(at, "digest", "sha256:zz"), nil).wantError(t, 400, oci.CodeDigestInvalid)
	s.do("PUT", with(at, "digest", "md5:d41d8cd98f00b204e9800998ecf8427e"), nil).wantError(t, 400, oci.CodeDigestInvalid)
	s.do("PUT", with(at, "digest", string(digestOf([]byte("other")))), nil).wantError(t, 400, oci.CodeDigestInvalid)
	s.do("PUT", with(at, "digest", string(digestOf(content))), nil).want(t, 201) // the upload outlived the mistakes
	s.do("PUT", with(at, "digest", string(digestOf(content))), nil).wantError(t, 404, oci.CodeBlobUploadUnknown)
	s.do("PATCH", at, content).wantError(t, 404, oci.CodeBlobUploadUnknown)
	s.do("PATCH", "/v2/a/blobs/uploads/..%2f..", content).wantError(t, 404, oci.CodeNameUnknown)
	s.do("PATCH", "/v2/a/blobs/uploads/nothing", content).wantError(t, 404, oci.CodeBlobUploadUnknown)
}

func TestCancellingAnUpload(t *testing.T) {
	s := newServer(t)
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	s.do("PATCH", at, []byte("x")).want(t, 202)
	s.do("DELETE", at, nil).want(t, 204, "Docker-Upload-Uuid", "*") // by a Location of some time ago
	s.do("DELETE", at, nil).wantError(t, 404, oci.CodeBlobUploadUnknown)
	s.do("GET", at, nil).wantError(t, 404, oci.CodeBlobUploadUnknown)
}

func TestUploadState(t *testing.T) {
	s := newServer(t)
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	bare, _, _ := strings.Cut(at, "?")
	for _, method := range []string{"PATCH", "PUT", "DELETE"} {
		s.do(method, bare+"?digest="+string(digestOf(nil))+"&_state=tampered", []byte("x")).wantError(t, 404, oci.CodeBlobUploadInvalid)
	}
	other := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	_, state, _ := strings.Cut(other, "?")
	s.do("PATCH", bare+"?"+state, []byte("x")).wantError(t, 404, oci.CodeBlobUploadInvalid)

	s.do("PATCH", bare, []byte("12")).want(t, 202, "Range", "0-1")
	stale := s.do("PATCH", at, []byte("34")).wantError(t, 416, oci.CodeRangeInvalid, "Range", "0-1")
	s.do("PATCH", stale.location(t), []byte("34")).want(t, 202, "Range", "0-3")
	s.do("PUT", bare+"?digest="+string(digestOf([]byte("1234"))), nil).want(t, 201)

	replica := newServer(t, func(s *setup) { s.options.Secret = []byte("another") })
	foreign := replica.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	if _, state, _ := strings.Cut(foreign, "_state="); strings.Contains(at, state) {
		t.Error("two secrets sign alike")
	}
}

func TestMounting(t *testing.T) {
	s := newServer(t)
	content := []byte("to be mounted")
	d := string(s.pushBlob("from", content))
	got := s.do("POST", "/v2/to/blobs/uploads/?mount="+d+"&from=from", nil).want(t, 201, "Docker-Content-Digest", d, "Content-Length", "0")
	if want := s.url + "/v2/to/blobs/" + d; got.location(t) != want {
		t.Errorf("Location %s, want %s", got.location(t), want)
	}
	s.do("GET", got.location(t), nil).want(t, 200)
	s.do("HEAD", "/v2/third/blobs/"+d, nil).want(t, 404)
	for _, query := range []string{
		"mount=" + string(digestOf([]byte("missing"))) + "&from=from", "mount=" + d, "mount=" + d + "&from=nowhere",
		"mount=" + d + "&from=IN/VALID", "mount=sha256:short&from=from",
	} {
		s.do("POST", "/v2/fourth/blobs/uploads/?"+query, nil).want(t, 202, "Location", "*", "Docker-Upload-Uuid", "*", "Range", "0-0")
	}
}

func TestSHA512(t *testing.T) {
	s := newServer(t)
	content := []byte("sha512")
	d := fmt.Sprintf("sha512:%x", sha512.Sum512(content))
	at := s.do("POST", "/v2/a/blobs/uploads/?digest-algorithm=sha512", nil).want(t, 202).location(t)
	if u, err := url.Parse(at); err != nil {
		t.Error(err)
	} else if doc, err := base64.URLEncoding.DecodeString(u.Query().Get("_state")); err != nil || !bytes.Contains(doc, []byte(`"Algorithm":"sha512"`)) {
		t.Errorf("the state is %q, %v; want the algorithm in it", doc, err)
	}
	at = s.do("PATCH", at, content).want(t, 202).location(t)
	done := s.do("PUT", with(at, "digest", d), nil).want(t, 201, "Docker-Content-Digest", d)
	if got := s.do("GET", done.location(t), nil).want(t, 200, "Docker-Content-Digest", d, "Etag", `"`+d+`"`); !bytes.Equal(got.body, content) {
		t.Errorf("comes back as %q", got.body)
	}
	s.do("HEAD", "/v2/a/blobs/"+d, nil).want(t, 200, "Docker-Content-Digest", d)
	s.do("POST", "/v2/a/blobs/uploads/?digest="+d, content).want(t, 201, "Docker-Content-Digest", d)
	s.do("POST", "/v2/b/blobs/uploads/?from=a&mount="+d, nil).want(t, 201, "Docker-Content-Digest", d)
	s.do("POST", "/v2/a/blobs/uploads/?digest-algorithm=md5", nil).wantError(t, 400, oci.CodeDigestInvalid)

	image := s.image("a", "x")
	md := fmt.Sprintf("sha512:%x", sha512.Sum512(image))
	s.do("PUT", "/v2/a/manifests/"+md+"?tag=long", image, "Content-Type", oci.MediaTypeManifest).want(t, 201, "Docker-Content-Digest", md, "Oci-Tag", "long")
	s.do("GET", "/v2/a/manifests/"+md, nil).want(t, 200, "Docker-Content-Digest", md)
	s.do("GET", "/v2/a/manifests/long", nil).want(t, 200, "Docker-Content-Digest", md)
}

func TestListingTags(t *testing.T) {
	s := newServer(t, func(s *setup) { s.options.TagsMax = 3 })
	image := s.image("a", "x")
	s.pushManifest("a", string(digestOf(image)), oci.MediaTypeManifest, image)
	if got := s.do("GET", "/v2/a/tags/list", nil).want(t, 200); string(got.body) != "{\"name\":\"a\",\"tags\":[]}\n" {
		t.Errorf("a repository without tags lists %s", got.body)
	}
	for _, tag := range []string{"b", "A", "c", "1.0", "_x"} {
		s.pushManifest("a", tag, oci.MediaTypeManifest, image)
	}
	for _, c := range []struct{ query, tags, link string }{
		{"", `["1.0","A","_x","b","c"]`, ""},
		{"?n=0", `[]`, ""},
		{"?n=2", `["1.0","A"]`, `</v2/a/tags/list?last=A&n=2>; rel="next"`},
		{"?n=2&last=A", `["_x","b"]`, `</v2/a/tags/list?last=b&n=2>; rel="next"`},
		{"?n=2&last=_x", `["b","c"]`, ""},
		{"?n=100", `["1.0","A","_x"]`, `</v2/a/tags/list?last=_x&n=3>; rel="next"`},
		{"?last=AA", `["_x","b","c"]`, ""},
		{"?last=zz", `[]`, ""},
	} {
		got := s.do("GET", "/v2/a/tags/list"+c.query, nil).want(t, 200, "Content-Type", "application/json", "Link", c.link)
		if want := `{"name":"a","tags":` + c.tags + "}\n"; string(got.body) != want {
			t.Errorf("%s: %s, want %s", c.query, got.body, want)
		}
	}
	for _, n := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		s.do("GET", "/v2/a/tags/list?n="+n, nil).wantError(t, 400, oci.CodePaginationInvalid)
	}
	s.do("HEAD", "/v2/a/tags/list", nil).want(t, 200, "Content-Length", "*")
}

func TestCatalog(t *testing.T) {
	s := newServer(t, func(s *setup) { s.options.CatalogMax = 3 })
	s.do("GET", "/v2/_catalog", nil).want(t, 200, "Content-Type", "application/json")
	if got := s.do("GET", "/v2/_catalog", nil).body; string(got) != "{\"repositories\":[]}\n" {
		t.Errorf("an empty registry lists %s", got)
	}
	for _, name := range []string{"b", "a/b", "a", "a-b"} {
		s.pushManifest(name, "latest", oci.MediaTypeManifest, s.image(name, "x"))
	}
	s.pushBlob("only/blobs", []byte("x"))
	for _, c := range []struct{ query, names, link string }{
		{"?n=0", `[]`, ""},
		{"?n=1", `["a"]`, `</v2/_catalog?last=a&n=1>; rel="next"`},
		{"?n=2", `["a","a/b"]`, `</v2/_catalog?last=a%2Fb&n=2>; rel="next"`},
		{"?n=2&last=a/b", `["a-b","b"]`, ""},
		{"?n=3&last=zz", `[]`, ""},
		{"", `["a","a/b","a-b"]`, `</v2/_catalog?last=a-b&n=3>; rel="next"`},
	} {
		got := s.do("GET", "/v2/_catalog"+c.query, nil).want(t, 200, "Link", c.link)
		if want := `{"repositories":` + c.names + "}\n"; string(got.body) != want {
			t.Errorf("%s: %s, want %s", c.query, got.body, want)
		}
	}
	for _, n := range []string{"-1", "x", "4"} {
		s.do("GET", "/v2/_catalog?n="+n, nil).wantError(t, 400, oci.CodePaginationInvalid)
	}
}

func TestReferrers(t *testing.T) {
	s := newServer(t)
	image := s.image("a", "x")
	subject := s.pushManifest("a", "latest", oci.MediaTypeManifest, image)
	about := `"subject":` + describe(oci.MediaTypeManifest, subject, len(image))
	own := s.image("a", "sbom", `"artifactType":"a/sbom"`, about, `"annotations":{"k":"v"}`)
	plain := s.image("a", "plain", about)
	index := []byte(`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `",` + about + `,"manifests":[]}`)
	url := "/v2/a/referrers/" + string(subject)
	list := func(query string, headers ...string) map[oci.Digest]oci.Descriptor {
		t.Helper()
		got := s.do("GET", url+query, nil).want(t, 200, append(headers, "Content-Type", oci.MediaTypeIndex)...)
		var doc struct {
			SchemaVersion int
			MediaType     string
			Manifests     []oci.Descriptor
		}
		if err := json.Unmarshal(got.body, &doc); err != nil || doc.SchemaVersion != 2 || doc.MediaType != oci.MediaTypeIndex || doc.Manifests == nil {
			t.Fatalf("not an index: %s", got.body)
		}
		byDigest := map[oci.Digest]oci.Descriptor{}
		for _, d := range doc.Manifests {
			byDigest[d.Digest] = d
		}
		return byDigest
	}
	if got := list("", "Oci-Filters-Applied", ""); len(got) != 0 {
		t.Errorf("referrers of a lonely manifest: %v", got)
	}
	push := func(ref string, mediaType string, body []byte) oci.Digest {
		s.do("PUT", "/v2/a/manifests/"+ref, body, "Content-Type", mediaType).want(t, 201, "Oci-Subject", string(subject))
		return digestOf(body)
	}
	dOwn := push("sbom", oci.MediaTypeManifest, own)
	dPlain := push(string(digestOf(plain)), oci.MediaTypeManifest, plain)
	dIndex := push("idx", oci.MediaTypeIndex, index)
	s.pushManifest("a", "another", oci.MediaTypeManifest, s.image("a", "another", `"subject":`+describe(oci.MediaTypeManifest, dOwn, len(own))))
	s.pushManifest("b", "elsewhere", oci.MediaTypeManifest, s.image("b", "elsewhere", about))
	got := list("")
	if len(got) != 3 {
		t.Fatalf("%d referrers, want 3", len(got))
	}
	if d := got[dOwn]; d.ArtifactType != "a/sbom" || d.Annotations["k"] != "v" || d.MediaType != oci.MediaTypeManifest || d.Size != int64(len(own)) {
		t.Errorf("with an artifact type: %+v", d)
	}
	if d := got[dPlain]; d.ArtifactType != "application/vnd.oci.image.config.v1+json" {
		t.Errorf("without: %+v", d)
	}
	if d := got[dIndex]; d.ArtifactType != "" || d.MediaType != oci.MediaTypeIndex {
		t.Errorf("index: %+v", d)
	}
	if got := list("?artifactType=a/sbom", "Oci-Filters-Applied", "artifactType"); len(got) != 1 || got[dOwn].Digest == "" {
		t.Errorf("filtered: %v", got)
	}
	if got := list("?artifactType=a/none", "Oci-Filters-Applied", "artifactType"); len(got) != 0 {
		t.Errorf("filtered for nothing: %v", got)
	}

	seen, next := map[string]bool{}, url+"?n=1&artifactType="
	for pages := 0; next != ""; pages++ {
		page := s.do("GET", next, nil).want(t, 200)
		seen[string(page.body)] = true
		link := page.Header.Get("Link")
		next = strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		if pages > 3 {
			t.Fatal("the pages have no end")
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d pages of one, want 3", len(seen))
	}

	s.do("DELETE", "/v2/a/manifests/"+string(dOwn), nil).want(t, 202)
	if got := list(""); len(got) != 2 {
		t.Errorf("%d referrers after a deletion, want 2", len(got))
	}
	s.do("GET", "/v2/a/referrers/sha256:zz", nil).wantError(t, 400, oci.CodeDigestInvalid)
	s.do("GET", "/v2/a/referrers/"+string(digestOf([]byte("none"))), nil).want(t, 200)
}

// A subject may come later than what refers to it.
func TestSubjectThatIsMissing(t *testing.T) {
	s := newServer(t)
	missing := digestOf([]byte("later"))
	body := s.image("a", "x", `"subject":`+describe(oci.MediaTypeManifest, missing, 5))
	s.do("PUT", "/v2/a/manifests/tag", body, "Content-Type", oci.MediaTypeManifest).want(t, 201, "Oci-Subject", string(missing))
	if got := s.do("GET", "/v2/a/referrers/"+string(missing), nil).want(t, 200); !bytes.Contains(got.body, []byte(digestOf(body))) {
		t.Errorf("referrers of a missing subject: %s", got.body)
	}
}

func TestDeleting(t *testing.T) {
	s := newServer(t)
	image := s.image("a", "x")
	d := string(s.pushManifest("a", "one", oci.MediaTypeManifest, image))
	s.pushManifest("a", "two", oci.MediaTypeManifest, image)
	s.do("DELETE", "/v2/a/manifests/one", nil).want(t, 202)
	s.do("GET", "/v2/a/manifests/one", nil).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("DELETE", "/v2/a/manifests/one", nil).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("GET", "/v2/a/manifests/two", nil).want(t, 200)
	s.do("DELETE", "/v2/a/manifests/"+d, nil).want(t, 202)
	s.do("GET", "/v2/a/manifests/"+d, nil).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("GET", "/v2/a/manifests/two", nil).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("DELETE", "/v2/a/manifests/"+d, nil).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("DELETE", "/v2/a/manifests/.bad", nil).wantError(t, 404, oci.CodeManifestUnknown)
	s.do("DELETE", "/v2/none/manifests/"+d, nil).wantError(t, 404, oci.CodeNameUnknown)

	blob := "/v2/a/blobs/" + string(s.pushBlob("a", []byte("gone soon")))
	s.pushBlob("b", []byte("gone soon"))
	s.do("DELETE", blob, nil).want(t, 202, "Content-Length", "0")
	s.do("GET", strings.Replace(blob, "/a/", "/b/", 1), nil).want(t, 200)
	s.do("GET", blob, nil).wantError(t, 404, oci.CodeBlobUnknown)
	s.do("DELETE", blob, nil).wantError(t, 404, oci.CodeBlobUnknown)
	s.do("DELETE", "/v2/a/blobs/sha256:1", nil).wantError(t, 400, oci.CodeDigestInvalid)
}

func TestDeletionDisabled(t *testing.T) {
	s := newServer(t, func(s *setup) { s.options.DeleteEnabled, s.rules.DeleteEnabled = false, false })
	d := string(s.pushManifest("a", "latest", oci.MediaTypeManifest, s.image("a", "x")))
	for _, path := range []string{"manifests/latest", "manifests/" + d, "manifests/absent", "blobs/" + d} {
		got := s.do("DELETE", "/v2/a/"+path, nil).wantError(t, 405, oci.CodeUnsupported, "Allow", "*")
		if strings.Contains(got.Header.Get("Allow"), "DELETE") {
			t.Errorf("what is refused is allowed: %s", got.Header.Get("Allow"))
		}
	}
	s.do("GET", "/v2/a/manifests/latest", nil).want(t, 200)
	at := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202).location(t)
	s.do("DELETE", at, nil).want(t, 204) // cancelling is no deletion
}

func TestReadOnly(t *testing.T) {
	s := newServer(t, func(s *setup) { s.options.ReadOnly, s.rules.ReadOnly = true, true })
	repositoryRows(func(row *row, path string) {
		got := s.do(row.method, path, nil)
		if row.method != http.MethodGet && row.method != http.MethodHead {
			got.wantError(t, 405, oci.CodeUnsupported, "Allow", "GET, HEAD")
		} else if got.StatusCode == http.StatusMethodNotAllowed {
			t.Errorf("%s %s is refused", row.method, path)
		}
	})
	s.do("OPTIONS", "/v2/a/manifests/x", nil).want(t, 200, "Allow", "GET, HEAD")
}

func TestImmutableTags(t *testing.T) {
	names, err := pattern.ParseNames([]string{"**"})
	if err != nil {
		t.Fatal(err)
	}
	tags, err := pattern.ParseTags([]string{"v.*"})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, func(s *setup) { s.rules.Immutable = []registry.TagRule{{Repositories: names, Tags: tags}} })
	d := s.pushManifest("a", "v1", oci.MediaTypeManifest, s.image("a", "x"))
	s.do("PUT", "/v2/a/manifests/v1", s.image("a", "y"), "Content-Type", oci.MediaTypeManifest).wantError(t, 409, oci.CodeDenied)
	s.do("DELETE", "/v2/a/manifests/v1", nil).wantError(t, 409, oci.CodeDenied)
	s.do("GET", "/v2/a/manifests/v1", nil).want(t, 200, "Docker-Content-Digest", string(d))
}

func TestSparseIndexes(t *testing.T) {
	index := []byte(`{"schemaVersion":2,"manifests":[` + describe(oci.MediaTypeManifest, digestOf([]byte("absent")), 6, `"platform":{"os":"linux","architecture":"amd64"}`) + `]}`)
	strict := newServer(t)
	strict.pushBlob("a", []byte("x"))
	strict.do("PUT", "/v2/a/manifests/i", index, "Content-Type", oci.MediaTypeIndex).wantError(t, 400, oci.CodeManifestBlobUnknown)
	lax := newServer(t, func(s *setup) { s.rules.Validation.Platforms = validation.PlatformsNone })
	lax.do("PUT", "/v2/a/manifests/i", index, "Content-Type", oci.MediaTypeIndex).want(t, 201)
}
