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
	"time"
)

// largeLayer is what each client pushes while the memory of the server is watched.
const largeLayer = 512 << 20

// MemoryOnObjectStore measures the most memory of each peer while 16 clients push layers of
// 512 MiB to a MinIO on this machine, which needs 9 GiB of disk for each peer, one after the other.
func (o Options) MemoryOnObjectStore(ctx context.Context, open OpenBucket) ([]Timed, error) {
	return o.eachOnBucket(func(peer Peer) ([]Timed, error) {
		m, err := o.startMinIO(ctx, open)
		if err != nil {
			return nil, err
		}
		defer m.stop()
		t, err := o.pushLarge(ctx, peer, m)
		return []Timed{t}, err
	})
}

func (o Options) pushLarge(ctx context.Context, peer Peer, m *minIO) (t Timed, err error) {
	s, err := start(ctx, peer, m.dir, "http://"+m.addr)
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
