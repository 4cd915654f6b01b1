package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/s3"
)

// scripted is a bucket of a server that answers as the test wants, after the look at start.
func scripted(t *testing.T, answer http.HandlerFunc) *s3.Bucket {
	t.Helper()
	return scriptedFor(t, "t", answer)
}

// scriptedFor is scripted for credentials of that session, "" for none.
func scriptedFor(t *testing.T, session string, answer http.HandlerFunc) *s3.Bucket {
	t.Helper()
	opened := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !opened {
			_, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>")
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	b, err := s3.Open(t.Context(), s3.Config{AccessKey: "a", SecretKey: "s", SessionToken: session, Region: "us-east-1", Endpoint: server.URL, Bucket: "b", PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	opened = true
	return b
}

// A listing that goes on without saying where is gone on with behind its last key, and names are
// decoded.
func TestList_WithoutToken(t *testing.T) {
	keys := []string{"p/a", "p/b", "p/c d", "p/e+f"}
	b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		after := r.URL.Query().Get("start-after")
		for i, key := range keys {
			if key > after {
				fmt.Fprintf(w, "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>%v</IsTruncated><Contents><Key>%s</Key></Contents></ListBucketResult>",
					i < len(keys)-1, strings.NewReplacer("+", "%2B", " ", "+").Replace(key))
				return
			}
		}
		_, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>")
	})
	client := object.NewClient(b, "", b.Limits(), object.Timing{})
	var got []string
	for info, err := range client.List(t.Context(), "p/", object.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, info.Key); len(got) > len(keys) {
			break
		}
	}
	if strings.Join(got, ",") != strings.Join(keys, ",") {
		t.Errorf("listed %q, want %q", got, keys)
	}
}

// A listing that goes on, without an entry and without saying where, is an error and no loop.
func TestList_EmptyPageWithoutToken(t *testing.T) {
	b := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")
	})
	client := object.NewClient(b, "", b.Limits(), object.Timing{})
	for info, err := range client.List(t.Context(), "p/", object.ListOptions{}) {
		if err == nil {
			t.Errorf("listed %+v", info)
		}
		return
	}
	t.Error("the listing ends as if it were empty")
}

// A server, or a proxy before it, may answer a range with the whole object.
func TestGet_WholeObjectForARange(t *testing.T) {
	b := scripted(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "0123456789") })
	for _, tt := range []struct {
		offset, length int64
		want           string
	}{{0, 3, "012"}, {4, 3, "456"}, {8, -1, "89"}, {8, 5, "89"}, {12, 2, ""}, {0, -1, "0123456789"}} {
		body, info, err := b.Get(t.Context(), "key", tt.offset, tt.length)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		body.Close()
		if err != nil || string(got) != tt.want || info.Size != 10 {
			t.Errorf("%d bytes from %d: %q of %d, %v; want %q of 10", tt.length, tt.offset, got, info.Size, err, tt.want)
		}
	}
}

// Without a length nobody knows whether such an answer is complete: it is an error, not an empty range.
func TestGet_WholeObjectOfUnknownSizeForARange(t *testing.T) {
	b := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "01234")
		w.(http.Flusher).Flush() // so it has no Content-Length
		_, _ = io.WriteString(w, "56789")
	})
	if body, info, err := b.Get(t.Context(), "key", 4, 3); err == nil {
		body.Close()
		t.Errorf("%+v and no error", info)
	}
}

// HEAD has no body that says that the session has expired.
func TestHead_ExpiredSession(t *testing.T) {
	requests := 0
	b := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", "5")
	})
	info, err := object.NewClient(b, "", b.Limits(), object.Timing{Pause: time.Millisecond}).Head(t.Context(), "key")
	if err != nil || info.Size != 5 || requests != 2 {
		t.Errorf("HEAD: %+v, %v after %d requests, want a second one", info, err, requests)
	}
}

// Credentials that do not end cannot have expired: whatever the store finds bad stays bad.
func TestHead_BadRequestWithoutASession(t *testing.T) {
	requests := 0
	b := scriptedFor(t, "", func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusBadRequest)
	})
	_, err := object.NewClient(b, "", b.Limits(), object.Timing{Pause: time.Millisecond, Patience: time.Second}).Head(t.Context(), "key")
	if err == nil || errors.Is(err, storage.ErrTemporary) || requests != 1 {
		t.Errorf("HEAD: %v after %d requests, want an error at once", err, requests)
	}
}

// A 200 can hold an error.
func TestTouch_Answers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		want   error
	}{
		"renewed":  {"<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>", nil},
		"an error": {"<Error><Code>InternalError</Code></Error>", storage.ErrUnavailable},
		"gone":     {"<Error><Code>NoSuchKey</Code></Error>", storage.ErrNotExist},
		"changed":  {"<Error><Code>PreconditionFailed</Code></Error>", storage.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			b := scripted(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Amz-Copy-Source") != "b/k" || r.URL.Path != "/b/k" {
					t.Errorf("copied %s to %s", r.Header.Get("X-Amz-Copy-Source"), r.URL.Path)
				}
				if r.Header.Get("If-Match") != `"e"` || r.Header.Get("X-Amz-Copy-Source-If-Match") != `"e"` {
					t.Errorf("copied with %v", r.Header)
				}
				_, _ = io.WriteString(w, tt.answer)
			})
			if err := b.Touch(t.Context(), "k", "e"); !errors.Is(err, tt.want) {
				t.Errorf("touch: %v, want %v", err, tt.want)
			}
		})
	}
}
