package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/storage/object"
	settings "slipway/shared/config"
)

// A bucket that takes no writes is opened for commands that free space; the reason not to serve names them.
func TestProbe_FullBucket(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPut, http.MethodPost:
			w.WriteHeader(http.StatusInsufficientStorage)
			_, _ = io.WriteString(w, "<Error><Code>XMinioStorageFull</Code></Error>")
		case http.MethodGet:
			_, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	key := settings.NewSecret("k")
	bucket, err := openS3(t.Context(), &config.S3{AccessKey: key, SecretKey: key, RegionEndpoint: server.URL, ForcePathStyle: "auto", Bucket: "b"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer bucket.Close()
	b := &Backend{driver: "s3"}
	if err := b.probe(t.Context(), object.NewClient(bucket, "", object.Limits{ConditionalPut: true}, object.Timing{}), zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	if b.full == nil || !strings.HasPrefix(b.full.Error(), "storage.s3: the bucket is full: free space first") {
		t.Errorf("the reason not to serve: %v", b.full)
	}
}
