package bench

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// largeLayer is what each client pushes while the memory of the server is watched.
const largeLayer = 512 << 20

// MemoryOnObjectStore measures the most memory of each peer while 16 clients push layers of
// 512 MiB to a MinIO on this machine, which needs 9 GiB of disk for each peer, one after the other.
func (o Options) MemoryOnObjectStore(ctx context.Context, open OpenBucket) (all []Timed, err error) {
	for _, peer := range o.Peers {
		if !knowsBuckets(peer) {
			continue
		}
		peer.Config = onBucket
		t, err := o.pushLarge(ctx, open, peer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", peer.Name, err)
		}
		all = append(all, t)
	}
	return all, nil
}

func (o Options) pushLarge(ctx context.Context, open OpenBucket, peer Peer) (t Timed, err error) {
	dir, err := os.MkdirTemp(o.Directory, "bench-store-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	addr, bucket, stop, err := startMinIO(ctx, dir, open)
	if err != nil {
		return t, err
	}
	defer stop()
	if err := bucket.Close(); err != nil {
		return t, err
	}
	s, err := start(ctx, peer, dir, "http://"+addr)
	if err != nil {
		return t, err
	}
	defer s.stop()
	begun := time.Now()
	err = atOnce(storeClients, func(_, i int) error {
		c := newClient(ctx, s.addr)
		defer c.close()
		return c.pushStream("large", uint64(i), largeLayer)
	})
	if err != nil {
		return t, err
	}
	t = Timed{Peer: peer.Name, Work: fmt.Sprintf("push of 512 MiB, %d clients", storeClients), Took: time.Since(begun)}
	memory, err := s.resident()
	t.Memory = float64(memory)
	fmt.Fprintf(o.Log, "%-16s %-40s %8.2fs %6.0f MiB\n", t.Peer, t.Work, t.Took.Seconds(), t.Memory/(1<<20))
	return t, err
}

// pushStream sends a blob of its own for each n by POST, PATCH and PUT.
func (c *client) pushStream(repo string, n uint64, size int64) error {
	header, _, err := c.do(http.MethodPost, c.url(repo, "blobs/uploads/"), "", nil, http.StatusAccepted)
	if err != nil {
		return err
	}
	i := storeImage{client: c}
	hash := sha256.New()
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPatch, i.at(header), io.TeeReader(newNoise(n, size), hash))
	if err != nil {
		return err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("PATCH: %s", resp.Status)
	}
	_, _, err = c.do(http.MethodPut, i.at(resp.Header)+"&digest=sha256:"+hex.EncodeToString(hash.Sum(nil)), "", nil, http.StatusCreated)
	return err
}

// noise is content that nobody can compress much and that is another for each n.
type noise struct {
	block [1 << 20]byte
	at    int
	left  int64
}

func newNoise(n uint64, size int64) *noise {
	r := &noise{left: size}
	rand.Read(r.block[:]) //nolint:errcheck // never fails
	binary.BigEndian.PutUint64(r.block[:], n)
	return r
}

// Read implements io.Reader.
func (r *noise) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), r.left)], r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	r.left -= int64(n)
	return n, nil
}
