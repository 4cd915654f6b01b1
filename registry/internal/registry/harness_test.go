package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/filesystem"
	"slipway/registry/internal/storage/hostiletest"
	"slipway/registry/internal/storage/memory"
)

type both = storage.Store

// newRegistry makes a registry on a store.
func newRegistry(s both, o Options) *Registry {
	o.Store = s
	_, o.Remote = s.(*hostiletest.Process)
	return New(o)
}

// again is another process on the same store.
func again(r *Registry, o Options) *Registry {
	o.Store, o.Remote = r.opts.Store, r.store.Remote
	return New(o)
}

// onStores runs the test on each store there is, with deletion enabled.
func onStores(t *testing.T, test func(t *testing.T, r *Registry)) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newRegistry(open(t), Options{DeleteEnabled: true}))
		})
	}
}

var stores = map[string]func(testing.TB) both{
	"memory":     func(testing.TB) both { return memory.New() },
	"filesystem": func(t testing.TB) both { return openFiles(t, t.TempDir()) },
	"hostile": func(t testing.TB) both {
		p := hostiletest.New(hostiletest.Options{}).Process()
		t.Cleanup(func() { p.Close() })
		return p
	},
}

func openFiles(t testing.TB, root string) both {
	t.Helper()
	s, err := filesystem.Open(root)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// pairs are stores that two processes share.
var pairs = map[string]func(testing.TB) (a, b both){
	"memory": func(testing.TB) (a, b both) { m := memory.New(); return m, m },
	"filesystem": func(t testing.TB) (a, b both) {
		root := t.TempDir()
		return openFiles(t, root), openFiles(t, root)
	},
	"hostile": func(t testing.TB) (a, b both) {
		bucket := hostiletest.New(hostiletest.Options{})
		p, q := bucket.Process(), bucket.Process()
		t.Cleanup(func() { p.Close(); q.Close() })
		return p, q
	},
}

// putObject writes an object without the rules.
func putObject(t testing.TB, s storage.Store, key, content string) {
	t.Helper()
	check(t, s.Apply(context.Background(), nil, storage.Stage{{Key: key, Content: []byte(content)}}))
}

// removeObject deletes an object without the rules.
func removeObject(t testing.TB, s storage.Store, key string) {
	t.Helper()
	check(t, s.Apply(context.Background(), nil, storage.Stage{{Key: key, Delete: true}}))
}

// check ends the test on an error.
func deleteTag(ctx context.Context, r Repository, tag oci.Tag) error {
	_, err := r.DeleteTag(ctx, tag)
	return err
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode fails the test unless the first error told to the client has the code.
func wantCode(t testing.TB, err error, code oci.Code) {
	t.Helper()
	err = Fault(err)
	e := oci.NewError(oci.CodeUnknown, nil) // for an error that tells clients nothing
	if es, ok := err.(oci.Errors); ok {     //nolint:errorlint // not inside another
		e = es[0]
	} else if !errors.As(err, &e) && err == nil {
		t.Fatalf("got no error, want code %s", code)
	}
	if e.Code != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
}

func sum(b string) oci.Digest { return oci.SHA256.FromBytes([]byte(b)) }

// pushBlob uploads content and returns its descriptor.
func pushBlob(t testing.TB, repo Repository, content string) oci.Descriptor {
	t.Helper()
	desc, err := tryPushBlob(repo, content, sum(content))
	check(t, err)
	return desc
}

func tryPushBlob(repo Repository, content string, d oci.Digest) (oci.Descriptor, error) {
	u, err := repo.StartUpload(context.Background(), d.Algorithm())
	if err != nil {
		return oci.Descriptor{}, err
	}
	defer u.Close()
	if _, err := u.Append(context.Background(), strings.NewReader(content), -1); err != nil {
		return oci.Descriptor{}, err
	}
	return u.Commit(context.Background(), d)
}

func readBlob(t testing.TB, repo Repository, d oci.Digest) string {
	t.Helper()
	b, err := repo.OpenBlob(context.Background(), d)
	check(t, err)
	defer b.Close()
	var buf bytes.Buffer
	_, err = io.Copy(&buf, b)
	check(t, err)
	if int64(buf.Len()) != b.Size() {
		t.Errorf("blob of %d bytes gives %d", b.Size(), buf.Len())
	}
	return buf.String()
}

// image is the manifest of a test.
type image struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        *oci.Descriptor   `json:"config,omitempty"`
	Layers        []oci.Descriptor  `json:"layers,omitempty"`
	Manifests     []oci.Descriptor  `json:"manifests,omitempty"`
	Subject       *oci.Descriptor   `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

func (m image) bytes() []byte {
	m.SchemaVersion = 2
	if m.MediaType == "" {
		m.MediaType = oci.MediaTypeManifest
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// simpleImage pushes a config and a layer and returns an image of them.
func simpleImage(t testing.TB, repo Repository, seed string) image {
	t.Helper()
	config, layer := pushBlob(t, repo, "config "+seed), pushBlob(t, repo, "layer "+seed)
	config.MediaType = "application/vnd.oci.image.config.v1+json"
	layer.MediaType = "application/vnd.oci.image.layer.v1.tar"
	return image{Config: &config, Layers: []oci.Descriptor{layer}}
}

func put(t testing.TB, repo Repository, ref oci.Reference, m image) PutResult {
	t.Helper()
	body := m.bytes()
	mediaType := m.MediaType
	if mediaType == "" {
		mediaType = oci.MediaTypeManifest
	}
	res, err := repo.PutManifest(context.Background(), ref, mediaType, body, nil)
	check(t, err)
	return res
}

func tagged(t string) oci.Reference { return oci.Reference{Tag: oci.Tag(t)} }

func pushImage(t testing.TB, repo Repository, tag, seed string) oci.Digest {
	t.Helper()
	return put(t, repo, tagged(tag), simpleImage(t, repo, seed)).Descriptor.Digest
}
