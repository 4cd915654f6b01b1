package harness

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
)

// DigestOf returns the SHA-256 digest of b.
func DigestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Tar returns an archive with one file.
func Tar(t testing.TB, name string, content []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Gzip compresses b.
func Gzip(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// JSON encodes v.
func JSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// WriteFile writes a file that everybody may read.
func WriteFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// CopyFile copies a program.
func CopyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatalf("%v; `make tools` installs what the tests need", err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// Stream is a content of some size that costs no memory, with its digest.
type Stream struct {
	Size   int64
	Digest string
	Reader func() io.Reader
}

// Pattern is size bytes that begin with the number n.
func Pattern(n, size int64) Stream {
	head := fmt.Appendf(nil, "%020d", n)
	reader := func() io.Reader {
		return io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, size-int64(len(head))))
	}
	h := sha256.New()
	io.Copy(h, reader())
	return Stream{size, "sha256:" + hex.EncodeToString(h.Sum(nil)), reader}
}

type zeros struct{}

// EmptyDigest is the digest of nothing.
const EmptyDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
