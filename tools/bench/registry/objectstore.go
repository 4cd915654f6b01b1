package main

import (
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

	"slipway/tools/bench/process"
)

// What an object store that is measured holds, and how far away it is.
const (
	storeLatency   = 20 * time.Millisecond
	storeLayers    = 10
	storeLayerSize = 1 << 20
	storeClients   = 16
	storeDeletions = 10          // of each client
	storeKey       = "benchmark" // and its secret
	storeBucket    = "registry"
)

const onBucket = `version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage:
  s3: {bucket: registry, region: us-east-1, regionendpoint: "{root}", forcepathstyle: true, secure: false, accesskey: benchmark, secretkey: benchmark, rootdirectory: /bench}
  delete: {enabled: true}
http: {addr: "{addr}", secret: shared-by-all-replicas}
`

// Timed is the time that a peer took for a piece of work on an object store.
type Timed struct {
	Peer, Work string
	Took       time.Duration
	Memory     float64 // bytes at most so far
}

// OnObjectStore measures pushes, pulls and deletions on a bucket of a MinIO whose answers come 20 ms later,
// for the peers that know object stores.
func (o Options) OnObjectStore(ctx context.Context) ([]Timed, error) {
	m, err := o.startMinIO(ctx)
	if err != nil {
		return nil, err
	}
	defer m.stop()
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
	defer s.Stop()
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
		if memory, memoryErr := s.Peak(); memoryErr == nil {
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
	images := make([]*storeImage, storeClients)
	for i := range images {
		images[i] = newStoreImage(ctx, s.addr, fmt.Sprintf("%s/deleted-%d", strings.ReplaceAll(peer.Name, " ", ""), i))
		defer images[i].close()
	}
	if err == nil {
		err = eachImage(images, (*storeImage).pushMany)
	}
	work(fmt.Sprintf("deletion of %d manifests, %d clients", storeClients*storeDeletions, storeClients), func() error {
		return eachImage(images, (*storeImage).deleteMany)
	})
	return times, err
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
		d := digestOf(i.body[:storeLayerSize])
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

// pushMany pushes small images, each with a tag.
func (i *storeImage) pushMany() error {
	for n := range int64(storeDeletions) {
		blob, err := i.pushBlob(i.repo, n, smallBlob)
		if err != nil {
			return err
		}
		manifest := manifestOf(blob, smallBlob, blob, smallBlob)
		if err := i.pushManifest(i.repo, fmt.Sprint("v", n), manifest); err != nil {
			return err
		}
		i.blobs = append(i.blobs, digestOf(manifest))
	}
	return nil
}

// deleteMany deletes them by digest.
func (i *storeImage) deleteMany() error {
	for _, d := range i.blobs {
		if _, _, err := i.do(http.MethodDelete, i.url(i.repo, "manifests/"+d), "", nil, http.StatusAccepted); err != nil {
			return err
		}
	}
	return nil
}

// minIO is a server on this machine with a directory of its own.
type minIO struct {
	dir  string // for peers, too
	far  string // its address, 20 ms away
	ends []func()
}

// startMinIO starts one with a bucket. The caller must stop it.
func (o Options) startMinIO(ctx context.Context) (m *minIO, err error) {
	m = &minIO{}
	defer func() {
		if err != nil {
			m.stop()
		}
	}()
	if m.dir, err = os.MkdirTemp(o.Directory, "bench-store-"); err != nil {
		return m, err
	}
	m.ends = append(m.ends, func() { _ = os.RemoveAll(m.dir) })
	data := filepath.Join(m.dir, "minio")
	if err := os.MkdirAll(filepath.Join(data, storeBucket), 0o700); err != nil { // a directory is a bucket
		return m, err
	}
	addr, err := process.FreeAddr(ctx)
	if err != nil {
		return m, err
	}
	console, err := process.FreeAddr(ctx)
	if err != nil {
		return m, err
	}
	cmd := exec.CommandContext(ctx, "minio", "server", "--quiet", "--address", addr, "--console-address", console, data)
	cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+storeKey, "MINIO_ROOT_PASSWORD="+storeKey, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	probe := newClient(ctx, addr)
	defer probe.close()
	p, err := process.Start(cmd, func() error {
		_, _, err := probe.do(http.MethodGet, "http://"+addr+"/minio/health/ready", "", nil, http.StatusOK)
		return err
	})
	if err != nil {
		return m, err
	}
	m.ends = append(m.ends, p.Stop)
	far, closeFar, err := delayed(ctx, addr)
	if err == nil {
		m.far = far
		m.ends = append(m.ends, closeFar)
	}
	return m, err
}

// stop ends the server and removes its data.
func (m *minIO) stop() {
	for _, end := range slices.Backward(m.ends) {
		end()
	}
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
