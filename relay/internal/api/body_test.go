package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/protocol/webhook"
	"slipway/relay/internal/refusal"
	"slipway/shared/shares"
)

func reading(ctx context.Context, body io.Reader) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/message", body)
	if err != nil {
		panic(err)
	}
	r.ContentLength = -1
	return r
}

// testReader reads bodies of up to 1 MiB, of which one is in memory at a time.
type testReader struct{ memory *shares.Pool }

func newTestReader() testReader { return testReader{shares.New(1<<20, 1<<20)} }

func (tr testReader) read(r *http.Request) (*body, error) {
	b, err := openBody(r, 2<<20)
	if err != nil {
		return nil, err
	}
	if err := b.readAll(share{tr.memory, "client", memoryTime}, 1<<20); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func TestReadBody(t *testing.T) {
	tr := newTestReader()
	for _, size := range []int{0, 1, bytes.MinRead - 1, bytes.MinRead, bytes.MinRead + 1, bigBody - 1, bigBody, bigBody + 1, 1 << 20} {
		for _, announced := range []int64{-1, int64(size)} {
			want := bytes.Repeat([]byte("x"), size)
			r := reading(t.Context(), bytes.NewReader(want))
			r.ContentLength = announced
			got, err := tr.read(r)
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%d bytes: got %d", size, got.Len())
			}
			if held := tr.memory.Held(); size > bigBody && held < size || size < bigBody && held != 0 {
				t.Errorf("%d bytes hold %d bytes of memory", size, held)
			}
			got.release()
		}
	}
	for _, announced := range []int64{-1, 1<<20 + 1} {
		r := reading(t.Context(), strings.NewReader(strings.Repeat("x", 1<<20+1)))
		r.ContentLength = announced
		if _, err := tr.read(r); refusal.KindOf(err) != refusal.KindTooLarge || !strings.Contains(err.Error(), "limits.body") {
			t.Errorf("announced %d: %v", announced, err)
		}
	}
	if n := tr.memory.Held(); n != 0 {
		t.Errorf("%d bytes of memory are still taken", n)
	}
	r := reading(t.Context(), failing{errors.New("it was read")}) // net/http asks a client for its body then
	r.ContentLength = 11
	if _, err := openBody(r, 10); refusal.KindOf(err) != refusal.KindTooLarge {
		t.Errorf("announced over the limit: %v", err)
	}
}

// drip gives a byte now and then.
type drip struct{ every time.Duration }

func (d drip) Read(p []byte) (int, error) {
	time.Sleep(d.every)
	p[0] = ' '
	return 1, nil
}

func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestReader()
		began := time.Now()
		_, err := tr.read(reading(t.Context(), drip{time.Second}))
		if refusal.KindOf(err) != refusal.KindTimeout {
			t.Errorf("a body that drips: %v", err)
		}
		if took := time.Since(began); took > bodyTime+2*time.Second {
			t.Errorf("took %v", took)
		}
		began = time.Now()
		_, err = tr.read(reading(t.Context(), io.MultiReader(strings.NewReader(strings.Repeat(" ", 2*bigBody)), drip{time.Second})))
		if took := time.Since(began); refusal.KindOf(err) != refusal.KindTimeout || took > memoryTime+2*time.Second || tr.memory.Held() != 0 {
			t.Errorf("a big body that drips holds its memory for %v: %v", took, err)
		}
		if _, err := tr.read(reading(t.Context(), failing{os.ErrDeadlineExceeded})); refusal.KindOf(err) != refusal.KindTimeout {
			t.Errorf("a body that stalls: %v", err)
		}
		if _, err := tr.read(reading(t.Context(), failing{io.ErrUnexpectedEOF})); refusal.KindOf(err) != refusal.KindInvalid {
			t.Errorf("a body that breaks off: %v", err)
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestBigBodiesTakeTurns: small ones pass while big ones wait.
func TestBigBodiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestReader()
		big := strings.Repeat("x", 4*bigBody)
		first, err := tr.read(reading(t.Context(), strings.NewReader(big)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tr.read(reading(ctx, strings.NewReader(big))); refusal.KindOf(err) != refusal.KindUnavailable {
			t.Errorf("a second one: %v", err)
		}
		small, err := tr.read(reading(t.Context(), strings.NewReader("small")))
		if err != nil {
			t.Fatal(err)
		}
		small.release()
		first.release()
		second, err := tr.read(reading(t.Context(), strings.NewReader(big)))
		if err != nil {
			t.Fatalf("after the first: %v", err)
		}
		second.release()
	})
}

// Bodies come compressed, and with a byte order mark.
func TestBodyEncodings(t *testing.T) {
	w := newWorldFor(t, nil, webhook.Generic())
	token := w.app(named("a")).Token
	zip := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.String()
	}
	const body = `{"message":"m"}`
	for _, path := range []string{"/message?token=" + token, "/hook/generic/" + token} {
		w.want("gzip", w.ask("POST", path, zip(body), "Content-Encoding: gzip", isJSON), 200)
		w.want("a mark", w.ask("POST", path, "\xef\xbb\xbf"+body, isJSON), 200)
		w.want("a mark, no type", w.ask("POST", path, "\xef\xbb\xbf"+body), 200)
		w.want("both", w.ask("POST", path, zip("\xef\xbb\xbf"+body), "Content-Encoding: GZIP", isJSON), 200)
		w.want("no gzip", w.ask("POST", path, body, "Content-Encoding: gzip", isJSON), 400)
		w.want("cut off", w.ask("POST", path, zip(body)[:20], "Content-Encoding: gzip", isJSON), 400)
		w.want("another encoding", w.ask("POST", path, body, "Content-Encoding: br", isJSON), 415)
		w.want("a bomb", w.ask("POST", path, zip(body+string(make([]byte, 10<<20))), "Content-Encoding: gzip", isJSON), 413)
	}
	w.want("with the token in it", w.ask("POST", "/message", zip(`{"token":"`+token+`","message":"m"}`), "Content-Encoding: gzip", isJSON), 200)
	w.want("words", w.ask("POST", "/message?token="+token, `{"title":95,"message":{"Disk full":"95% used"}}`, isJSON), 200, "title", "95", "message", "Disk full: 95% used")
	w.want("no words", w.ask("POST", "/message?token="+token, `{"message":{}}`, isJSON), 400)
}
