package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/oci"
)

var layer = []byte("a layer")

func digest(b []byte) oci.Digest { return oci.SHA256.FromBytes(b) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func serve(t *testing.T, h http.HandlerFunc) *url.URL {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	check(t, err)
	return u
}

func client(t *testing.T, u *url.URL, change func(*Options)) *Client {
	t.Helper()
	o := Options{URL: u}
	if change != nil {
		change(&o)
	}
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

func fetch(ctx context.Context, c *Client, name oci.Name, content []byte) error {
	b, err := c.Blob(ctx, name, digest(content), 0)
	if err != nil {
		return err
	}
	defer b.Close()
	got, err := io.ReadAll(b)
	if err == nil && string(got) != string(content) {
		err = fmt.Errorf("got %q", got)
	}
	return err
}

func TestBasic(t *testing.T) {
	asked := 0
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		if user, password, _ := r.BasicAuth(); user != "ada" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Write(layer)
	})
	c := client(t, u, func(o *Options) { o.Credentials = Password("ada", "secret") })
	check(t, fetch(t.Context(), c, "a", layer))
	check(t, fetch(t.Context(), c, "b", layer))
	if asked != 3 {
		t.Errorf("%d requests: the challenge is not remembered", asked)
	}
	c = client(t, u, func(o *Options) { o.Credentials = Password("ada", "wrong") })
	if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != Login || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong password: %v", err)
	}
	if err := c.Ping(t.Context()); ReasonOf(err) != Login {
		t.Errorf("ping with a wrong password: %v", err)
	}
	c = client(t, u, nil)
	if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != Denied {
		t.Errorf("no login: %v", err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("ping without a login: %v", err)
	}
}

// tokenServer is a registry and a token server of which each token is for one repository.
type tokenServer struct {
	mu       sync.Mutex
	fetched  []string // the queries
	users    []string
	lifetime int
	revoked  bool
	realm    string
}

func (s *tokenServer) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, _, _ := r.BasicAuth()
	s.fetched, s.users = append(s.fetched, r.URL.Query().Get("scope")), append(s.users, user)
	json.NewEncoder(w).Encode(map[string]any{"token": "for " + r.URL.Query().Get("scope"), "expires_in": s.lifetime})
}

func (s *tokenServer) registry(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/v2/")
	name = name[:strings.Index(name, "/blobs/")]
	if s.revoked || r.Header.Get("Authorization") != "Bearer for repository:"+name+":pull" {
		s.revoked = false
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="a, b",scope="repository:%s:pull"`, s.realm, name))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Write(layer)
}

func TestToken(t *testing.T) {
	s := &tokenServer{lifetime: 300}
	realm := serve(t, s.token)
	s.realm = realm.String()
	u := serve(t, s.registry)
	c := client(t, u, nil)
	for range 3 {
		check(t, fetch(t.Context(), c, "a/b", layer))
	}
	check(t, fetch(t.Context(), c, "c", layer))
	if fmt.Sprint(s.fetched) != "[repository:a/b:pull repository:c:pull]" || s.users[0] != "" {
		t.Errorf("%v by %v", s.fetched, s.users)
	}
	s.revoked = true
	check(t, fetch(t.Context(), c, "c", layer))
	if len(s.fetched) != 3 {
		t.Errorf("%v: a token that is not accepted any more is not fetched again", s.fetched)
	}
	c = client(t, u, func(o *Options) { o.Credentials = Password("ada", "secret") })
	check(t, fetch(t.Context(), c, "c", layer))
	if s.users[3] != "ada" {
		t.Errorf("the token server got the login of %q", s.users[3])
	}
}

// A realm elsewhere gets neither a login nor a request.
func TestToken_UntrustedRealm(t *testing.T) {
	asked := 0
	realm := serve(t, func(http.ResponseWriter, *http.Request) { asked++ })
	_, port, _ := strings.Cut(realm.Host, ":")
	s := &tokenServer{realm: "http://localhost:" + port}
	u := serve(t, s.registry) // at 127.0.0.1
	c := client(t, u, func(o *Options) { o.Credentials = Password("ada", "secret") })
	if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != Realm || !strings.Contains(err.Error(), "trusted realms") {
		t.Errorf("%v", err)
	}
	if asked != 0 {
		t.Errorf("the realm was asked %d times", asked)
	}
}

func TestTrusts(t *testing.T) {
	for _, test := range []struct {
		registry, realm string
		want            bool
	}{
		{"https://registry-1.docker.io", "https://auth.docker.io/token", true},
		{"https://registry-1.docker.io", "http://auth.docker.io/token", false},
		{"https://quay.io", "https://quay.io:8443/token", true},
		{"https://quay.io", "https://evilquay.io/token", false},
		{"https://a.github.io", "https://b.github.io/token", false}, // a public suffix
		{"https://a.co.uk", "https://b.co.uk/token", false},
		{"https://nvcr.io", "https://authn.nvidia.com/token", true}, // configured
		{"http://10.0.0.1:5000", "http://10.9.0.1/token", false},
		{"http://10.0.0.1:5000", "http://10.0.0.1:5001/token", true},
		{"http://10.0.3.4:5000", "http://[::ffff:10.1.3.4]/token", false},
		{"http://registry", "https://other/token", false},
	} {
		registry, err := url.Parse(test.registry)
		check(t, err)
		realm, err := url.Parse(test.realm)
		check(t, err)
		if got := New(Options{URL: registry, Realms: []string{"authn.nvidia.com"}}).trusts(realm); got != test.want {
			t.Errorf("%s trusts %s: %v", test.registry, test.realm, got)
		}
	}
}

// A redirect to another host loses the login; one to http from https is not followed.
func TestRedirect(t *testing.T) {
	var got http.Header
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header; w.Write(layer) })
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); !ok {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other.String()+"/blob?signature=x", http.StatusTemporaryRedirect)
	})
	c := client(t, u, func(o *Options) { o.Credentials = Password("ada", "secret") })
	check(t, fetch(t.Context(), c, "a", layer))
	if got.Get("Authorization") != "" || got.Get("Referer") != "" {
		t.Errorf("the other host got %v", got)
	}
	b, err := c.Blob(t.Context(), "a", digest(layer), 2)
	check(t, err)
	defer b.Close()
	if rest, err := io.ReadAll(b); err != nil || string(rest) != string(layer[2:]) {
		t.Errorf("from an offset: %q, %v", rest, err)
	}

	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.String(), http.StatusFound)
	}))
	t.Cleanup(secure.Close)
	u, err = url.Parse(secure.URL)
	check(t, err)
	got = nil
	c = client(t, u, func(o *Options) { o.CAs = secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs })
	if err := fetch(t.Context(), c, "a", layer); err == nil || got != nil {
		t.Errorf("from https to http: %v", err)
	}
	if err := client(t, u, nil).Ping(t.Context()); ReasonOf(err) != Down {
		t.Errorf("a certificate of nobody: %v", err)
	}
}

// A redirect may hold a signature, which is nothing for a log.
func TestRedirect_IsNotInErrors(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, gone.URL+"/blob?signature=secret", http.StatusTemporaryRedirect)
	})
	err := fetch(t.Context(), client(t, u, nil), "a", layer)
	if ReasonOf(err) != Down || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), strings.TrimPrefix(gone.URL, "http://")) {
		t.Errorf("%v", err)
	}
}

// A 401 of another host, to which the registry has redirected, asks for nothing.
func TestRedirect_ChallengeOfAnotherHost(t *testing.T) {
	var asked []string
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization"))
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	})
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.String(), http.StatusTemporaryRedirect)
	})
	c := client(t, u, func(o *Options) { o.Credentials = Password("ada", "secret") })
	if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != Denied || len(asked) != 1 || asked[0] != "" {
		t.Errorf("%v after %q", err, asked)
	}
}

func TestReasons(t *testing.T) {
	for status, want := range map[int]Reason{404: NotFound, 401: Denied, 403: Denied, 429: Limited, 500: Fault, 503: Fault, 418: Invalid} {
		u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(status)
			io.WriteString(w, `{"errors":[{"code":"X","message":"why"}]}`)
		})
		err := fetch(t.Context(), client(t, u, nil), "a", layer)
		if e, ok := errors.AsType[*Error](err); !ok || e.Reason != want || e.RetryAfter != 5*time.Second || !strings.Contains(e.Error(), "why") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// An upstream that accepts and says nothing, or pauses within a blob, is given up.
func TestStalls(t *testing.T) {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	for _, begins := range []bool{true, false} {
		u := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if begins {
				w.Header().Set("Content-Length", "7")
				w.Write(layer[:3])
				w.(http.Flusher).Flush()
			}
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		})
		c := client(t, u, func(o *Options) {
			if o.Stall = 50 * time.Millisecond; !begins {
				o.Timeout = 50 * time.Millisecond
			}
		})
		if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != Slow {
			t.Errorf("begins %v: %v", begins, err)
		}
	}
}

// An upstream that sends a byte now and then is given up; one whose reader is slow is not.
func TestTrickles(t *testing.T) {
	const stall = 200 * time.Millisecond
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		for r.Context().Err() == nil {
			w.Write([]byte("."))
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	})
	c := client(t, u, func(o *Options) { o.Stall, o.MinRate = stall, 1_000_000 })
	if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != Slow {
		t.Errorf("a trickle: %v", err)
	}
	slow := &body{ctx: t.Context(), cancel: func(error) {}, src: io.NopCloser(bytes.NewReader(layer)), stall: 500 * time.Millisecond, rate: 1_000_000, release: func() {}}
	slow.timer = time.AfterFunc(time.Hour, func() {})
	defer slow.Close()
	for {
		if _, err := slow.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("a slow reader: %v", err)
		}
		time.Sleep(600 * time.Millisecond / time.Duration(len(layer)))
	}
}

// An error whose text does not end is one, too.
func TestStalls_InAnError(t *testing.T) {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	})
	c := client(t, u, nil)
	c.opts.Timeout = 50 * time.Millisecond // after that the transport waits for the head as long as ever
	if err := fetch(t.Context(), c, "a", layer); ReasonOf(err) != NotFound {
		t.Errorf("%v", err)
	}
}

// A token server that refuses the login is told apart from a registry that doesn't give the
// repository to a login that it knows.
func TestToken_WrongLogin(t *testing.T) {
	s := &tokenServer{lifetime: 300}
	realm := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, password, ok := r.BasicAuth(); ok && password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.token(w, r)
	})
	s.realm = realm.String()
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/private/") || r.URL.Path == "/v2/" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="x"`, s.realm))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.registry(w, r)
	})
	right := client(t, u, func(o *Options) { o.Credentials = Password("ada", "secret") })
	check(t, right.Ping(t.Context()))
	check(t, fetch(t.Context(), right, "open", layer))
	if err := fetch(t.Context(), right, "private/a", layer); ReasonOf(err) != Denied {
		t.Errorf("a repository of somebody else: %v", err)
	}
	wrong := client(t, u, func(o *Options) { o.Credentials = Password("ada", "wrong") })
	if err := wrong.Ping(t.Context()); ReasonOf(err) != Login || strings.Contains(err.Error(), "wrong") {
		t.Errorf("ping with a wrong login: %v", err)
	}
	if err := fetch(t.Context(), wrong, "open", layer); ReasonOf(err) != Login {
		t.Errorf("a wrong login: %v", err)
	}
}

func TestManifestIsVerifiedAndBounded(t *testing.T) {
	body := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`
	said := ""
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if said != "" {
			w.Header().Set("Docker-Content-Digest", said)
		}
		io.WriteString(w, body)
	})
	c := client(t, u, func(o *Options) { o.MaxManifest = 1000 })
	tag, byDigest := oci.Reference{Tag: "v1"}, oci.Reference{Digest: digest([]byte(body))}
	for _, ref := range []oci.Reference{tag, byDigest} {
		m, err := c.Manifest(t.Context(), "a", ref)
		check(t, err)
		if m.Digest != byDigest.Digest || string(m.Bytes) != body {
			t.Errorf("%+v", m)
		}
	}
	if _, err := c.Manifest(t.Context(), "a", oci.Reference{Digest: digest([]byte("x"))}); ReasonOf(err) != Invalid {
		t.Errorf("another digest: %v", err)
	}
	said = string(digest([]byte("x")))
	if _, err := c.Manifest(t.Context(), "a", tag); ReasonOf(err) != Invalid {
		t.Errorf("another digest in the header: %v", err)
	}
	said, body = "", "<html>"
	if _, err := c.Manifest(t.Context(), "a", tag); ReasonOf(err) != Invalid {
		t.Errorf("no manifest: %v", err)
	}
	for _, body = range []string{`{"Code":"Success","Token":"secret"}`, `{"config":{"password":"secret"}}`} { // where a redirect may lead
		if _, err := c.Manifest(t.Context(), "a", tag); ReasonOf(err) != Invalid {
			t.Errorf("%s: %v", body, err)
		}
	}
	body = strings.Repeat(" ", 1001)
	if _, err := c.Manifest(t.Context(), "a", tag); ReasonOf(err) != Invalid {
		t.Errorf("too large: %v", err)
	}
}

func TestLimit(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Remaining", "76;w=21600")
		w.Write(layer)
	})
	left := -1
	c := client(t, u, func(o *Options) { o.Limit = func(n int) { left = n } })
	check(t, fetch(t.Context(), c, "a", layer))
	if left != 76 {
		t.Errorf("%d left", left)
	}
	left = -1
	check(t, c.Ping(t.Context()))
	if left != 76 {
		t.Errorf("%d left, after a ping", left)
	}
}

// Large blobs on their way keep no small request waiting, which would count as an upstream that doesn't answer.
func TestBlob_LeavesConnections(t *testing.T) {
	stop, begun := make(chan struct{}), make(chan struct{}, 2*maxConns)
	u := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			w.Header().Set("Content-Length", "7")
			w.(http.Flusher).Flush()
			begun <- struct{}{}
			<-stop
			w.Write(layer)
		}
	})
	c := client(t, u, func(o *Options) { o.Timeout = 10 * time.Second })
	var all sync.WaitGroup
	var failed atomic.Int64
	for range 2 * maxConns {
		all.Go(func() {
			if fetch(t.Context(), c, "a", layer) != nil {
				failed.Add(1)
			}
		})
	}
	for n, left := 0, time.After(time.Minute); n < maxConns && left != nil; n++ {
		select {
		case <-begun:
			if n+1 == maxBlobs {
				left = time.After(200 * time.Millisecond) // in which no other may begin
			}
		case <-left:
			left = nil
		}
	}
	for range 3 {
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("while %d blobs are received: %v", maxBlobs, err)
		}
	}
	close(stop)
	all.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d blobs failed", n)
	}
}

func FuzzParseParameters(f *testing.F) {
	f.Add(`realm="https://auth.docker.io/token",service="registry.docker.io",scope="a:b,c"`)
	f.Add(`a=b, c="d\"e"`)
	f.Fuzz(func(_ *testing.T, s string) { parseParameters(s) })
}
