package matrix

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"
)

// TestRequest_Path: an id may hold any character (event ids of room version 3 have slashes) and is one part of the path, also
// where the homeserver's URL has a path.
func TestRequest_Path(t *testing.T) {
	const want = "/_matrix/client/v3/rooms/%21a%2Fb%25c%3Fd%23e%20%C3%A4:hs/redact/$x%2Fy+z/.."
	var got string
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI }))
	defer hs.Close()
	for base, prefix := range map[string]string{"": "", "/": "", "/matrix": "/matrix", "/a/b/": "/a/b", "/a%2Fb": "/a%2Fb"} {
		c, err := New(Options{Homeserver: hs.URL + base, AccessToken: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		r := request{method: http.MethodPut, path: v3("rooms", "!a/b%c?d#e ä:hs", "redact", "$x/y+z", "..")}
		if err := c.do(t.Context(), c.api("", ""), r, nil); err != nil {
			t.Fatal(err)
		}
		if got != prefix+want {
			t.Errorf("%s: %s, want %s", base, got, prefix+want)
		}
	}
}

// An endless answer ends at the bound of its request, whatever the request is.
func TestRequest_EndlessAnswer(t *testing.T) {
	var sent int
	over := make(chan struct{})
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer func() { over <- struct{}{} }()
		piece := bytes.Repeat([]byte(`{"a":[`), 10_000)
		for sent = 0; ; sent += len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer hs.Close()
	c, err := New(Options{Homeserver: hs.URL, AccessToken: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	c.session.Store(c.newSession("@bot:hs", "DEVICE", "secret"))
	for name, tt := range map[string]struct {
		ask   func(context.Context) error
		limit int
	}{
		"members":      {func(ctx context.Context) error { return c.call(ctx, membersOf("!a:hs"), nil) }, maxListAnswer},
		"joined rooms": {func(ctx context.Context) error { _, err := c.Joined(ctx); return err }, maxListAnswer},
		"whoami":       {c.Probe, maxAnswer},
		"state": {func(ctx context.Context) error {
			return c.call(ctx, request{method: http.MethodGet, path: v3("rooms", "!a:hs", "state", "m.room.name", "")}, nil)
		}, maxAnswer},
		"sync": {func(ctx context.Context) error { _, err := c.sync(ctx, "s", 0); return err }, maxSyncAnswer},
		"keys": {func(ctx context.Context) error {
			_, err := c.session.Load().api.MakeRequest(ctx, http.MethodPost, hs.URL+"/_matrix/client/v3/keys/query", struct{}{}, nil)
			return err
		}, maxKeysAnswer},
	} {
		err := tt.ask(t.Context())
		<-over
		const buffered = 16 << 20 // in the sockets
		if err == nil || sent > tt.limit+buffered {
			t.Errorf("%s: %v after %d bytes", name, err, sent)
		}
		var failed *SendError
		if name != "keys" && (!errors.As(err, &failed) || failed.Reason != "the homeserver's answer is too long") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer is whole or an error, however it is cut into pieces.
func TestReadAnswer(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 1536, 1537, 5 << 20} {
		want := bytes.Repeat([]byte("x"), size)
		for name, body := range map[string]io.Reader{"at once": bytes.NewReader(want), "halved": iotest.HalfReader(bytes.NewReader(want)), "with its end": iotest.DataErrReader(bytes.NewReader(want))} {
			got, err := readAnswer(nil, &http.Response{Body: io.NopCloser(body)}, nil, int64(size))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %s: %d, %v", size, name, len(got), err)
			}
		}
		cut := io.MultiReader(bytes.NewReader(want), iotest.ErrReader(io.ErrUnexpectedEOF))
		if _, err := readAnswer(nil, &http.Response{Body: io.NopCloser(cut)}, nil, int64(size)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes, cut short: %v", size, err)
		}
	}
}
