package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// What an object store that is measured holds, and how far away it is.
const (
	storeLatency   = 20 * time.Millisecond
	storeLayers    = 10
	storeLayerSize = 1 << 20
	storeClients   = 16
	manyRepos      = 1000
	manyTags       = 10_000
	storeKey       = "benchmark" // and its secret
	storeBucket    = "registry"
	storeRoot      = "bench"
)

// Bucket is where objects are written without a registry.
type Bucket interface {
	Put(ctx context.Context, key string, content []byte) error
	// Count says how many objects there are whose keys begin with prefix.
	Count(ctx context.Context, prefix string) (int, error)
	Close() error
}

// OpenBucket makes the bucket at the endpoint of an S3 server, whose access key and secret are key.
type OpenBucket func(ctx context.Context, endpoint, bucket, key string) (Bucket, error)

const onBucket = `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage:
  s3: {bucket: registry, region: us-east-1, regionendpoint: "{root}", forcepathstyle: true, secure: false, accesskey: benchmark, secretkey: benchmark, rootdirectory: /bench}
  delete: {enabled: true}
http: {addr: "{addr}", secret: benchmark}
`

// Timed is how long a peer took for a piece of work on an object store.
type Timed struct {
	Peer, Work string
	Took       time.Duration
	Memory     float64 // bytes at most so far
}

// OnObjectStore measures the peers in turn on one bucket of a MinIO, whose answers come 20 ms later. Who
// knows no object store is left out.
func (o Options) OnObjectStore(ctx context.Context, open OpenBucket) ([]Timed, error) {
	m, err := o.startMinIO(ctx, open)
	if err != nil {
		return nil, err
	}
	defer m.stop()
	if err := seed(ctx, m.bucket, o.Log); err != nil {
		return nil, err
	}
	return o.eachOnBucket(func(peer Peer) ([]Timed, error) { return o.timeOn(ctx, peer, m.dir, "http://"+m.far) })
}

// eachOnBucket measures the peers in turn that know buckets.
func (o Options) eachOnBucket(measure func(Peer) ([]Timed, error)) (all []Timed, err error) {
	for _, peer := range o.Peers {
		if peer.Name != oursName && peer.Name != distribution3Name {
			continue
		}
		peer.Config = onBucket
		times, err := measure(peer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", peer.Name, err)
		}
		all = append(all, times...)
	}
	return all, nil
}

func (o Options) timeOn(ctx context.Context, peer Peer, dir, endpoint string) (times []Timed, err error) {
	s, err := start(ctx, peer, dir, endpoint)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	work := func(name string, f func() error) {
		if err != nil {
			return
		}
		begun := time.Now()
		if err = f(); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			return
		}
		t := Timed{Peer: peer.Name, Work: name, Took: time.Since(begun)}
		if memory, memoryErr := s.resident(); memoryErr == nil {
			t.Memory = float64(memory)
		}
		fmt.Fprintf(o.Log, "%-16s %-40s %8.2fs\n", peer.Name, name, t.Took.Seconds())
		times = append(times, t)
	}
	for _, clients := range []int{1, storeClients} {
		images := make([]*storeImage, clients)
		for i := range images {
			images[i] = newStoreImage(ctx, s.addr, fmt.Sprintf("%s/%d-%d", strings.ReplaceAll(peer.Name, " ", ""), clients, i))
			defer images[i].close()
		}
		work(fmt.Sprintf("push of %d layers, %d clients", storeLayers, clients), func() error { return eachImage(images, (*storeImage).push) })
		work(fmt.Sprintf("pull of %d layers, %d clients", storeLayers, clients), func() error { return eachImage(images, (*storeImage).pull) })
	}
	c := newClient(ctx, s.addr)
	defer c.close()
	work(fmt.Sprintf("catalog of %d repositories", manyRepos), func() error { return c.pages("/v2/_catalog?n=100", `"many/`, manyRepos) })
	tags := func() error { return c.pages("/v2/tagged/tags/list?n=1000", `"tag-`, manyTags) }
	work(fmt.Sprintf("tags of %d, pages of 1,000", manyTags), tags)
	work(fmt.Sprintf("tags of %d again", manyTags), tags)
	work(fmt.Sprintf("tags of %d, one page", manyTags), func() error { return c.pages("/v2/tagged/tags/list", `"tag-`, manyTags) })
	work("deletion of a manifest among them", func() error {
		_, _, err := c.do(http.MethodDelete, c.url("tagged", "manifests/"+string(seededDigest(map[string]int{"slipway": 1}[peer.Name]))), "", nil, http.StatusAccepted)
		return err
	})
	return times, err
}

// pages reads a list to its end.
func (c *client) pages(path, mark string, want int) error {
	got := 0
	for path != "" {
		req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, "http://"+c.addr+path, nil)
		if err != nil {
			return err
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return unexpected("GET "+path+": "+resp.Status, err)
		}
		got += bytes.Count(content, []byte(mark))
		_, next, _ := strings.Cut(resp.Header.Get("Link"), "<")
		path, _, _ = strings.Cut(next, ">")
		path = strings.TrimPrefix(path, "http://"+c.addr)
	}
	if got < want-1 { // the peer before may have deleted one
		return fmt.Errorf("%d entries, want %d", got, want)
	}
	return nil
}

// storeImage is an image of a client.
type storeImage struct {
	*client
	repo     string
	blobs    []string
	manifest []byte
}

func newStoreImage(ctx context.Context, addr, repo string) *storeImage {
	i := &storeImage{client: newClient(ctx, addr), repo: repo}
	rand.Read(i.body[:storeLayerSize]) //nolint:errcheck // never fails
	return i
}

func eachImage(images []*storeImage, f func(*storeImage) error) error {
	errs := make([]error, len(images))
	var all sync.WaitGroup
	for i, image := range images {
		all.Go(func() { errs[i] = f(image) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// push asks for each blob, sends it by POST, PATCH and PUT as docker does, and tags the image.
func (i *storeImage) push() error {
	var layers strings.Builder
	for n := range storeLayers + 1 {
		i.body[0] = byte(n)
		d := string(oci.SHA256.FromBytes(i.body[:storeLayerSize]))
		if err := i.pushChunked(d, i.body[:storeLayerSize]); err != nil {
			return err
		}
		i.blobs = append(i.blobs, d)
		if n > 0 {
			fmt.Fprintf(&layers, `,{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"%s","size":%d}`, d, storeLayerSize)
		}
	}
	i.manifest = fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[%s]}`,
		manifestType, i.blobs[0], storeLayerSize, layers.String()[1:])
	return i.pushManifest(i.repo, "latest", i.manifest)
}

func (i *storeImage) pushChunked(d string, blob []byte) error {
	if _, _, err := i.do(http.MethodHead, i.url(i.repo, "blobs/"+d), "", nil, http.StatusNotFound); err != nil {
		return err
	}
	header, _, err := i.do(http.MethodPost, i.url(i.repo, "blobs/uploads/"), "", nil, http.StatusAccepted)
	if err != nil {
		return err
	}
	if header, _, err = i.do(http.MethodPatch, i.at(header), "application/octet-stream", blob, http.StatusAccepted); err != nil {
		return err
	}
	_, _, err = i.do(http.MethodPut, i.at(header)+"&digest="+d, "", nil, http.StatusCreated)
	return err
}

func (i *storeImage) at(header http.Header) string {
	at := header.Get("Location")
	if strings.HasPrefix(at, "/") {
		at = "http://" + i.addr + at
	}
	return at
}

func (i *storeImage) pull() error {
	if _, size, err := i.do(http.MethodGet, i.url(i.repo, "manifests/latest"), "", nil, http.StatusOK); err != nil || size != int64(len(i.manifest)) {
		return unexpected(fmt.Sprintf("%d bytes of the manifest", size), err)
	}
	for _, d := range i.blobs {
		if _, size, err := i.do(http.MethodGet, i.url(i.repo, "blobs/"+d), "", nil, http.StatusOK); err != nil || size != storeLayerSize {
			return unexpected(fmt.Sprintf("%d bytes of a layer", size), err)
		}
	}
	return nil
}

// minIO is a server on this machine whose data lies in a directory of its own.
type minIO struct {
	dir    string // for peers, too
	addr   string
	far    string // the same, 20 ms away
	bucket Bucket
	ends   []func() error
}

// startMinIO starts one and opens its bucket. The caller stops it.
func (o Options) startMinIO(ctx context.Context, open OpenBucket) (m *minIO, err error) {
	m = &minIO{}
	defer func() {
		if err != nil {
			m.stop()
		}
	}()
	if m.dir, err = os.MkdirTemp(o.Directory, "bench-store-"); err != nil {
		return m, err
	}
	m.ends = append(m.ends, func() error { return os.RemoveAll(m.dir) })
	if m.addr, err = freeAddr(ctx); err != nil {
		return m, err
	}
	console, err := freeAddr(ctx)
	if err != nil {
		return m, err
	}
	cmd := exec.CommandContext(ctx, "minio", "server", "--quiet", "--address", m.addr, "--console-address", console, filepath.Join(m.dir, "minio"))
	cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+storeKey, "MINIO_ROOT_PASSWORD="+storeKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	if err := cmd.Start(); err != nil {
		return m, err
	}
	m.ends = append(m.ends, func() error { return errors.Join(cmd.Process.Kill(), cmd.Wait()) })
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if m.bucket, err = open(ctx, "http://"+m.addr, storeBucket, storeKey); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return m, err
		}
	}
	m.ends = append(m.ends, m.bucket.Close)
	far, closeFar, err := delayed(ctx, m.addr)
	if err == nil {
		m.far = far
		m.ends = append(m.ends, func() error { closeFar(); return nil })
	}
	return m, err
}

// stop ends the server and removes its data. Nothing of it is needed any more, so no error counts.
func (m *minIO) stop() {
	for _, end := range slices.Backward(m.ends) {
		_ = end()
	}
}

// seededDigest is that of a manifest to which a tag of the many points; only n 0 and 1 have one tag.
func seededDigest(n int) oci.Digest { return oci.SHA256.FromBytes(seededManifest(n)) }

func seededManifest(n int) []byte {
	return fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[],"annotations":{"n":"%d"}}`, manifestType, n)
}

// seed writes many repositories and many tags, as a registry has them.
func seed(ctx context.Context, bucket Bucket, log io.Writer) error {
	begun := time.Now()
	type object struct {
		key     string
		content []byte
	}
	objects := make(chan object)
	var all sync.WaitGroup
	errs := make([]error, storeClients)
	for i := range errs {
		all.Go(func() {
			for o := range objects {
				if errs[i] == nil {
					errs[i] = bucket.Put(ctx, storeRoot+o.key, o.content)
				}
			}
		})
	}
	tag := func(repo oci.Name, tag oci.Tag, d oci.Digest) {
		objects <- object{layout.TagCurrent(repo, tag), layout.Link(d)}
		objects <- object{layout.TagIndex(repo, tag, d), layout.Link(d)}
	}
	for n := range 3 {
		objects <- object{layout.BlobData(seededDigest(n)), seededManifest(n)}
		objects <- object{layout.RevisionLink("tagged", seededDigest(n)), layout.Link(seededDigest(n))}
	}
	for n := range manyRepos {
		repo := oci.Name(fmt.Sprintf("many/%04d", n))
		for layer := range storeLayers {
			d := oci.SHA256.FromBytes(fmt.Append(nil, layer))
			objects <- object{layout.LayerLink(repo, d), layout.Link(d)}
		}
		objects <- object{layout.RevisionLink(repo, seededDigest(2)), layout.Link(seededDigest(2))}
		tag(repo, "latest", seededDigest(2))
	}
	for n := range manyTags {
		tag("tagged", oci.Tag(fmt.Sprintf("tag-%05d", n)), seededDigest(min(n, 2)))
	}
	close(objects)
	all.Wait()
	fmt.Fprintf(log, "seeded in %.1fs\n", time.Since(begun).Seconds())
	return errors.Join(errs...)
}

// delayed listens, and passes connections on to addr. What comes back comes storeLatency later.
func delayed(ctx context.Context, addr string) (front string, stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go relay(ctx, c, addr)
		}
	}()
	return l.Addr().String(), func() { l.Close() }, nil
}

func relay(ctx context.Context, c net.Conn, addr string) {
	defer c.Close()
	up, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(up, c)
		up.(*net.TCPConn).CloseWrite() //nolint:errcheck,forcetypeassert // of Dial
	}()
	type piece struct {
		due   time.Time
		bytes []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 64<<10)
			n, err := up.Read(buf)
			if n > 0 {
				pieces <- piece{time.Now().Add(storeLatency), buf[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := c.Write(p.bytes); err != nil {
			up.Close()
			for range pieces { // until the reader has seen it
			}
			return
		}
	}
}
