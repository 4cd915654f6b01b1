package cloudfront

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
)

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// The public key verifies a URL, with the policy that CloudFront makes of it, until it is changed.
func TestURL(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(20 * time.Minute)
	for name, content := range map[string][]byte{
		"PKCS#1": inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), "PKCS#8": inPEM("PRIVATE KEY", pkcs8),
	} {
		t.Run(name, func(t *testing.T) {
			base := &url.URL{Scheme: "https", Host: "d111111abcdef8.cloudfront.net", Path: "/"}
			s, err := NewSigner(base, "KEYID", content)
			if err != nil {
				t.Fatal(err)
			}
			signed, err := s.URL("some root/docker/registry/v2/blobs/sha256/ab/abc/data", until)
			if err != nil {
				t.Fatal(err)
			}
			if err := verify(&key.PublicKey, signed, until); err != nil {
				t.Error(err)
			}
			if err := verify(&key.PublicKey, strings.Replace(signed, "/ab/", "/cd/", 1), until); err == nil {
				t.Error("the URL of another blob is verified")
			}
			if err := verify(&key.PublicKey, strings.Replace(signed, fmt.Sprint(until.Unix()), fmt.Sprint(until.Unix()+1), 1), until.Add(time.Second)); err == nil {
				t.Error("a URL that works longer is verified")
			}
		})
	}
}

// verify does what CloudFront does with a URL of a canned policy.
func verify(public *rsa.PublicKey, signed string, until time.Time) error {
	u, err := url.Parse(signed)
	if err != nil {
		return err
	}
	resource, _, _ := strings.Cut(signed, "?")
	q := u.Query()
	if q.Get("Key-Pair-Id") != "KEYID" || q.Get("Expires") != strconv.FormatInt(until.Unix(), 10) {
		return fmt.Errorf("the query is %s", u.RawQuery)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "=", "~", "/").Replace(q.Get("Signature")))
	if err != nil {
		return err
	}
	sum := sha1.Sum([]byte(`{"Statement":[{"Resource":"` + resource + `","Condition":{"DateLessThan":{"AWS:EpochTime":` + q.Get("Expires") + `}}}]}`))
	return rsa.VerifyPKCS1v15(public, crypto.SHA1, sum[:], signature)
}

func TestNewSigner_BadKeys(t *testing.T) {
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(elliptical)
	if err != nil {
		t.Fatal(err)
	}
	for want, content := range map[string][]byte{
		"is not in PEM": []byte("x"), "is not a private key": inPEM("PRIVATE KEY", []byte("x")), "is not an RSA key": inPEM("PRIVATE KEY", der),
	} {
		if _, err := NewSigner(&url.URL{}, "K", content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

const list = `{"syncToken": "1", "prefixes": [
	{"ip_prefix": "203.0.113.0/24", "region": "eu-central-1", "service": "EC2"},
	{"ip_prefix": "198.51.100.128/25", "region": "us-east-1", "service": "AMAZON"}],
	"ipv6_prefixes": [{"ipv6_prefix": "2001:db8:1::/48", "region": "EU-central-1", "service": "S3"}]}`

func TestContains(t *testing.T) {
	for _, tt := range []struct {
		addr               string
		all, frankfurtOnly bool
	}{
		{"203.0.113.7", true, true},
		{"198.51.100.200", true, false},
		{"198.51.100.7", false, false},
		{"2001:db8:1::5", true, true},
		{"2001:db8:2::5", false, false},
	} {
		for name, c := range map[string]struct {
			regions []string
			want    bool
		}{"all": {nil, tt.all}, "one": {[]string{"eu-central-1"}, tt.frankfurtOnly}} {
			n, err := parse([]byte(list), c.regions)
			if err != nil {
				t.Fatal(err)
			}
			r := NewRanges("", nil, zap.NewNop())
			if r.Contains(netip.MustParseAddr(tt.addr)) {
				t.Errorf("%s is in a list that was not fetched", tt.addr)
			}
			r.current.Store(n)
			if got := r.Contains(netip.MustParseAddr(tt.addr)); got != c.want {
				t.Errorf("%s, %s: %v, want %v", tt.addr, name, got, c.want)
			}
		}
	}
	if r := NewRanges("", nil, zap.NewNop()); r.Contains(netip.Addr{}) {
		t.Error("no address is in a list")
	}
	for want, content := range map[string]string{"cannot be read": "<html>", "has no networks": `{"prefixes": []}`} {
		if _, err := parse([]byte(content), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", content, err, want)
		}
	}
}

// The list is fetched again, and what was fetched stays in force while it cannot be.
func TestWatch(t *testing.T) {
	var answer atomic.Pointer[string]
	var fetches atomic.Int32
	say := func(text string) { answer.Store(&text) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		if *answer.Load() == "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, *answer.Load())
	}))
	defer server.Close()
	say("")
	r := NewRanges(server.URL, nil, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Watch(ctx, time.Millisecond); close(ended) }()
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited for %s", what)
			}
		}
	}
	old, young := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("192.0.2.1")
	until("a fetch that fails", func() bool { return fetches.Load() > 0 })
	say(list)
	until("the list", func() bool { return r.Contains(old) })
	say("")
	seen := fetches.Load()
	until("fetches that fail", func() bool { return fetches.Load() > seen+2 })
	if !r.Contains(old) {
		t.Error("the list is forgotten when it cannot be fetched")
	}
	say(`{"prefixes": [{"ip_prefix": "192.0.2.0/24", "region": "x"}]}`)
	until("the new list", func() bool { return r.Contains(young) && !r.Contains(old) })
	cancel()
	<-ended
}
