package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
)

// What lies in a bucket whose garbage is collected.
const (
	garbageRepos  = 10
	garbageLayers = 10
)

// CollectOnObjectStore measures how long each peer takes to delete images by the API, 16 clients
// at once, and then to collect their blobs by its command, beside the server. The bucket is that of
// OnObjectStore, and holds nothing else.
func (o Options) CollectOnObjectStore(ctx context.Context, open OpenBucket, blobs int) ([]Timed, error) {
	m, err := o.startMinIO(ctx, open)
	if err != nil {
		return nil, err
	}
	defer m.stop()
	return o.eachOnBucket(func(peer Peer) ([]Timed, error) {
		return o.collectOn(ctx, peer, m.dir, "http://"+m.far, m.bucket, blobs)
	})
}

func (o Options) collectOn(ctx context.Context, peer Peer, dir, endpoint string, bucket Bucket, blobs int) ([]Timed, error) {
	images, err := seedGarbage(ctx, bucket, peer.Name, blobs/garbageLayers)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, peer, dir, endpoint)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	begun := time.Now()
	if err := deleteImages(ctx, s.addr, images); err != nil {
		return nil, err
	}
	deletion := Timed{Peer: peer.Name, Work: fmt.Sprintf("deletion of %d manifests", len(images)), Took: time.Since(begun)}
	fmt.Fprintf(o.Log, "%-16s %-40s %8.2fs\n", deletion.Peer, deletion.Work, deletion.Took.Seconds())
	args := []string{"garbage-collect", "-m", "-q", filepath.Join(dir, "config")}
	if peer.Name == oursName {
		args = append(args, "--age", "0s")
	}
	begun = time.Now()
	cmd := exec.CommandContext(ctx, peer.Command, args...)
	cmd.Env = append(os.Environ(), peer.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	collection := Timed{Peer: peer.Name, Work: fmt.Sprintf("collection of %d blobs", blobs), Took: time.Since(begun)}
	fmt.Fprintf(o.Log, "%-16s %-40s %8.2fs\n", collection.Peer, collection.Work, collection.Took.Seconds())
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		collection.Memory = float64(usage.Maxrss) * 1024 // on Linux
	}
	left, err := bucket.Count(ctx, storeRoot+layout.Blobs)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d blobs are left", left)
	}
	both := Timed{Peer: peer.Name, Work: "both", Took: deletion.Took + collection.Took, Memory: collection.Memory}
	return []Timed{deletion, collection, both}, err
}

// image is a manifest that is deleted.
type image struct {
	repo   oci.Name
	digest oci.Digest
}

// seedGarbage writes images of layers of their own.
func seedGarbage(ctx context.Context, bucket Bucket, peer string, n int) ([]image, error) {
	images := make([]image, n)
	err := atOnce(n, func(_, i int) error {
		repo := oci.Name(fmt.Sprintf("garbage/%d", i%garbageRepos))
		put := func(key string, content []byte) error { return bucket.Put(ctx, storeRoot+key, content) }
		var layers []string
		for l := range garbageLayers - 1 { // the configuration is the tenth
			blob := fmt.Appendf(nil, "%s %d %d", peer, i, l)
			d := oci.SHA256.FromBytes(blob)
			layers = append(layers, fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"%s","size":%d}`, d, len(blob)))
			if err := errors.Join(put(layout.BlobData(d), blob), put(layout.LayerLink(repo, d), layout.Link(d))); err != nil {
				return err
			}
		}
		config := fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","n":"%s %d"}`, peer, i)
		c := oci.SHA256.FromBytes(config)
		manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[%s]}`,
			manifestType, c, len(config), strings.Join(layers, ","))
		m, tag := oci.SHA256.FromBytes(manifest), oci.Tag(fmt.Sprint("v", i))
		images[i] = image{repo, m}
		return errors.Join(
			put(layout.BlobData(c), config), put(layout.LayerLink(repo, c), layout.Link(c)),
			put(layout.BlobData(m), manifest), put(layout.RevisionLink(repo, m), layout.Link(m)),
			put(layout.TagIndex(repo, tag, m), layout.Link(m)), put(layout.TagCurrent(repo, tag), layout.Link(m)),
		)
	})
	return images, err
}

func deleteImages(ctx context.Context, addr string, images []image) error {
	clients := make([]*client, storeClients)
	for i := range clients {
		clients[i] = newClient(ctx, addr)
		defer clients[i].close()
	}
	return atOnce(len(images), func(by, i int) error {
		_, _, err := clients[by].do(http.MethodDelete, clients[by].url(string(images[i].repo), "manifests/"+string(images[i].digest)), "", nil, http.StatusAccepted)
		return err
	})
}

// atOnce calls f for each of n by sixteen goroutines; by says which one calls.
func atOnce(n int, f func(by, i int) error) error {
	next := make(chan int)
	errs := make([]error, storeClients)
	var all sync.WaitGroup
	for by := range errs {
		all.Go(func() {
			for i := range next {
				if errs[by] == nil {
					errs[by] = f(by, i)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}
