package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"go.uber.org/zap"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// before is a proxy before Azurite whose script decides about each request.
func before(t *testing.T, script func(w http.ResponseWriter, r *http.Request, pass func())) *Bucket {
	t.Helper()
	b := newBucket(t)
	target, err := url.Parse(strings.TrimSuffix(b.o.ServiceURL, "/"+account))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		script(w, r, func() { proxy.ServeHTTP(w, r) })
	}))
	t.Cleanup(front.Close)
	o := b.o
	o.ServiceURL = front.URL + "/" + account
	through, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { through.Close() })
	through.started.Store(true)
	return through
}

func small(content string) object.Body {
	return object.Body{Content: strings.NewReader(content), Size: int64(len(content))}
}

// cut ends a connection without an answer.
func cut(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// What a failed request may have done is said.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		script func(http.ResponseWriter, *http.Request, func())
		effect object.Effect
		after  time.Duration
	}{
		"throttled": {func(w http.ResponseWriter, _ *http.Request, _ func()) {
			w.Header().Set("X-Ms-Error-Code", "ServerBusy")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, object.Refused, 7 * time.Second},
		"error of the server": {func(w http.ResponseWriter, _ *http.Request, _ func()) { w.WriteHeader(http.StatusInternalServerError) }, object.Doubtful, 0},
		"gateway":             {func(w http.ResponseWriter, _ *http.Request, _ func()) { w.WriteHeader(http.StatusBadGateway) }, object.Lost, 0},
		"cut":                 {func(w http.ResponseWriter, _ *http.Request, _ func()) { cut(w) }, object.Lost, 0},
		"grant that has expired": {func(w http.ResponseWriter, _ *http.Request, _ func()) {
			w.Header().Set("X-Ms-Error-Code", "AuthenticationFailed")
			w.WriteHeader(http.StatusForbidden)
		}, object.Refused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := before(t, c.script)
			for what, err := range map[string]error{
				"put": func() error {
					_, err := b.Put(t.Context(), "k", small("x"), object.PutOptions{Expire: true})
					return err
				}(),
				"delete": b.Delete(t.Context(), "k", storage.Condition{}),
			} {
				if trouble, ok := errors.AsType[*object.Trouble](err); !ok || trouble.Effect != c.effect || trouble.After != c.after || !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("%s: %+v (%v)", what, trouble, err)
				}
				if strings.Contains(fmt.Sprint(err), "sig=") {
					t.Errorf("%s shows a signature: %v", what, err)
				}
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		b, err := New(Options{Account: account, Key: accountKey, ServiceURL: "http://" + l.Addr().String() + "/" + account, Container: "c"})
		if err != nil {
			t.Fatal(err)
		}
		var trouble *object.Trouble
		if err := b.Delete(t.Context(), "k", storage.Condition{}); !errors.As(err, &trouble) || trouble.Effect != object.Refused {
			t.Errorf("%+v (%v)", trouble, err)
		}
	})
}

// A blob that distribution has written is an append blob: it is read, overwritten and
// composed over.
func TestAppendBlob(t *testing.T) {
	b := newBucket(t)
	appendBlob := func(key, content string) {
		t.Helper()
		api := b.api.NewAppendBlobClient(key)
		if _, err := api.Create(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := api.AppendBlock(t.Context(), streaming.NopCloser(strings.NewReader(content)), nil); err != nil {
			t.Fatal(err)
		}
	}
	read := func(key string) string {
		t.Helper()
		r, _, err := b.Get(t.Context(), key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	appendBlob("a", "appended")
	if got := read("a"); got != "appended" {
		t.Errorf("read %q", got)
	}
	if _, err := b.Put(t.Context(), "a", small("put"), object.PutOptions{}); err != nil || read("a") != "put" {
		t.Errorf("overwritten with %q, %v", read("a"), err)
	}
	appendBlob("dir/b", "appended")
	for i, part := range []string{"one", "two"} {
		if _, err := b.Put(t.Context(), fmt.Sprint("part", i), small(part), object.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	sources := []object.Source{{Key: "part0", Size: 3}, {Key: "part1", Size: 3}}
	if _, err := b.Compose(t.Context(), "dir/b", sources, object.PutOptions{Writer: "W"}); err != nil || read("dir/b") != "onetwo" {
		t.Errorf("composed over: %q, %v", read("dir/b"), err)
	}
	page, err := b.List(t.Context(), "dir/", object.ListOptions{})
	if err != nil || len(page.Entries) != 1 {
		t.Errorf("left behind: %+v, %v", page.Entries, err)
	}
}

// The tree of distribution 2 is found behind its slash.
func TestStart_ContainerOfDistribution2(t *testing.T) {
	b := newBucket(t)
	b.slash = "/"
	if _, err := b.Put(t.Context(), "docker/registry/v2/blobs/x", small("x"), object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := New(b.o)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Start(t.Context(), "", zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	if info, err := again.Head(t.Context(), "docker/registry/v2/blobs/x"); err != nil || info.Size != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// What keeps the registry from starting is a sentence that names the setting.
func TestStart_Sentences(t *testing.T) {
	url := serviceURL(t)
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"key":       {Options{Account: account, Key: base64.StdEncoding.EncodeToString([]byte("wrong")), ServiceURL: url, Container: "abc"}, "accountkey: refused for container abc"},
		"container": {Options{Account: account, Key: accountKey, ServiceURL: url, Container: "nothing-here"}, "container: nothing-here does not exist in"},
		"network":   {Options{Account: account, Key: accountKey, ServiceURL: "http://127.0.0.1:1/" + account, Container: "abc"}, "serviceurl: cannot reach 127.0.0.1:1"},
		"name":      {Options{Account: "a", Key: accountKey, ServiceURL: "http://nothing.invalid", Container: "abc"}, "nothing.invalid"},
		"tokens":    {Options{Account: "a", Token: noToken{}, ServiceURL: "https://127.0.0.1:1", Container: "abc"}, "credentials: Microsoft Entra ID gives no token: it is away"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := New(c.o)
			if err == nil {
				err = b.Start(t.Context(), "", zap.NewNop())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	for want, o := range map[string]Options{
		"accountkey: is not a key in base64":                  {Account: "a", Key: "?", ServiceURL: url, Container: "abc"},
		"serviceurl: must begin with https://":                {Account: "a", Token: noToken{}, ServiceURL: url, Container: "abc"},
		`serviceurl: "ftp://x" is not a URL such as https://`: {Account: "a", Key: accountKey, ServiceURL: "ftp://x", Container: "abc"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

type noToken struct{}

func (noToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, errors.New("it is away")
}

// The life of a request that expires begins when it was decided to send it: between that and
// the signature the process may have been stopped.
func TestExpiryBeginsWithTheDecision(t *testing.T) {
	var until string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until = r.URL.Query().Get("se")
		w.WriteHeader(map[string]int{http.MethodPut: http.StatusCreated, http.MethodDelete: http.StatusAccepted}[r.Method])
	}))
	defer server.Close()
	b, err := New(Options{Account: account, Key: accountKey, ServiceURL: server.URL + "/" + account, Container: "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ago := object.WithSent(t.Context(), time.Now().Add(-time.Hour))
	for name, send := range map[string]func() error{
		"deletion": func() error { return b.Delete(ago, "key", storage.Condition{}) },
		"put": func() error {
			_, err := b.Put(ago, "key", small("x"), object.PutOptions{Expire: true})
			return err
		},
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
		if end, err := time.Parse(time.RFC3339, until); err != nil || time.Until(end) > -50*time.Minute {
			t.Errorf("the %s expires at %q, %v", name, until, err)
		}
	}
}

// A clock that is wrong is named, instead of the key that is right.
func TestStart_Clock(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(3*time.Hour).UTC().Format(http.TimeFormat))
		w.Header().Set("X-Ms-Error-Code", "AuthenticationFailed")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	b, err := New(Options{Account: account, Key: accountKey, ServiceURL: server.URL + "/" + account, Container: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Start(t.Context(), "", zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), "accountkey: refused; this machine's clock is off by 3h0m") && !strings.HasPrefix(err.Error(), "accountkey: refused; this machine's clock is off by 2h59m") {
		t.Errorf("got %v", err)
	}
}
