package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/object"
)

// maxResident is what the registry may hold in memory under any load.
const maxResident = 64 << 20

// peak is the most memory that the process ever held (VmHWM), in bytes.
func (p *process) peak(t testing.TB) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.ID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmHWM in /proc")
	return 0
}

// Sixty-four clients pull and push at once, for seconds here and for a minute
// in `make soak`; nothing fails and memory stays small.
func TestMemoryUnderLoad(t *testing.T) {
	limit := 10 * time.Second
	if d, err := time.ParseDuration(os.Getenv("SLIPWAY_SOAK_LOAD")); err == nil {
		limit = d
	}
	p := startSlipway(t, t.TempDir())
	img := newImage(t, 71, 6, 3<<20)
	img.push(t, p.addr, "load/base", "v1")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	end := time.Now().Add(limit)
	var done sync.WaitGroup
	pulls, pushes := make([]int, 64), make([]int, 64)
	for i := range 64 {
		done.Go(func() {
			for n := 0; time.Now().Before(end) && !t.Failed(); n++ {
				if i%4 == 0 {
					upload(t, client, p.addr, fmt.Sprintf("load/%d", i), pattern(int64(i)<<32|int64(n), 8<<20))
					pushes[i]++
				} else {
					pullAll(t, client, p.addr, img)
					pulls[i]++
				}
			}
		})
	}
	done.Wait()
	t.Logf("%d pulls, %d pushes, peak of %d MiB", sum(pulls), sum(pushes), p.peak(t)>>20)
	if sum(pulls) == 0 || sum(pushes) == 0 {
		t.Error("there was no load")
	}
	if peak := p.peak(t); peak > maxResident {
		t.Errorf("the registry held %d MiB, more than %d", peak>>20, maxResident>>20)
	}
}

func sum(counts []int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

func pullAll(t *testing.T, client *http.Client, addr string, img *image) {
	for d, b := range img.blobs {
		kind := "blobs"
		if d == img.manifest {
			kind = "manifests"
		}
		resp, err := client.Get("http://" + addr + "/v2/load/base/" + kind + "/" + d)
		if err != nil {
			t.Error(err)
			return
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || n != int64(len(b)) {
			t.Errorf("GET %s: %s, %d of %d bytes, %v", d, resp.Status, n, len(b), err)
		}
	}
}

// stream is a content of some size that costs no memory, with its digest.
type stream struct {
	size   int64
	digest string
	reader func() io.Reader
}

// pattern is size bytes that begin with the number n.
func pattern(n, size int64) stream {
	head := fmt.Appendf(nil, "%020d", n)
	reader := func() io.Reader {
		return io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, size-int64(len(head))))
	}
	h := sha256.New()
	io.Copy(h, reader())
	return stream{size, "sha256:" + hex.EncodeToString(h.Sum(nil)), reader}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// upload pushes the content as docker does: POST, PATCH of all, PUT.
func upload(t *testing.T, client *http.Client, addr, repo string, s stream) {
	location := "http://" + addr + "/v2/" + repo + "/blobs/uploads/"
	for _, step := range []struct {
		method string
		body   io.Reader
		want   int
	}{
		{http.MethodPost, nil, http.StatusAccepted},
		{http.MethodPatch, s.reader(), http.StatusAccepted},
		{http.MethodPut, nil, http.StatusCreated},
	} {
		if step.method == http.MethodPut {
			location += "&digest=" + s.digest
		}
		req, err := http.NewRequestWithContext(t.Context(), step.method, location, step.body)
		if err != nil {
			t.Error(err)
			return
		}
		if step.body != nil {
			req.ContentLength = s.size
			req.Header.Set("Content-Type", "application/octet-stream")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != step.want {
			t.Errorf("%s: %s %s", step.method, resp.Status, body)
			return
		}
		location = resp.Header.Get("Location")
		if strings.HasPrefix(location, "/") {
			location = "http://" + addr + location
		}
	}
}

// A blob of gibibytes passes through in as much memory as a small one. `make
// soak` says how many (SLIPWAY_SOAK_BLOB); without it, two.
func TestHugeBlobInConstantMemory(t *testing.T) {
	gib := int64(2)
	if n, err := strconv.ParseInt(os.Getenv("SLIPWAY_SOAK_BLOB"), 10, 64); err == nil {
		gib = n
	}
	root := t.TempDir()
	p := startSlipway(t, root)
	before := p.peak(t)
	blob := pattern(1, gib<<30)
	goesInAndOut(t, p.addr, blob)
	grown := p.peak(t) - before
	t.Logf("%d GiB went in and out; memory grew by %.1f MiB to %d MiB", gib, float64(grown)/(1<<20), p.peak(t)>>20)
	if grown > 16<<20 {
		t.Errorf("memory grew by %d MiB while %d GiB passed", grown>>20, gib)
	}
	if left, err := filepath.Glob(filepath.Join(root, "docker/registry/v2/repositories/huge/_uploads/*")); err != nil || len(left) > 0 {
		t.Errorf("the upload left %v (%v)", left, err)
	}
}

// goesInAndOut pushes a blob and reads it back.
func goesInAndOut(t *testing.T, addr string, blob stream) {
	t.Helper()
	upload(t, http.DefaultClient, addr, "huge", blob)
	if t.Failed() {
		t.FailNow()
	}
	resp, err := http.Get("http://" + addr + "/v2/huge/blobs/" + blob.digest)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h := sha256.New()
	n, err := io.Copy(h, resp.Body)
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); err != nil || n != blob.size || got != blob.digest {
		t.Errorf("%d of %d bytes came back as %s, want %s (%v)", n, blob.size, got, blob.digest, err)
	}
}

// A blob larger than one PUT can be goes to S3 in parts and comes back, in memory that does not
// grow with it. `make soak` has one of 6 GiB, which is more than 1,200 parts.
func TestHugeBlobOnS3(t *testing.T) {
	size := int64(96 << 20)
	if os.Getenv("SLIPWAY_SOAK_BLOB") != "" {
		size = 6 << 30
	}
	t.Setenv("MINIO_COMPRESSION_ENABLE", "on") // so that the bytes, nearly all zero, take no room on the disk
	t.Setenv("MINIO_COMPRESSION_MIME_TYPES", "application/octet-stream")
	server, bucket := minioBucket(t)
	p := startOnS3(t, server.URL(), "", "REGISTRY_SLIPWAY_OBJECTSTORE_SPOOLMAX=5MiB")
	before := p.peak(t)
	blob := pattern(2, size)
	goesInAndOut(t, p.addr, blob)
	grown := p.peak(t) - before
	t.Logf("%d MiB went in and out; memory grew by %.1f MiB", size>>20, float64(grown)/(1<<20))
	if grown > 32<<20 {
		t.Errorf("memory grew by %d MiB while %d MiB passed", grown>>20, size>>20)
	}
	left, err := bucket.List(t.Context(), "some/root/docker/registry/v2/repositories/huge/_uploads/", object.ListOptions{})
	if err != nil || len(left.Entries) > 0 {
		t.Errorf("the upload left %v (%v)", left.Entries, err)
	}
	whole, err := bucket.Head(t.Context(), "some/root"+layout.BlobData(oci.Digest(blob.digest)))
	if err != nil || whole.Size != size {
		t.Fatalf("the blob is %+v, %v; want %d bytes", whole, err, size)
	}
	_, count, _ := strings.Cut(whole.Version, "-")
	if parts, err := strconv.ParseInt(count, 10, 64); err != nil || parts < size/(7<<20) {
		t.Errorf("its version is %s, want at least %d parts", whole.Version, size/(7<<20))
	}
}
