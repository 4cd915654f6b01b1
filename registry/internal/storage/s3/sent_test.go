package s3_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
)

// The life of a request that expires begins when it was decided to send it: between that and
// the signature the process may have been stopped.
func TestExpiryBeginsWithTheDecision(t *testing.T) {
	var date string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		date = r.URL.Query().Get("X-Amz-Date") + r.Header.Get("X-Amz-Date")
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte("<ListBucketResult></ListBucketResult>"))
		}
	}))
	defer server.Close()
	b, err := s3.Open(t.Context(), s3.Config{AccessKey: "a", SecretKey: "s", Region: "us-east-1", Endpoint: server.URL, Bucket: "b", PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ago := object.WithSent(t.Context(), time.Now().Add(-time.Hour))
	put := func(o object.PutOptions) error {
		_, err := b.Put(ago, "key", object.Body{Content: strings.NewReader("x"), Size: 1}, o)
		return err
	}
	for name, tt := range map[string]struct {
		send func() error
		old  bool
	}{
		"deletion":             {func() error { return b.Delete(ago, "key", storage.Condition{}) }, true},
		"put that expires":     {func() error { return put(object.PutOptions{Expire: true}) }, true},
		"put that need not so": {func() error { return put(object.PutOptions{}) }, false},
	} {
		if err := tt.send(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		signed, err := time.Parse("20060102T150405Z", date)
		if old := time.Since(signed) > 50*time.Minute; err != nil || old != tt.old {
			t.Errorf("%s is signed at %q, %v", name, date, err)
		}
	}
}
