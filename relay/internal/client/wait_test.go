package client

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestWaitFor_LastAttemptCutShort_TellsTheOneBefore: the error has the homeserver's answer, not the interruption.
func TestWaitFor_LastAttemptCutShort_TellsTheOneBefore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked := 0
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			http.Error(w, "not yet", http.StatusTeapot)
			return
		}
		cancel()
		<-r.Context().Done()
	}))
	defer hs.Close()
	h, err := NewHomeserver(hs.URL)
	if err != nil {
		t.Fatal(err)
	}
	err = WaitFor(ctx, h)
	if err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("%v", err)
	}
}

func TestReady_NoHomeserver(t *testing.T) {
	for answer, want := range map[string]string{
		`{}`: "is not a Matrix homeserver", `<html>`: "invalid character", `{"versions":["v1.11"]}`: "",
	} {
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, answer) }))
		h, err := NewHomeserver(hs.URL + "/")
		if err != nil {
			t.Fatal(err)
		}
		err = h.ready(t.Context())
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", answer, err, want)
		}
		hs.Close()
	}
}
