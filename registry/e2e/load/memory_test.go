package load

import (
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

	"slipway/registry/e2e/harness"
	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3/s3test"
)

// maxResident bounds the registry's memory under any load.
const maxResident = 64 << 20

// Sixty-four clients pull and push at once, for seconds here and for a minute
// in `make soak`; nothing fails and memory stays small.
func TestFull_MemoryUnderLoad(t *testing.T) {
	limit := 10 * time.Second
	if d, err := time.ParseDuration(os.Getenv("SLIPWAY_SOAK_LOAD")); err == nil {
		limit = d
	}
	p := harness.StartRegistry(t, t.TempDir())
	img := harness.NewImage(t, 71, 6, 3<<20)
	img.Push(t, p.Addr, "load/base", "v1")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	end := time.Now().Add(limit)
	var done sync.WaitGroup
	pulls, pushes := make([]int, 64), make([]int, 64)
	for i := range 64 {
		done.Go(func() {
			for n := 0; time.Now().Before(end) && !t.Failed(); n++ {
				if i%4 == 0 {
					upload(t, client, p.Addr, fmt.Sprintf("load/%d", i), harness.Pattern(int64(i)<<32|int64(n), 8<<20))
					pushes[i]++
				} else {
					pullAll(t, client, p.Addr, img)
					pulls[i]++
				}
			}
		})
	}
	done.Wait()
	t.Logf("%d pulls, %d pushes, peak of %d MiB", sum(pulls), sum(pushes), p.Peak(t)>>20)
	if sum(pulls) == 0 || sum(pushes) == 0 {
		t.Error("there was no load")
	}
	if peak := p.Peak(t); peak > maxResident {
		t.Errorf("the registry held %d MiB, more than %d", peak>>20, maxResident>>20)
	}
}

func sum(counts []int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

func pullAll(t *testing.T, client *http.Client, addr string, img *harness.Image) {
	for d, b := range img.Blobs {
		kind := "blobs"
		if d == img.Manifest {
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

// upload pushes the content as docker does: POST, PATCH of all, PUT.
func upload(t *testing.T, client *http.Client, addr, repo string, s harness.Stream) {
	location := "http://" + addr + "/v2/" + repo + "/blobs/uploads/"
	for _, step := range []struct {
		method string
		body   io.Reader
		want   int
	}{
		{http.MethodPost, nil, http.StatusAccepted},
		{http.MethodPatch, s.Reader(), http.StatusAccepted},
		{http.MethodPut, nil, http.StatusCreated},
	} {
		if step.method == http.MethodPut {
			location += "&digest=" + s.Digest
		}
		req, err := http.NewRequestWithContext(t.Context(), step.method, location, step.body)
		if err != nil {
			t.Error(err)
			return
		}
		if step.body != nil {
			req.ContentLength = s.Size
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

// A large blob passes through in as much memory as a small one.
func TestLargeBlobInConstantMemory(t *testing.T) {
	largeBlob(t, 256<<20)
}

// So does one of gibibytes. `make soak` names how many (SLIPWAY_SOAK_BLOB); without it, two.
func TestFull_HugeBlobInConstantMemory(t *testing.T) {
	gib := int64(2)
	if n, err := strconv.ParseInt(os.Getenv("SLIPWAY_SOAK_BLOB"), 10, 64); err == nil {
		gib = n
	}
	largeBlob(t, gib<<30)
}

func largeBlob(t *testing.T, size int64) {
	t.Helper()
	root := t.TempDir()
	p := harness.StartRegistry(t, root)
	before := p.Peak(t)
	blob := harness.Pattern(1, size)
	goesInAndOut(t, p.Addr, blob)
	grown := p.Peak(t) - before
	t.Logf("%d MiB went in and out; memory grew by %.1f MiB to %d MiB", size>>20, float64(grown)/(1<<20), p.Peak(t)>>20)
	if grown > 16<<20 {
		t.Errorf("memory grew by %d MiB while %d MiB passed", grown>>20, size>>20)
	}
	if left, err := filepath.Glob(filepath.Join(root, "docker/registry/v2/repositories/huge/_uploads/*")); err != nil || len(left) > 0 {
		t.Errorf("the upload left %v (%v)", left, err)
	}
}

// goesInAndOut pushes a blob and reads it back.
func goesInAndOut(t *testing.T, addr string, blob harness.Stream) {
	t.Helper()
	upload(t, http.DefaultClient, addr, "huge", blob)
	if t.Failed() {
		t.FailNow()
	}
	resp, err := http.Get("http://" + addr + "/v2/huge/blobs/" + blob.Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h := sha256.New()
	n, err := io.Copy(h, resp.Body)
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); err != nil || n != blob.Size || got != blob.Digest {
		t.Errorf("%d of %d bytes came back as %s, want %s (%v)", n, blob.Size, got, blob.Digest, err)
	}
}

// A blob larger than one PUT can be goes to S3 in parts and comes back, in memory that does not
// grow with it. `make soak` has one of 6 GiB, which is more than 1,200 parts.
func TestFull_HugeBlobOnS3(t *testing.T) {
	size := int64(96 << 20)
	if os.Getenv("SLIPWAY_SOAK_BLOB") != "" {
		size = 6 << 30
	}
	t.Setenv("MINIO_COMPRESSION_ENABLE", "on") // so that the bytes, nearly all zero, take no room on the disk
	t.Setenv("MINIO_COMPRESSION_MIME_TYPES", "application/octet-stream")
	server, bucket := harness.S3Bucket(t, s3test.MinIO)
	p := harness.StartOnS3(t, server.URL(), "REGISTRY_SLIPWAY_OBJECTSTORE_SPOOLMAX=5MiB")
	before := p.Peak(t)
	blob := harness.Pattern(2, size)
	goesInAndOut(t, p.Addr, blob)
	grown := p.Peak(t) - before
	t.Logf("%d MiB went in and out; memory grew by %.1f MiB", size>>20, float64(grown)/(1<<20))
	if grown > 32<<20 {
		t.Errorf("memory grew by %d MiB while %d MiB passed", grown>>20, size>>20)
	}
	left, err := bucket.List(t.Context(), "some/root/docker/registry/v2/repositories/huge/_uploads/", object.ListOptions{})
	if err != nil || len(left.Entries) > 0 {
		t.Errorf("the upload left %v (%v)", left.Entries, err)
	}
	whole, err := bucket.Head(t.Context(), "some/root"+layout.BlobData(oci.Digest(blob.Digest)))
	if err != nil || whole.Size != size {
		t.Fatalf("the blob is %+v, %v; want %d bytes", whole, err, size)
	}
	_, count, _ := strings.Cut(whole.Version, "-")
	if parts, err := strconv.ParseInt(count, 10, 64); err != nil || parts < size/(7<<20) {
		t.Errorf("its version is %s, want at least %d parts", whole.Version, size/(7<<20))
	}
}
