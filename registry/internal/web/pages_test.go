package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/api"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

var _ API = (*api.API)(nil)

// TestHidden: no page shows the name of a repository that the visitor may not pull from.
func TestHidden(t *testing.T) {
	s := newSite(t)
	m := s.image("web/app", "v1", nil, "layer")
	s.image("web/app", "v2", nil, "layer")
	s.image("secret/plans", "v1", nil, "plans")
	s.image("public/base", "v1", nil, "base")
	layer := oci.SHA256.FromBytes([]byte("layer"))
	paths := []string{"/repository/web/app", "/image/web/app:v1", "/image/web/app@" + string(m.Digest), "/compare/web/app?a=v1&b=v2", "/download/web/app@" + string(layer)}
	for user, sees := range map[string]bool{"": false, "nobody": false, "bob": true, "alice": true, "owner": true} {
		b := s.browser()
		if user != "" {
			b = s.as(user)
		}
		b.get("/ui/")
		wants := []string{"public/base", "-web/app", "-secret/plans"}
		if sees {
			wants[1] = "web/app"
		}
		if user == "owner" {
			wants[2] = "secret/plans"
		}
		b.want(200, wants...)
		b.get("/ui/?q=app")
		if found := strings.Contains(b.page, ">web/app<"); found != sees {
			t.Errorf("%q finds web/app: %v", user, found)
		}
		for _, path := range paths {
			b.get("/ui" + path)
			if sees {
				b.want(200)
			} else {
				b.want(404, "you may not see it")
			}
		}
		b.get("/ui/repository/no/such")
		b.want(404, "-no/such")
	}
}

func TestRepositories(t *testing.T) {
	s := newSite(t, open)
	b := s.browser()
	b.get("/ui/")
	b.want(200, "no repository yet", "docker push 127.0.0.1")
	for i := range 120 {
		s.image(oci.Name(fmt.Sprintf("many/r%03d", i)), "v1", nil, "x")
	}
	s.image("alone/deep/er", "v1", nil, "x")
	s.image("many", "v1", nil, "x")
	s.image("many", "v2", nil, "x")
	waitForNames(b)
	b.get("/ui/")
	b.want(200, `href="/ui/?in=many%2f">many/</a>`, "120 repositories", `href="/ui/repository/many">many</a>`, "alone/deep/er", "-r001", `data-label="Tags">2</td>`)
	b.get("/ui/?in=many%2F")
	b.want(200, "r000", "r049", "-r050", `rel="next"`, "-rel=\"prev\"")
	b.get("/ui/?in=many%2F&page=3")
	b.want(200, "r119", "-r099", `rel="prev"`, "-rel=\"next\"")
	b.get("/ui/?in=many%2F&page=99")
	b.want(200, "r119")
	b.get("/ui/?q=MANY+07")
	b.want(200, "many/r070", "many/r079", "many/r007", "-many/r080")
	b.get("/ui/?q=nothing")
	b.want(200, "No repository matches")
}

// waitForNames waits until the list is read again.
func waitForNames(b *browser) {
	b.Helper()
	for deadline := time.Now().Add(20 * namesFresh); time.Now().Before(deadline); time.Sleep(namesFresh / 30) {
		b.get("/ui/?q=many")
		if strings.Contains(b.page, "many/r") {
			return
		}
	}
	b.Fatal("the list stays old")
}

func TestRepository(t *testing.T) {
	s := newSite(t)
	s.image("web/app", "1.0", nil, "base", "old")
	s.image("web/app", "kept-1", nil, "base")
	a := s.image("web/app", "2.0", nil, strings.Repeat("large", 1000))
	arm := s.image("web/app", "arm", func(config, _ map[string]any) { config["architecture"], config["variant"] = "arm64", "v8" }, "arm")
	index := s.put("web/app", oci.Reference{Tag: "multi"}, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []map[string]any{
		{"mediaType": a.MediaType, "digest": a.Digest, "size": a.Size, "platform": map[string]string{"os": "linux", "architecture": "amd64"}},
		{"mediaType": arm.MediaType, "digest": arm.Digest, "size": arm.Size, "platform": map[string]string{"os": "linux", "architecture": "arm64", "variant": "v8"}},
	}})
	sbom := s.blob("web/app", []byte(`{"spdxVersion":"SPDX-2.3"}`), "application/spdx+json")
	sbom.Annotations = map[string]string{"org.opencontainers.image.title": "sbom.json"}
	attached := s.put("web/app", oci.Reference{}, map[string]any{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "artifactType": "application/spdx+json", "config": s.blob("web/app", []byte("{}"), "application/vnd.oci.empty.v1+json"),
		"layers": []oci.Descriptor{sbom}, "subject": index,
	})
	b := s.as("bob")
	b.get("/ui/repository/web/app")
	b.want(200, "5 tags", "linux/amd64, linux/arm64/v8", `<span class="state info">SBOM</span>`, `kept-1</a> <span class="state odd">protected</span>`, "5.5 KiB", `href="/ui/image/web/app:2.0"`)
	b.get("/ui/repository/web/app?q=AR")
	b.want(200, "1 of 5 tags", ">arm</a>", "->2.0</a>")
	order := func(tags ...string) {
		t.Helper()
		at := 0
		for _, tag := range tags {
			i := strings.Index(b.page[at:], ">"+tag+"</a>")
			if i < 0 {
				t.Fatalf("%s is not in its place:\n%s", tag, b.page)
			}
			at += i
		}
	}
	b.want(200, ">Pushed</th>", `data-label="Pushed"`)
	b.get("/ui/repository/web/app?sort=name")
	order("1.0", "2.0", "arm", "kept-1", "multi")
	b.get("/ui/repository/web/app?sort=size")
	order("multi", "2.0", "1.0")
	b.get("/ui/repository/web/app?sort=-name")
	order("multi", "kept-1", "arm", "2.0", "1.0")
	for i := range maxPushed + 1 { // too many to be dated
		s.image("web/many", oci.Tag(fmt.Sprintf("t%03d", i)), nil, "x")
	}
	b.get("/ui/repository/web/many")
	b.want(200, "201 tags", "->Newest</a>", ">Created</a>")
	order("t000", "t001", "t002")
	s.image("web/versions", "v1.10", nil, "x")
	for _, tag := range []oci.Tag{"v1.9", "v1.2", "v1.10"} { // the last push counts, also of the same image
		s.image("web/versions", tag, nil, "x")
	}
	b.get("/ui/repository/web/versions")
	order("v1.10", "v1.2", "v1.9")
	b.get("/ui/repository/web/versions?sort=name")
	order("v1.2", "v1.9", "v1.10")

	host := strings.TrimPrefix(s.url, "http://")
	b.get("/ui/image/web/app:multi")
	b.want(200, "docker pull "+host+"/web/app:multi", "podman pull "+host+"/web/app:multi", "crane pull ", "docker pull "+host+"/web/app@"+string(index.Digest), "linux/arm64/v8", short(arm.Digest), "SBOM", short(attached.Digest))
	b.get("/ui/image/web/app@" + string(attached.Digest))
	b.want(200, "sbom.json", "Attached to", short(index.Digest), "download/web/app@"+string(sbom.Digest)+"?name=sbom.json")
	b.get("/ui/download/web/app@" + string(sbom.Digest) + "?name=sbom.json")
	b.want(200, "SPDX-2.3")
	if got := b.header.Get("Content-Disposition"); got != "attachment; filename=sbom.json" || b.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a download has %v", b.header)
	}
	b.get("/ui/image/web/app:1.0")
	b.want(200, "RUN make layer-0", "RUN make layer-1", `[&#34;/app&#34;]`, "PATH=/bin", "Compare", "-CMD nothing")
	for _, path := range []string{"/ui/image/web/app:nothing", "/ui/image/web/app@v1", "/ui/image/web/app:" + string(index.Digest), "/ui/download/web/app@" + string(oci.SHA256.FromBytes([]byte("?"))), "/ui/nothing"} {
		b.get(path)
		b.want(404)
	}
}

// A download is in the audit log and an event, like a client's pull.
func TestDownload_IsNoted(t *testing.T) {
	var lines bytes.Buffer
	acts := audit.New(zap.NewNop(), audit.Unclosed{Writer: &lines})
	events := queued(t)
	s := newSite(t, func(c *setup) { c.api.Notify, c.pages.Audit = events, acts })
	blob := s.blob("web/app", []byte("content"), "text/plain")
	b := s.as("bob")
	b.get("/ui/download/web/app@" + string(blob.Digest))
	b.want(200, "content")
	s.as("nobody").get("/ui/download/web/app@" + string(blob.Digest))
	waiting := func() int {
		reports, err := events.Reports()
		if err != nil || len(reports) != 1 {
			t.Fatalf("%+v, %v", reports, err)
		}
		return reports[0].Pulls
	}
	for range 1000 { // the note may come after the answer
		if waiting() > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n := waiting(); n != 1 {
		t.Errorf("%d events", n)
	}
	if err := acts.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := lines.String(), `"method":"GET","repository":"web/app","reference":"`+string(blob.Digest)+`"`; strings.Count(got, `"event":"pull","who":"bob"`) != 1 || strings.Count(got, `"event":"pull"`) != 1 || !strings.Contains(got, want) {
		t.Errorf("the audit log:\n%s", got)
	}
}

// Distribution may have stored manifests that refer to what is no digest. Each page shows the rest.
func TestPages_InvalidDigests(t *testing.T) {
	var store storage.Store
	s := newSite(t, func(c *setup) { store = c.store })
	s.image("web/app", "v1", nil, "x")
	b := s.as("owner")
	for i, invalid := range []string{"", "sha256:", "sha256:../../../../x", "x/y:z", "sha256:" + strings.Repeat("A", 64), strings.Repeat("z", 200_000)} {
		for j, content := range []string{
			`"mediaType":"` + oci.MediaTypeIndex + `","manifests":[{"mediaType":"` + oci.MediaTypeManifest + `","size":1,"digest":"` + invalid + `","platform":{"os":"linux","architecture":"amd64"}}]`,
			`"mediaType":"` + oci.MediaTypeManifest + `","config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":1,"digest":"` + invalid + `"},"layers":[{"size":-5,"digest":"` + invalid + `"}],"subject":{"digest":"` + invalid + `"}`,
		} {
			body := []byte(`{"schemaVersion":2,` + content + `}`)
			d, tag := oci.SHA256.FromBytes(body), oci.Tag(fmt.Sprintf("t%d-%d", i, j))
			err := store.Apply(t.Context(), nil,
				storage.Stage{{Key: layout.BlobData(d), Content: body}, {Key: layout.RevisionLink("web/app", d), Content: layout.Link(d)}},
				storage.Stage{{Key: layout.TagCurrent("web/app", tag), Content: layout.Link(d)}})
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]int{"image/web/app:" + string(tag): 200, "delete/web/app:" + string(tag): 200, "compare/web/app?a=v1&b=" + string(tag): 404, "repository/web/app": 200, "untagged/web/app": 200} {
				b.get("/ui/" + path)
				b.want(want)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	s := newSite(t, open)
	set := func(env, label string) func(config, manifest map[string]any) {
		return func(config, _ map[string]any) {
			settings := config["config"].(map[string]any)
			settings["Env"], settings["Labels"] = []string{"PATH=/bin", "VERSION=" + env}, map[string]string{"stage": label}
		}
	}
	s.image("a", "v1", set("1", "test"), "base", strings.Repeat("o", 500))
	s.image("a", "v2", set("2", "test"), "base", strings.Repeat("n", 1500))
	b := s.browser()
	b.get("/ui/compare/a?a=v1&b=v2")
	b.want(200, "linux/amd64", "Only in v1", "−500 B", "Only in v2", "+1.5 KiB", "In both", "Environment VERSION", "-Environment PATH", "-Label stage", "+1001 B")
	b.get("/ui/compare/a?a=v1&b=v1")
	b.want(200, "same image")
	b.get("/ui/compare/a?a=v1&b=")
	b.want(404)
}

// TestRoot: browsers are led to the pages, and clients get what distribution answers.
func TestRoot(t *testing.T) {
	s := newSite(t, func(s *setup) { s.api.Prefix = "/reg/" })
	s.image("public/base", "v1", nil, "x")
	b := s.browser()
	b.get("/")
	b.want(200)
	if b.page != "" {
		t.Errorf("a client gets %q", b.page)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/", nil)
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	b.do(r, err)
	b.want(200, `href="/reg/ui/repository/public/base"`)
	if b.at != "/reg/ui/" {
		t.Errorf("a browser is led to %s", b.at)
	}
	b.get("/reg/ui")
	b.want(200, "public/base")
	b.get("/ui/")
	b.want(404)
	b.post("/reg/ui/login", "name", "owner", "password", "owner-password", "next", "/reg/ui/repository/public/base")
	b.want(200, "owner")
	if b.at != "/reg/ui/repository/public/base" {
		t.Errorf("the login leads to %s", b.at)
	}
}

// TestPolicy: nothing that somebody has pushed becomes markup, and no page needs script or style
// of its own.
func TestPolicy(t *testing.T) {
	s := newSite(t, open)
	const evil = `<img src=x onerror="alert(1)">"'><script>alert(2)</script>`
	attack := func(config, manifest map[string]any) {
		config["author"] = evil
		config["architecture"] = evil
		config["history"] = []map[string]any{{"created_by": evil}}
		config["config"] = map[string]any{
			"Env": []string{evil + "=" + evil}, "Labels": map[string]string{evil: evil}, "User": evil, "Entrypoint": []string{evil}, "Cmd": []string{evil},
			"WorkingDir": evil, "ExposedPorts": map[string]any{evil: map[string]any{}}, "Volumes": map[string]any{evil: map[string]any{}}, "StopSignal": evil,
		}
		layers := manifest["layers"].([]oci.Descriptor)
		layers[0].Annotations = map[string]string{"org.opencontainers.image.title": evil}
		manifest["annotations"] = map[string]string{evil: "javascript:alert(3)"}
	}
	m := s.image("a", "v1", attack, "x")
	s.image("a", "v2", func(config, manifest map[string]any) { attack(config, manifest); config["author"] = "x" }, "y")
	s.put("a", oci.Reference{Tag: "att"}, map[string]any{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "artifactType": "text/" + evil, "config": s.blob("a", []byte("{}"), "application/vnd.oci.empty.v1+json"),
		"layers": []oci.Descriptor{s.blob("a", []byte("f"), "text/"+evil)}, "subject": m,
	})
	b := s.browser()
	query := "?q=%3Cscript%3Ealert(4)%3C/script%3E&in=%22%3E%3Cscript%3E&next=javascript:alert(5)&a=v1&b=v2&done=%3Cscript%3E"
	for _, path := range []string{"/", "/repository/a", "/image/a:v1", "/image/a@" + string(m.Digest), "/image/a:att", "/compare/a", "/nothing"} {
		b.get("/ui" + path + query)
		if csp := b.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || b.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, b.header)
		}
		body := strings.Replace(strings.Replace(b.page, `<script src="/ui/static/web.`, "", 1), `<script src="/ui/static/theme.`, "", 1)
		for _, bad := range []string{"<script", " style=", " onerror=\"", "<img src=x", `href="javascript:`, `value="javascript:`} {
			if strings.Contains(body, bad) {
				t.Errorf("%s holds %q:\n%s", path, bad, body)
			}
		}
	}
	b.get("/ui/image/a:v1")
	b.want(200, "&lt;script&gt;alert(2)")
}

func TestOff(t *testing.T) {
	handler, err := api.New(api.Options{Registry: newSite(t).rules, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/ui/", "/ui/login"} {
		w := newRecorder()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound {
			t.Errorf("%s without pages: %d", path, w.Code)
		}
	}
}

// TestLargeImages: a pusher decides how much there is to say of an image, not how large a
// page gets or how long it takes.
func TestLargeImages(t *testing.T) {
	s := newSite(t, open)
	many := func(n int, name string) (layers []oci.Descriptor) {
		for range n {
			layers = append(layers, s.blob("a", []byte(name), "application/vnd.oci.image.layer.v1.tar"))
		}
		return layers
	}
	ports, labels := map[string]any{}, map[string]any{}
	for i := range 20_000 {
		ports[fmt.Sprint(i)], labels[fmt.Sprint("l", i)] = map[string]any{}, "v"
	}
	for tag, name := range map[oci.Tag]string{"v1": "x", "v2": "y"} {
		layers := many(1, name)
		for len(layers) < 10_000 {
			layers = append(layers, layers[0])
		}
		s.image("a", tag, func(config, manifest map[string]any) {
			config["config"] = map[string]any{"ExposedPorts": ports, "Labels": labels}
			manifest["layers"] = layers
		})
	}
	b := s.browser()
	for path, left := range map[string]string{"/ui/image/a:v1": "48501 more entries", "/ui/compare/a?a=v1&b=v2": "19000 more entries"} {
		start := time.Now()
		b.get(path)
		b.want(200, left)
		if len(b.page) > 1<<20 {
			t.Errorf("%s: %d bytes", path, len(b.page))
		}
		t.Logf("%s: %d bytes in %v", path, len(b.page), time.Since(start))
	}
	// What is remembered of each image is bounded, too.
	name := strings.Repeat("x", 500_000)
	s.image("b", "v1", func(config, _ map[string]any) { config["os"] = name })
	b.get("/ui/repository/b")
	b.want(200, "-"+name)
}

// What no image is, is pulled by a client that can.
func TestImage_PullOfArtifacts(t *testing.T) {
	s := newSite(t)
	host := strings.TrimPrefix(s.url, "http://")
	artifact := func(tag oci.Tag, configType, artifactType string, annotations map[string]string) oci.Descriptor {
		m := map[string]any{
			"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": s.blob("web/chart", []byte("{}"), configType),
			"layers": []oci.Descriptor{s.blob("web/chart", []byte("content"), "application/octet-stream")}, "annotations": annotations,
		}
		if artifactType != "" {
			m["artifactType"] = artifactType
		}
		return s.put("web/chart", oci.Reference{Tag: tag}, m)
	}
	const empty = "application/vnd.oci.empty.v1+json"
	artifact("1.2.3_build.4", "application/vnd.cncf.helm.config.v1+json", "", nil)
	wasm := artifact("module", empty, "application/vnd.wasm.content.layer.v1+wasm", nil)
	artifact("provenance", empty, "application/vnd.dev.sigstore.bundle.v0.3+json", map[string]string{"dev.sigstore.bundle.predicateType": "https://slsa.dev/provenance/v1"})
	b := s.as("bob")
	b.get("/ui/image/web/chart:1.2.3_build.4")
	b.want(200, "Helm chart", "helm pull oci://"+host+"/web/chart --version 1.2.3&#43;build.4", "-docker pull", "-crane pull")
	b.get("/ui/image/web/chart:module")
	b.want(200, "oras pull "+host+"/web/chart:module", "oras pull "+host+"/web/chart@"+string(wasm.Digest), "-docker pull")
	b.get("/ui/image/web/chart:provenance")
	b.want(200, "attestation", "-signature")
}
