package gcs

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/oauth2"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// TestSignature: the signed text is that of Google's own library
// (cloud.google.com/go/storage v1.65.0, SignedURL with version 4).
func TestSignature(t *testing.T) {
	text, err := os.ReadFile("testdata/public.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	urls, err := os.ReadFile("testdata/signed-urls.txt")
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Bucket: "bucket"})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(urls)) {
		method, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		now, err := time.Parse("20060102T150405Z", q.Get("X-Goog-Date"))
		if err != nil {
			t.Fatal(err)
		}
		lasts, _ := strconv.Atoi(q.Get("X-Goog-Expires"))
		header, query := http.Header{"X-Goog-If-Generation-Match": {"123"}}, url.Values(nil)
		if method == http.MethodGet {
			header, query = nil, url.Values{"response-content-type": {"application/vnd.x+json"}}
		}
		signed, got := b.toSign(now, "me@example.com", method, "some/where/a_b-c.d e+f", time.Duration(lasts)*time.Second, header, query)
		sum := sha256.Sum256([]byte(signed))
		signature, err := hex.DecodeString(q.Get("X-Goog-Signature"))
		if err != nil {
			t.Fatal(err)
		}
		if err := rsa.VerifyPKCS1v15(parsed.(*rsa.PublicKey), crypto.SHA256, sum[:], signature); err != nil {
			t.Errorf("%s: another text was signed: %v\n%s", method, err, signed)
		}
		q.Del("X-Goog-Signature")
		ours, err := url.Parse(got)
		if err != nil || ours.Path != u.Path || ours.Query().Encode() != q.Encode() {
			t.Errorf("%s: %s, want %s", method, got, address)
		}
	}
}

// cloud is a server that behaves as Google does where the emulator does not: it knows
// signed requests of the XML interface, and signs for those who have no key.
type cloud struct {
	t        *testing.T
	mu       sync.Mutex
	requests []string
	script   func(w http.ResponseWriter, r *http.Request) bool // true if it has answered
}

func (g *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, r.Method+" "+r.URL.Path)
	if g.script != nil && g.script(w, r) {
		return
	}
	switch {
	case strings.HasSuffix(r.URL.Path, ":signBlob"):
		if r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var asked struct{ Payload []byte }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || !strings.HasPrefix(string(asked.Payload), "GOOG4-RSA-SHA256\n") {
			g.t.Errorf("asked to sign %q, %v", asked.Payload, err)
		}
		fmt.Fprintf(w, `{"signedBlob": %q}`, base64.StdEncoding.EncodeToString([]byte("signature")))
	case strings.HasPrefix(r.URL.Path, "/storage/v1/b/"):
		if r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{}`)
	default:
		q := r.URL.Query()
		if r.Header.Get("Authorization") != "" || q.Get("X-Goog-Signature") == "" || q.Get("X-Goog-Expires") != "15" {
			g.t.Errorf("%s %s is not signed as it should be: %v", r.Method, r.URL, r.Header)
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Goog-") && !strings.Contains(q.Get("X-Goog-SignedHeaders"), strings.ToLower(name)) {
				g.t.Errorf("%s is not signed", name)
			}
		}
		w.Header().Set("X-Goog-Generation", "7")
		if r.Header.Get("X-Goog-If-Generation-Match") == "5" {
			w.WriteHeader(http.StatusPreconditionFailed)
		}
	}
}

func (g *cloud) bucket(t *testing.T, signer *Signer) *Bucket {
	t.Helper()
	g.t = t
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	tokens := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"})
	if signer != nil {
		signer.Tokens, signer.Endpoint = tokens, server.URL
	}
	b, err := New(Options{Bucket: "bucket", Endpoint: server.URL, Tokens: tokens, Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func small(content string) object.Body {
	return object.Body{Content: strings.NewReader(content), Size: int64(len(content))}
}

// Deletions and leases are signed requests that expire: by the account's key, or with
// Google's help.
func TestSignedRequests(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, signer := range map[string]*Signer{"key": {Email: "me@example.com", Key: key}, "signBlob": {Email: "me@example.com"}} {
		t.Run(name, func(t *testing.T) {
			g := &cloud{}
			b := g.bucket(t, signer)
			if err := b.Start(t.Context(), zap.NewNop()); err != nil || !b.Redirects() || b.Limits().MaxLate != life+clockError {
				t.Fatal(err, b.Limits())
			}
			if v, err := b.Put(t.Context(), "a/b", small("x"), object.PutOptions{Expire: true, Writer: "W", If: storage.IfAbsent()}); err != nil || v != "7" {
				t.Errorf("%q, %v", v, err)
			}
			if err := b.Delete(t.Context(), "a/b", storage.IfVersion("7")); err != nil {
				t.Error(err)
			}
			if err := b.Delete(t.Context(), "a/b", storage.IfVersion("5")); !errors.Is(err, storage.ErrConflict) {
				t.Error(err)
			}
		})
	}
}

// The life of a request that expires begins when it was decided to send it: between that and
// the signature the process may have been stopped.
func TestExpiryBeginsWithTheDecision(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	var date string
	g := &cloud{script: func(_ http.ResponseWriter, r *http.Request) bool {
		date = r.URL.Query().Get("X-Goog-Date")
		return false
	}}
	b := g.bucket(t, &Signer{Email: "me@example.com", Key: key})
	ago := object.WithSent(t.Context(), time.Now().Add(-time.Hour))
	for name, send := range map[string]func() error{
		"deletion": func() error { return b.Delete(ago, "a/b", storage.Condition{}) },
		"put": func() error {
			_, err := b.Put(ago, "a/b", small("x"), object.PutOptions{Expire: true})
			return err
		},
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
		if signed, err := time.Parse("20060102T150405Z", date); err != nil || time.Since(signed) < 50*time.Minute {
			t.Errorf("the %s is signed at %q, %v", name, date, err)
		}
	}
}

// An account that may not sign serves everything itself, and requests may be late.
func TestStart_MayNotSign(t *testing.T) {
	g := &cloud{script: func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ":signBlob") {
			http.Error(w, `{"error": {"message": "no permission"}}`, http.StatusForbidden)
			return true
		}
		return false
	}}
	b := g.bucket(t, &Signer{Email: "me@example.com"})
	if err := b.Start(t.Context(), zap.NewNop()); err != nil || b.Redirects() || b.Limits().MaxLate != unsigned {
		t.Errorf("%v, redirects %v, %+v", err, b.Redirects(), b.Limits())
	}
}

// What keeps the registry from starting is a sentence that names the setting.
func TestStart_Sentences(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"bucket":  {http.StatusNotFound, `{"error": {"code": 404, "message": "The specified bucket does not exist."}}`, "bucket: bucket does not exist; make it with: gcloud"},
		"denied":  {http.StatusForbidden, `{"error": {"message": "me does not have storage.objects.list access"}}`, "keyfile, credentials: refused for bucket bucket"},
		"away":    {http.StatusServiceUnavailable, ``, "cannot reach 127.0.0.1"},
		"foreign": {http.StatusTeapot, `<html>`, "answers in no way that Google does"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &cloud{script: func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
				return true
			}}
			err := g.bucket(t, nil).Start(t.Context(), zap.NewNop())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	b, err := New(Options{Bucket: "b", Tokens: failing{&oauth2.RetrieveError{Response: &http.Response{StatusCode: 400, Status: "400 Bad Request"}, ErrorDescription: "Invalid JWT Signature."}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), zap.NewNop()); err == nil || !strings.Contains(err.Error(), "keyfile, credentials: Google gives no token") || !strings.Contains(err.Error(), "Invalid JWT Signature") {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Token() (*oauth2.Token, error) { return nil, f.err }

// What a failed request may have done is said.
func TestFailures(t *testing.T) {
	for status, effect := range map[int]object.Effect{
		http.StatusTooManyRequests: object.Refused, http.StatusServiceUnavailable: object.Doubtful,
		http.StatusInternalServerError: object.Doubtful, http.StatusBadGateway: object.Lost, 0: object.Lost,
	} {
		g := &cloud{script: func(w http.ResponseWriter, _ *http.Request) bool {
			if status == 0 {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					conn.Close()
				}
				return true
			}
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(status)
			return true
		}}
		b := g.bucket(t, nil)
		_, err := b.Put(t.Context(), "k", small("x"), object.PutOptions{})
		if trouble, ok := errors.AsType[*object.Trouble](err); !ok || trouble.Effect != effect || status != 0 && trouble.After != 3*time.Second {
			t.Errorf("%d: %+v (%v)", status, trouble, err)
		}
	}
}

// More than 32 parts are joined in steps, and what lies between is removed.
func TestComposeMany(t *testing.T) {
	b := newBucket(t, nil)
	var sources []object.Source
	var want strings.Builder
	for i := range 70 {
		key, content := fmt.Sprintf("parts/%02d", i), fmt.Sprint(i, ";")
		if _, err := b.Put(t.Context(), key, small(content), object.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, object.Source{Key: key, Size: int64(len(content))})
		want.WriteString(content)
	}
	for len(sources) <= composed*composed { // so it takes three
		i := len(sources) % 70
		sources = append(sources, sources[i])
		fmt.Fprint(&want, i, ";")
	}
	if _, err := b.Compose(t.Context(), "whole/data", sources, object.PutOptions{Writer: "W"}); err != nil {
		t.Fatal(err)
	}
	r, info, err := b.Get(t.Context(), "whole/data", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if content, err := io.ReadAll(r); err != nil || string(content) != want.String() || info.Writer != "W" {
		t.Errorf("got %q, %+v, %v", content, info, err)
	}
	page, err := b.List(t.Context(), "whole/", object.ListOptions{})
	if err != nil || len(page.Entries) != 1 {
		t.Errorf("left behind: %+v, %v", page.Entries, err)
	}
}

// A URL is signed once for all clients that want it at about the same time.
func TestSignedURL_IsUsedAgain(t *testing.T) {
	g := &cloud{}
	b := g.bucket(t, &Signer{Email: "me@example.com"})
	sign := func(key string, expires time.Duration) string {
		u, err := b.SignedURL(t.Context(), http.MethodGet, key, expires, object.URLOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	first := sign("a", time.Hour)
	if again := sign("a", time.Hour); again != first {
		t.Errorf("another URL: %s", again)
	}
	if other := sign("b", time.Hour); !strings.Contains(other, "/bucket/b?") {
		t.Errorf("URL of another object: %s", other)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.requests) != 2 {
		t.Errorf("signed %d times, want 2: %v", len(g.requests), g.requests)
	}
}
