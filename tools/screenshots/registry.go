package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	imageType    = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	emptyType    = "application/vnd.oci.empty.v1+json"
	sbomType     = "application/spdx+json"
	pictureShop  = "web/shop"
	pictureImage = "2.1.0"
)

// descriptor names content.
type descriptor struct {
	MediaType string            `json:"mediaType"`
	Digest    string            `json:"digest"`
	Size      int               `json:"size"`
	Platform  map[string]string `json:"platform,omitempty"`
}

// pusher pushes what the pictures of the registry's pages show.
type pusher struct {
	ctx      context.Context
	registry string // http://host:port
	err      error  // the first one; nothing is pushed after it
}

// stockRegistry fills the registry and returns the URL of an image's page.
func (s *stack) stockRegistry(ctx context.Context) (image string, err error) {
	p := &pusher{ctx: ctx, registry: "http://" + s.registry}
	var last, amd64 descriptor
	for i, tag := range []string{"1.9.4", "2.0.0", "2.0.1", pictureImage} {
		last, amd64 = p.index(pictureShop, tag, i)
	}
	p.index(pictureShop, "latest", 3)
	p.attach(pictureShop, last)
	return p.registry + "/ui/image/" + pictureShop + "@" + amd64.Digest, p.err
}

// index pushes an image for two platforms.
func (p *pusher) index(name, tag string, version int) (index, amd64 descriptor) {
	amd64 = p.image(name, "amd64", version)
	amd64.Platform = map[string]string{"os": "linux", "architecture": "amd64"}
	arm64 := p.image(name, "arm64", version)
	arm64.Platform = map[string]string{"os": "linux", "architecture": "arm64"}
	index = p.manifest(name, tag, indexType, map[string]any{"manifests": []descriptor{amd64, arm64}})
	return index, amd64
}

func (p *pusher) image(name, arch string, version int) descriptor {
	at := func(days int) string {
		return time.Now().Truncate(time.Hour).AddDate(0, 0, -days).UTC().Format(time.RFC3339)
	}
	commands := []struct {
		text string
		size int
	}{
		{"/bin/sh -c #(nop) ADD file:5d673d25da3a14ce in / ", 3_402_000},
		{"RUN /bin/sh -c apk add --no-cache ca-certificates tzdata # buildkit", 812_000},
		{"COPY /out/shop /usr/bin/shop # buildkit", 9_120_000 + 310_000*version},
		{"COPY --chown=65532 web/dist /srv/shop # buildkit", 2_260_000 + 90_000*version},
	}
	var layers []descriptor
	var history []map[string]any
	for i, c := range commands {
		seed := fmt.Sprintf("%s %s %d", name, arch, i)
		if i > 1 {
			seed += fmt.Sprint(" ", version)
		}
		layers = append(layers, p.blob(name, layerType, bytes.Repeat([]byte(seed), c.size/len(seed))))
		history = append(history, map[string]any{"created": at(40 - 9*version), "created_by": c.text})
	}
	config := map[string]any{
		"created": at(28 - 9*version), "architecture": arch, "os": "linux", "history": history,
		"config": map[string]any{
			"User": "65532", "ExposedPorts": map[string]any{"8080/tcp": map[string]any{}}, "Entrypoint": []string{"/usr/bin/shop"}, "Cmd": []string{"--listen", ":8080"},
			"Env": []string{"PATH=/usr/bin:/bin", "TZ=Europe/Vienna"}, "Labels": map[string]string{"org.opencontainers.image.source": "https://git.example.org/shop"},
		},
	}
	text, err := json.Marshal(config)
	p.fail(err)
	return p.manifest(name, "", imageType, map[string]any{"config": p.blob(name, configType, text), "layers": layers})
}

// attach pushes an SBOM that refers to an image.
func (p *pusher) attach(name string, subject descriptor) {
	p.manifest(name, "", imageType, map[string]any{
		"artifactType": sbomType, "config": p.blob(name, emptyType, []byte("{}")), "layers": []descriptor{p.blob(name, sbomType, []byte(`{"spdxVersion":"SPDX-2.3"}`))}, "subject": subject,
	})
}

func (p *pusher) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func describe(mediaType string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: len(content)}
}

func (p *pusher) blob(name, mediaType string, content []byte) descriptor {
	d := describe(mediaType, content)
	p.send(http.MethodPost, "/v2/"+name+"/blobs/uploads/?digest="+url.QueryEscape(d.Digest), "application/octet-stream", content)
	return d
}

// manifest pushes a manifest under a tag, or by its digest without one.
func (p *pusher) manifest(name, tag, mediaType string, doc map[string]any) descriptor {
	doc["schemaVersion"], doc["mediaType"] = 2, mediaType
	content, err := json.Marshal(doc)
	p.fail(err)
	d := describe(mediaType, content)
	if tag == "" {
		tag = d.Digest
	}
	p.send(http.MethodPut, "/v2/"+name+"/manifests/"+tag, mediaType, content)
	return d
}

func (p *pusher) send(method, path, mediaType string, content []byte) {
	if p.err != nil {
		return
	}
	r, err := http.NewRequestWithContext(p.ctx, method, p.registry+path, bytes.NewReader(content))
	if err != nil {
		p.fail(err)
		return
	}
	r.Header.Set("Content-Type", mediaType)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.fail(err)
		return
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	_ = resp.Body.Close() // it is read
	if resp.StatusCode != http.StatusCreated {
		p.fail(fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text))
	}
}
