package s3_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
)

const emptyList = "<ListBucketResult></ListBucketResult>"

// at is a bucket at a server's address.
func at(server *httptest.Server) s3.Config {
	return s3.Config{AccessKey: "a", SecretKey: "hunter2", Region: "us-east-1", Endpoint: server.URL, Bucket: "b", PathStyle: true}
}

// What Amazon answers, and MinIO does not, is a sentence that names the setting, too.
func TestOpen_NamesTheSetting_OfAnswers(t *testing.T) {
	ahead := time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat)
	for name, tt := range map[string]struct {
		status int
		header map[string]string
		body   string
		want   string
	}{
		"region":           {400, nil, "<Error><Code>AuthorizationHeaderMalformed</Code><Message>expecting 'eu-west-1'</Message><Region>eu-west-1</Region></Error>", `storage.s3.region: "us-east-1" is not the region of the bucket "b"; the bucket is in "eu-west-1"`},
		"redirected":       {301, map[string]string{"X-Amz-Bucket-Region": "eu-west-2"}, "<Error><Code>PermanentRedirect</Code></Error>", `storage.s3.region: "us-east-1" is not the region of the bucket "b"; the bucket is in "eu-west-2"`},
		"clock":            {403, map[string]string{"Date": ahead}, "<Error><Code>RequestTimeTooSkewed</Code></Error>", " behind the store's: set it right"},
		"rights":           {403, nil, "<Error><Code>AccessDenied</Code></Error>", `storage.s3: the credentials may not list the bucket "b": give them s3:ListBucket`},
		"bucket":           {404, nil, "<Error><Code>NoSuchBucket</Code></Error>", `storage.s3.bucket: there is no bucket "b"`},
		"something else":   {404, nil, "<html>", "storage.s3.regionendpoint: http://127.0.0.1"},
		"a teapot":         {418, nil, "", `storage.s3: cannot list the bucket "b"`},
		"overloaded":       {503, nil, "<Error><Code>SlowDown</Code></Error>", `storage.s3: cannot list the bucket "b" at http://127.0.0.1`},
		"expired keys":     {400, nil, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>", "The provided token has expired."},
		"a broken listing": {200, nil, "<html>", "storage.s3: cannot use http://127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range tt.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			defer server.Close()
			b, err := s3.Open(t.Context(), at(server))
			if err == nil {
				b.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "storage.s3") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestOpen_UnknownHost(t *testing.T) {
	_, err := s3.Open(t.Context(), s3.Config{AccessKey: "a", SecretKey: "s", Region: "nowhere", Endpoint: "https://s3.nowhere.invalid", Bucket: "bucket"})
	if err == nil || !strings.HasPrefix(err.Error(), "storage.s3.regionendpoint: cannot find the host bucket.s3.nowhere.invalid (is storage.s3.region right?)") {
		t.Errorf("got %v", err)
	}
}

// A machine whose clock is wrong is served: requests are signed by the store's clock once it is
// known.
func TestOpen_ClockIsCorrected(t *testing.T) {
	there := func() time.Time { return time.Now().Add(-3 * time.Hour) }
	skewed := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", there().UTC().Format(http.TimeFormat))
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil || there().Sub(signed).Abs() > 15*time.Minute {
			skewed++
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<Error><Code>RequestTimeTooSkewed</Code></Error>")
			return
		}
		_, _ = io.WriteString(w, emptyList)
	}))
	defer server.Close()
	b, err := s3.Open(t.Context(), at(server))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if skewed != 1 {
		t.Errorf("%d requests had the wrong time, want the first one", skewed)
	}
}

// A server whose certificate is from an authority of its own is trusted by cafile, AWS_CA_BUNDLE or
// skipverify, and else the setting is named.
func TestOpen_Certificates(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, emptyList) }))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that are refused
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(foreign, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change   func(*s3.Config)
		variable string
		want     string // "" = it opens
	}{
		"unknown":       {func(*s3.Config) {}, "", "storage.s3: the certificate of https://127.0.0.1"},
		"cafile":        {func(c *s3.Config) { c.CAFile = bundle }, "", ""},
		"AWS_CA_BUNDLE": {func(*s3.Config) {}, bundle, ""},
		"skipverify":    {func(c *s3.Config) { c.SkipVerify = true }, "", ""},
		"empty file":    {func(c *s3.Config) { c.CAFile = foreign }, "", "storage.s3.cafile: " + foreign + " has no certificate"},
		"missing file":  {func(*s3.Config) {}, foreign + "x", "AWS_CA_BUNDLE: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_CA_BUNDLE", tt.variable)
			c := at(server)
			tt.change(&c)
			b, err := s3.Open(t.Context(), c)
			if err == nil {
				b.Close()
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if name == "unknown" && (err == nil || !strings.Contains(err.Error(), "set storage.s3.cafile")) {
				t.Errorf("%v does not say what to set", err)
			}
		})
	}
}

// Requests carry nothing that only Amazon supports: no checksums, no trailers, no chunked signatures, except the
// checksum that deletions of many objects need.
func TestRequestsHaveNoChecksumTrailers(t *testing.T) {
	for name, start := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			var methods []string
			server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				methods = append(methods, r.Method)
				body, err := io.ReadAll(r.Body)
				if err != nil || int64(len(body)) != r.ContentLength || len(r.TransferEncoding) > 0 {
					t.Errorf("%s: %d bytes, announced %d, %v, %v", r.Method, len(body), r.ContentLength, r.TransferEncoding, err)
				}
				for header := range r.Header {
					h := strings.ToLower(header)
					if deletesMany := r.URL.Query().Has("delete"); deletesMany && strings.Contains(h, "checksum") {
						continue // the protocol asks for one there
					}
					if strings.Contains(h, "checksum") || strings.Contains(h, "trailer") || h == "content-encoding" || h == "x-amz-decoded-content-length" {
						t.Errorf("%s has %s", r.Method, header)
					}
				}
				if hash := r.Header.Get("X-Amz-Content-Sha256"); strings.HasPrefix(hash, "STREAMING") {
					t.Errorf("%s: the body is signed as %s", r.Method, hash)
				}
				switch r.Method {
				case http.MethodPost:
					_, _ = io.WriteString(w, "<DeleteResult></DeleteResult>")
				case http.MethodGet:
					_, _ = io.WriteString(w, emptyList)
				}
			}))
			defer server.Close()
			c := at(server)
			c.SkipVerify = true
			b, err := s3.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			ctx := t.Context()
			large := object.Body{Content: strings.NewReader(strings.Repeat("x", 2<<20)), Size: 2 << 20}
			for _, o := range []object.PutOptions{{}, {Expire: true}} {
				if _, err := b.Put(ctx, "k", object.Body{Content: strings.NewReader("x"), Size: 1}, o); err != nil {
					t.Error(err)
				}
			}
			if _, err := b.Put(ctx, "k", large, object.PutOptions{}); err != nil {
				t.Error(err)
			}
			if err := b.DeleteMany(ctx, []string{"a", "b"}); err != nil {
				t.Error(err)
			}
			if got := fmt.Sprint(methods); got != "[GET PUT PUT PUT POST]" {
				t.Errorf("sent %s", got)
			}
		})
	}
}
