package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

func withLimits(user, address auth.Limit) func(*setup) {
	return func(s *setup) { s.options.Limits = auth.NewLimits(user, address) }
}

func TestLimits_Requests(t *testing.T) {
	everybody := func() *access.Rules { return access.UsersOnly(true) }
	s := newServer(t, fill(t, "a"), withAuth(t, everybody), withLimits(auth.Limit{Requests: 1, Burst: 2}, auth.Limit{Requests: 1, Burst: 50}))
	get := func(header ...string) answer { return s.do("GET", "/v2/a/manifests/v1", nil, header...) }
	untilRefused := func(header ...string) answer {
		refused := get(header...)
		for i := 0; i < 1000 && refused.StatusCode != http.StatusTooManyRequests; i++ { // time gives requests back
			refused = get(header...)
		}
		return refused
	}
	refused := untilRefused("Authorization", rightUser)
	refused.wantError(t, 429, oci.CodeTooManyRequests)
	refused.want(t, 429, "Retry-After", "1")
	if !strings.Contains(string(refused.body), "one user may have 1 request a second") {
		t.Errorf("%s", refused.body)
	}
	get().want(t, 200) // the address has some left
	refused = untilRefused()
	if refused.wantError(t, 429, oci.CodeTooManyRequests); !strings.Contains(string(refused.body), "one address") {
		t.Errorf("%s", refused.body)
	}
}

func TestLimits_Uploads(t *testing.T) {
	s := newServer(t, withLimits(auth.Limit{}, auth.Limit{Uploads: 1}))
	slow := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202)
	other := s.do("POST", "/v2/a/blobs/uploads/", nil).want(t, 202)
	came := func() string { return s.do("GET", slow.location(t), nil).want(t, 204).Header.Get("Range") }
	nothing := came()
	body, client := io.Pipe()
	done := make(chan answer)
	go func() { done <- s.send("PATCH", slow.location(t), body) }()
	_, _ = client.Write(make([]byte, 256<<10))
	for i := 0; came() == nothing; i++ { // until it is under way
		if i == 1000 {
			t.Fatal("the server does not read")
		}
		time.Sleep(10 * time.Millisecond)
	}

	blob := []byte("blob")
	put := func() answer {
		return s.do("PUT", with(other.location(t), "digest", string(digestOf(blob))), blob)
	}
	put().want(t, 429, "Retry-After", "5")
	s.do("GET", "/v2/", nil).want(t, 200)
	client.Close()
	if got := <-done; got.StatusCode != http.StatusAccepted {
		t.Errorf("the one under way: %s %s", got.Status, got.body)
	}
	put().want(t, 201)
}
