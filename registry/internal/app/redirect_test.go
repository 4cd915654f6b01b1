package app

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/storage"
)

// bucketURLs is a store that signs, if it may.
type bucketURLs struct{ may bool }

func (s bucketURLs) Redirects() bool { return s.may }

func (bucketURLs) SignedURL(_ context.Context, key, _ string) (string, error) {
	return "http://minio:9000/images" + key + "?signature=x%2Fy", nil
}

func TestBlobURLs(t *testing.T) {
	var files storage.URLSigner
	bucket := bucketURLs{true}
	cdn := config.StorageMiddleware{Name: "redirect", Options: config.MiddlewareOptions{BaseURL: "https://cdn.example.com/registry/"}}
	rewrite := config.StorageMiddleware{Name: "rewrite", Options: config.MiddlewareOptions{Scheme: "https", Host: "images.example.com", TrimPathPrefix: "/images"}}
	disabled := cdn
	disabled.Disabled = true
	front := config.StorageMiddleware{Name: "cloudfront", Options: config.MiddlewareOptions{
		BaseURL: "d111111abcdef8.cloudfront.net", PrivateKey: writeRSAKey(t), KeyPairID: "K", Duration: time.Minute, IPFilteredBy: "none",
	}}
	for name, c := range map[string]struct {
		store      storage.URLSigner
		disable    bool
		middleware []config.StorageMiddleware
		want       string // "" = served from here
	}{
		"bucket":               {bucket, false, nil, "http://minio:9000/images/a/b?signature=x%2Fy"},
		"bucket, off":          {bucket, true, []config.StorageMiddleware{cdn}, ""},
		"bucket without a key": {bucketURLs{false}, false, nil, ""},
		"files":                {files, false, []config.StorageMiddleware{rewrite, disabled}, ""},
		"files below a CDN":    {files, false, []config.StorageMiddleware{cdn}, "https://cdn.example.com/registry/a/b"},
		"rewritten":            {bucket, false, []config.StorageMiddleware{rewrite}, "https://images.example.com/a/b?signature=x%2Fy"},
		"in their order":       {bucket, false, []config.StorageMiddleware{rewrite, cdn}, "https://cdn.example.com/registry/a/b"},
		"CloudFront":           {bucket, false, []config.StorageMiddleware{front}, "https://d111111abcdef8.cloudfront.net/some/root/a/b?"},
		"CloudFront, off":      {bucket, true, []config.StorageMiddleware{front}, ""},
		"CloudFront rewritten": {bucket, false, []config.StorageMiddleware{front, rewrite}, "https://images.example.com/some/root/a/b?"},
	} {
		cfg := &config.Config{Storage: config.Storage{S3: &config.S3{RootDirectory: "/some/root/"}}}
		cfg.Storage.Redirect.Disable, cfg.Middleware.Storage = c.disable, c.middleware
		var watches []func(context.Context)
		signer, err := blobURLs(cfg, c.store, zap.NewNop(), &watches)
		if err != nil || len(watches) != 0 {
			t.Fatalf("%s: %v, %d watches", name, err, len(watches))
		}
		got := ""
		if signer != nil {
			if got, err = signer.SignedURL(t.Context(), "/a/b", "x/y", netip.Addr{}); err != nil {
				t.Error(err)
			}
		}
		if before, query, _ := strings.Cut(got, "?"); strings.HasPrefix(query, "Expires=") {
			got = before + "?" // the signature has a test of its own
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func writeRSAKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Clients with an address of Amazon's, or of one of its regions, get URLs of the bucket.
func TestBlobURLs_CloudFrontFilter(t *testing.T) {
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"prefixes": [{"ip_prefix": "203.0.113.0/24", "region": "eu-central-1"}, {"ip_prefix": "198.51.100.0/24", "region": "us-east-1"}]}`)
	}))
	defer list.Close()
	o := config.MiddlewareOptions{
		BaseURL: "http://cdn.example.com/x", PrivateKey: writeRSAKey(t), KeyPairID: "K", Duration: time.Hour, UpdateFrequency: time.Hour, IPRangesURL: list.URL,
		AWSRegion: "ap-south-1, EU-central-1",
	}
	for filter, near := range map[string]map[string]bool{
		"aws":       {"203.0.113.7": true, "198.51.100.7": true, "192.0.2.1": false},
		"awsregion": {"203.0.113.7": true, "198.51.100.7": false, "192.0.2.1": false},
	} {
		cfg := &config.Config{Storage: config.Storage{S3: &config.S3{}}}
		o.IPFilteredBy = filter
		cfg.Middleware.Storage = []config.StorageMiddleware{{Name: "cloudfront", Options: o}}
		var watches []func(context.Context)
		urls, err := blobURLs(cfg, bucketURLs{true}, zap.NewNop(), &watches)
		if err != nil || len(watches) != 1 {
			t.Fatalf("%v, %d watches", err, len(watches))
		}
		get := func(client string) string {
			t.Helper()
			got, err := urls.SignedURL(t.Context(), "/a/b", "x/y", netip.MustParseAddr(client))
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := get("203.0.113.7"); !strings.HasPrefix(got, "http://cdn.example.com/x/a/b?") {
			t.Errorf("%s: before the list is there: %s", filter, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { watches[0](ctx); close(ended) }()
		for end := time.Now().Add(time.Minute); strings.HasPrefix(get("203.0.113.7"), "http://cdn"); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the list is not used")
			}
		}
		for client, want := range near {
			if got := get(client); strings.HasPrefix(got, "http://minio:9000/images/a/b?") != want {
				t.Errorf("%s: %s gets %s", filter, client, got)
			}
		}
		u, err := url.Parse(get("192.0.2.1"))
		if err != nil {
			t.Fatal(err)
		}
		expires, err := strconv.ParseInt(u.Query().Get("Expires"), 10, 64)
		if left := time.Until(time.Unix(expires, 0)); err != nil || left < 50*time.Minute || left > time.Hour {
			t.Errorf("the URL works for %v, %v", left, err)
		}
		cancel()
		<-ended
	}
}

// A key that cannot be used stops the start.
func TestBlobURLs_BadKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{file: "is not in PEM", file + "x": "does not exist"} {
		cfg := &config.Config{Storage: config.Storage{S3: &config.S3{}}}
		cfg.Middleware.Storage = []config.StorageMiddleware{{Name: "cloudfront", Options: config.MiddlewareOptions{BaseURL: "h", PrivateKey: path}}}
		if _, err := blobURLs(cfg, nil, zap.NewNop(), nil); err == nil || !strings.Contains(err.Error(), "middleware.storage[0].options.privatekey: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
