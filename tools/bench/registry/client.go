package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

// client is one connection to a registry.
type client struct {
	ctx  context.Context
	addr string
	http *http.Client
	body []byte // of blobs; the first bytes make it another one

	header http.Header // of each request
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

func newClient(ctx context.Context, addr string) *client {
	transport := &http.Transport{MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, ReadBufferSize: 256 << 10, WriteBufferSize: 256 << 10}
	return &client{ctx: ctx, addr: addr, http: &http.Client{Transport: transport}, body: make([]byte, largeBlob)}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// do sends a request and reads the answer to its end.
func (c *client) do(method, url, contentType string, body []byte, want int) (header http.Header, size int64, err error) {
	req, err := http.NewRequestWithContext(c.ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	maps.Copy(req.Header, c.header)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Accept", manifestType)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	size, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return resp.Header, size, err
}

// unexpected describes what went wrong, with or without an underlying error.
func unexpected(what string, err error) error {
	if err == nil {
		return errors.New(what)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (c *client) url(repo, path string) string {
	return "http://" + c.addr + "/v2/" + repo + "/" + path
}

func (c *client) read(repo, method, path string, size int64) error {
	_, got, err := c.do(method, c.url(repo, path), "", nil, http.StatusOK)
	if err == nil && got != size {
		err = fmt.Errorf("%s %s: %d bytes instead of %d", method, path, got, size)
	}
	return err
}

// pushBlob pushes a blob of its own for each n, by POST and PUT.
func (c *client) pushBlob(repo string, n int64, size int) (digest string, err error) {
	blob := c.body[:size]
	binary.BigEndian.PutUint64(blob, uint64(n))
	return c.push(repo, blob)
}

func (c *client) push(repo string, blob []byte) (digest string, err error) {
	digest = digestOf(blob)
	header, _, err := c.do(http.MethodPost, c.url(repo, "blobs/uploads/"), "", nil, http.StatusAccepted)
	if err != nil {
		return "", err
	}
	at := header.Get("Location")
	if strings.HasPrefix(at, "/") {
		at = "http://" + c.addr + at
	}
	mark := "?"
	if strings.Contains(at, "?") {
		mark = "&"
	}
	_, _, err = c.do(http.MethodPut, at+mark+"digest="+digest, "application/octet-stream", blob, http.StatusCreated)
	return digest, err
}

func (c *client) pushManifest(repo, tag string, manifest []byte) error {
	_, _, err := c.do(http.MethodPut, c.url(repo, "manifests/"+tag), manifestType, manifest, http.StatusCreated)
	return err
}

func (c *client) mount(to, digest, from string) error {
	_, _, err := c.do(http.MethodPost, c.url(to, "blobs/uploads/?mount="+digest+"&from="+from), "", nil, http.StatusCreated)
	return err
}

// pushImage pushes a configuration, a layer of a mebibyte and the manifest.
func (c *client) pushImage(repo string, n int64) error {
	content := fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","n":%d}`, n)
	config, err := c.push(repo, content)
	if err != nil {
		return err
	}
	layer, err := c.pushBlob(repo, n, 1<<20)
	if err != nil {
		return err
	}
	return c.pushManifest(repo, fmt.Sprintf("v%d", n), manifestOf(config, len(content), layer, 1<<20))
}

// manifestOf is an image of one layer.
func manifestOf(config string, configSize int, layer string, layerSize int) []byte {
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
	}
	b, err := json.Marshal(struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}{
		2, manifestType,
		descriptor{"application/vnd.oci.image.config.v1+json", config, configSize},
		[]descriptor{{"application/vnd.oci.image.layer.v1.tar", layer, layerSize}},
	})
	if err != nil {
		panic(err) // strings and numbers cannot fail
	}
	return b
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
