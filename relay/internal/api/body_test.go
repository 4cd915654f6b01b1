package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

func reading(ctx context.Context, body io.Reader) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/message", body)
	if err != nil {
		panic(err)
	}
	r.ContentLength = -1
	return r
}

func TestReadBody(t *testing.T) {
	rd := reader{max: 1 << 20, places: request.NewPlaces(1, 1), within: placeTime}
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, bigBody, bigBody + 1, 1 << 20} {
		want := bytes.Repeat([]byte("x"), size)
		got, err := rd.read(reading(t.Context(), bytes.NewReader(want)))
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !bytes.Equal(got.bytes, want) {
			t.Errorf("%d bytes: got %d", size, len(got.bytes))
		}
		got.release()
	}
	for _, announced := range []int64{-1, 1<<20 + 1} {
		r := reading(t.Context(), strings.NewReader(strings.Repeat("x", 1<<20+1)))
		r.ContentLength = announced
		if _, err := rd.read(r); refusal.KindOf(err) != refusal.KindTooLarge {
			t.Errorf("announced %d: %v", announced, err)
		}
	}
	if n := rd.places.Held(); n != 0 {
		t.Errorf("%d places are still taken", n)
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
		rd := reader{max: 1 << 20, places: request.NewPlaces(1, 1), within: placeTime}
		began := time.Now()
		_, err := rd.read(reading(t.Context(), drip{time.Second}))
		if refusal.KindOf(err) != refusal.KindTimeout {
			t.Errorf("a body that drips: %v", err)
		}
		if took := time.Since(began); took > bodyTime+2*time.Second {
			t.Errorf("took %v", took)
		}
		began = time.Now()
		_, err = rd.read(reading(t.Context(), io.MultiReader(strings.NewReader(strings.Repeat(" ", 2*bigBody)), drip{time.Second})))
		if took := time.Since(began); refusal.KindOf(err) != refusal.KindTimeout || took > placeTime+2*time.Second || rd.places.Held() != 0 {
			t.Errorf("a big body that drips holds its place for %v: %v", took, err)
		}
		if _, err := rd.read(reading(t.Context(), failing{os.ErrDeadlineExceeded})); refusal.KindOf(err) != refusal.KindTimeout {
			t.Errorf("a body that stalls: %v", err)
		}
		if _, err := rd.read(reading(t.Context(), failing{io.ErrUnexpectedEOF})); refusal.KindOf(err) != refusal.KindInvalid {
			t.Errorf("a body that breaks off: %v", err)
		}
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestBigBodiesTakeTurns: small ones pass while big ones wait.
func TestBigBodiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rd := reader{max: 1 << 20, places: request.NewPlaces(1, 1), within: placeTime}
		big := strings.Repeat("x", 4*bigBody)
		first, err := rd.read(reading(t.Context(), strings.NewReader(big)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rd.read(reading(ctx, strings.NewReader(big))); refusal.KindOf(err) != refusal.KindUnavailable {
			t.Errorf("a second one: %v", err)
		}
		small, err := rd.read(reading(t.Context(), strings.NewReader("small")))
		if err != nil {
			t.Fatal(err)
		}
		small.release()
		first.release()
		second, err := rd.read(reading(t.Context(), strings.NewReader(big)))
		if err != nil {
			t.Fatalf("after the first: %v", err)
		}
		second.release()
	})
}
