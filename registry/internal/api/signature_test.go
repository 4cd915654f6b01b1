package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/signature"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/hookedtest"
	"slipway/registry/internal/storage/memory"
)

// signer is a key, and the policy that wants it.
type signer struct {
	private *ecdsa.PrivateKey
	rule    signature.Rule
}

func newSigner(t *testing.T, refuse bool) *signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signature.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return &signer{private, signature.Rule{Repositories: pattern.MustNames([]string{"signed/**"}), Keys: []signature.Key{key}, Refuse: refuse}}
}

// sign signs as cosign 2 does.
func (k *signer) sign(t *testing.T, s *host, name oci.Name, d oci.Digest) {
	t.Helper()
	payload := `{"critical":{"identity":{"docker-reference":"elsewhere"},"image":{"docker-manifest-digest":"` + string(d) + `"},"type":"cosign container image signature"}}`
	digest := sha256.Sum256([]byte(payload))
	sig, err := ecdsa.SignASN1(rand.Reader, k.private, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	repo := s.api.opts.Registry.Repository(name)
	layer, config := registrytest.Push(t, repo, payload), registrytest.Push(t, repo, "{}")
	layer.MediaType = "application/vnd.dev.cosign.simplesigning.v1+json"
	layer.Annotations = map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sig)}
	registrytest.PutManifest(t, repo, map[string]any{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": config, "layers": []oci.Descriptor{layer},
	}, oci.Tag("sha256-"+d.Hex()+".sig"))
}

func TestSignatures_Refused(t *testing.T) {
	key := newSigner(t, true)
	s := newServer(t, func(s *setup) { s.options.Signatures = signature.New([]signature.Rule{key.rule}) })
	repo := s.api.opts.Registry.Repository("signed/app")
	image := registrytest.PushImage(t, repo, "v1", "{}", "layer")
	for _, ref := range []string{"v1", string(image.Digest)} {
		for _, method := range []string{"GET", "HEAD"} {
			a := s.do(method, "/v2/signed/app/manifests/"+ref, nil, "If-None-Match", `"`+string(image.Digest)+`"`)
			if a.StatusCode != http.StatusForbidden || method == "GET" && (!strings.Contains(string(a.body), `"DENIED"`) || !strings.Contains(string(a.body), "not signed")) {
				t.Errorf("%s %s = %s %s", method, ref, a.Status, a.body)
			}
		}
	}
	if n := s.logs.FilterMessage("manifest without a valid signature").Len(); n != 4 {
		t.Errorf("%d lines in the log", n)
	}
	if a := s.do("GET", "/v2/signed/app/referrers/"+string(image.Digest), nil); a.StatusCode != http.StatusOK {
		t.Errorf("referrers: %s", a.Status)
	}
	key.sign(t, s, "signed/app", image.Digest)
	for _, ref := range []string{"v1", string(image.Digest), "sha256-" + image.Digest.Hex() + ".sig"} {
		if a := s.do("GET", "/v2/signed/app/manifests/"+ref, nil); a.StatusCode != http.StatusOK || a.Header.Get("Warning") != "" {
			t.Errorf("GET %s = %s %q", ref, a.Status, a.Header.Get("Warning"))
		}
	}
	registrytest.PushImage(t, s.api.opts.Registry.Repository("free"), "v1", "{}", "layer")
	if a := s.do("GET", "/v2/free/manifests/v1", nil); a.StatusCode != http.StatusOK || a.Header.Get("Warning") != "" {
		t.Errorf("a repository without a rule: %s %q", a.Status, a.Header.Get("Warning"))
	}
}

// What a policy protects isn't served while its signatures can't be read.
func TestSignatures_StorageFails(t *testing.T) {
	key := newSigner(t, true)
	var broken atomic.Bool
	store := &hookedtest.Store{Store: memory.New(), OnRead: func(_ context.Context, _ hookedtest.Op, key string) error {
		if broken.Load() && strings.Contains(key, ".sig/") {
			return storage.ErrUnavailable
		}
		return nil
	}}
	s := newServer(t, func(s *setup) { s.store, s.options.Signatures = store, signature.New([]signature.Rule{key.rule}) })
	image := registrytest.PushImage(t, s.api.opts.Registry.Repository("signed/app"), "v1", "{}", "layer")
	key.sign(t, s, "signed/app", image.Digest)
	s.do("GET", "/v2/signed/app/manifests/v1", nil).want(t, 200)
	broken.Store(true)
	if got := s.do("GET", "/v2/signed/app/manifests/v1", nil); got.StatusCode < 500 {
		t.Errorf("%s %s", got.Status, got.body)
	}
}

func TestSignatures_Warned(t *testing.T) {
	key, other := newSigner(t, false), newSigner(t, false)
	s, l := newListened(t, func(s *setup) { s.options.Signatures = signature.New([]signature.Rule{key.rule}) })
	image := registrytest.PushImage(t, s.api.opts.Registry.Repository("signed/app"), "v1", "{}", "layer")
	for _, want := range []string{"is not signed", "by no key"} {
		a := s.do("GET", "/v2/signed/app/manifests/v1", nil)
		reason, warned := strings.CutPrefix(a.Header.Get("Warning"), `299 - "`)
		if a.StatusCode != http.StatusOK || !warned || !strings.Contains(reason, want) {
			t.Errorf("%s, Warning: %s; want %s", a.Status, a.Header.Get("Warning"), want)
		}
		l.hears(t, want, "pull|signed/app||v1|"+image.MediaType+"|"+string(image.Digest)+"|"+strings.TrimSuffix(reason, `"`))
		other.sign(t, s, "signed/app", image.Digest)
	}
}

// Those who sign have to read what isn't signed yet; a login that only pulls can't.
func TestSignatures_CallersWhoMayPushAreWarned(t *testing.T) {
	rules := newRules(t, allow("dev", "**", "push"), allow("anyone", "**", "pull"))
	key := newSigner(t, true)
	s := newServer(t, func(s *setup) {
		s.options.Signatures = signature.New([]signature.Rule{key.rule})
		s.options.Auth = auth.NewAuthorizer(auth.Options{Rules: func() *access.Rules { return rules }, Logins: &auth.Logins{Htpasswd: openUsers(t, "dev", "node")}, Realm: "test"})
	})
	registrytest.PushImage(t, s.api.opts.Registry.Repository("signed/app"), "v1", "{}", "layer")
	for user, want := range map[string]int{"dev": http.StatusOK, "node": http.StatusForbidden, "": http.StatusForbidden} {
		var login []string
		if user != "" {
			login = basic(user, "p")
		}
		if a := s.do("GET", "/v2/signed/app/manifests/v1", nil, login...); a.StatusCode != want || (a.Header.Get("Warning") != "") != (want == http.StatusOK) {
			t.Errorf("%q: %s %q", user, a.Status, a.Header.Get("Warning"))
		}
	}
}
