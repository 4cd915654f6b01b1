package api

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"slipway/relay/internal/intake"
	"slipway/relay/internal/message"
	"slipway/relay/internal/relay"
)

// BenchmarkMessage is what the API adds to a message: reading the request and
// making the answer, without the commit.
func BenchmarkMessage(b *testing.B) {
	body := []byte(`{"token":"AL2qUwqGks1XQlISzhjmPe9OSkCN95gB","title":"Backup finished","message":"All **42** volumes are safe, 18.3 GB in 12 min.","priority":1}`)
	a := &API{service: &relay.Service{}, o: Options{MaxBody: 2 << 20, MaxWait: time.Second}, big: make(chan struct{}, 1)}
	r := httptest.NewRequest(http.MethodPost, "/message", nil)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(body))
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(bytes.NewReader(body))
		read, err := a.readBody(r)
		if err != nil {
			b.Fatal(err)
		}
		var s submission
		if err := s.read(r, read.bytes); err != nil {
			b.Fatal(err)
		}
		read.release()
		accepted := intake.Accepted{ID: 25, ApplicationID: 1, Title: s.title, Message: s.message, Priority: 1, AcceptedAt: time.Now(), State: message.StateQueued}
		a.answerAccepted(w, &accepted, &s, &message.Message{State: accepted.State})
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
