package rest

import (
	"bufio"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestBatch_HoldsEachRequest(t *testing.T) {
	var requests []*http.Request
	for _, target := range []string{"http://host/c/a%2Fb?sig=x%2By", "http://host/c/d"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Ms-Date", "today")
		requests = append(requests, r)
	}
	body, mediaType := batch(requests)
	_, o, err := mime.ParseMediaType(mediaType)
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(strings.NewReader(string(body)), o["boundary"])
	for _, want := range requests {
		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadRequest(bufio.NewReader(part))
		if err != nil || got.Method != http.MethodDelete || got.RequestURI != want.URL.RequestURI() || got.Header.Get("X-Ms-Date") != "today" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last part: %v", err)
	}
}

func TestUndeleted(t *testing.T) {
	part := func(id, status string) string {
		return "--b\r\nContent-Type: application/http\r\nContent-ID: " + id + "\r\n\r\nHTTP/1.1 " + status + "\r\nX: y\r\n\r\n"
	}
	const busy = "503 Service Unavailable"
	for name, tt := range map[string]struct {
		content string
		left    []string
		refused bool
	}{
		"all done":            {part("2", "202 Accepted") + part("0", "404 Not Found") + part("1", "204 No Content"), nil, false},
		"as Google names it":  {part("<response-0>", "204 No Content") + part("<response-1>", "204 No Content") + part("response-2", "204 No Content"), nil, false},
		"one refused":         {part("0", "202 Accepted") + part("1", "403 Forbidden") + part("2", "202 Accepted"), []string{"b"}, false},
		"one not answered":    {part("0", "202 Accepted") + part("7", "202 Accepted") + part("2", "202 Accepted"), []string{"b"}, false},
		"busy":                {part("0", busy) + part("1", busy) + part("2", "429 Too Many Requests"), []string{"a", "b", "c"}, false},
		"all refused":         {part("0", "403 Forbidden") + part("1", "400 Bad Request") + part("2", "403 Forbidden"), nil, true},
		"no answer of a part": {"--b\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 400 Bad Request\r\n\r\n", nil, true},
		"no batch":            {"<html>", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &http.Response{Header: http.Header{"Content-Type": {"multipart/mixed; boundary=b"}}, Body: io.NopCloser(strings.NewReader(tt.content + "--b--\r\n"))}
			left, err := undeleted(t.Context(), resp, []string{"a", "b", "c"})
			if !slices.Equal(left, tt.left) || errors.Is(err, errors.ErrUnsupported) != tt.refused || err != nil && !tt.refused {
				t.Errorf("left %q, %v; want %q, refused %v", left, err, tt.left, tt.refused)
			}
		})
	}
}
