package gcstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// server is a handler in front of a server with the bucket "bucket".
type server struct {
	*testing.T
	url string
}

func newServer(t *testing.T) server {
	t.Helper()
	addr := programtest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	programtest.Start(t, exec.Command(programtest.Tool(t, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port,
		"-backend", "memory", "-public-host", addr, "-external-url", "http://"+addr, "-log-level", "error"), "http://"+addr+"/storage/v1/b")
	front := httptest.NewServer(New(&url.URL{Scheme: "http", Host: addr}))
	t.Cleanup(front.Close)
	s := server{t, front.URL}
	s.want(200, "POST /storage/v1/b", `{"name": "bucket"}`, "Content-Type: application/json")
	return s
}

// ask sends a request, such as "GET /path", and returns the answer's status and generation.
func (s server) ask(request, body string, headers ...string) (status int, generation string) {
	s.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	var about struct {
		Generation string
		Resource   struct{ Generation string }
	}
	_ = json.Unmarshal(text, &about)
	return resp.StatusCode, about.Generation + about.Resource.Generation + resp.Header.Get("X-Goog-Generation")
}

// want sends a request, checks the answer's status and returns its generation.
func (s server) want(status int, request, body string, headers ...string) (generation string) {
	s.Helper()
	got, generation := s.ask(request, body, headers...)
	if got != status {
		s.Errorf("%s %s: %d, want %d", request, body, got, status)
	}
	return generation
}

// put writes an object and returns its generation.
func (s server) put(name string) string {
	s.Helper()
	return s.want(200, "POST /upload/storage/v1/b/bucket/o?uploadType=media&name="+name, "content")
}

// exists checks whether an object exists, in this generation unless that is "".
func (s server) exists(name, generation string) {
	s.Helper()
	status, is := s.ask("GET /storage/v1/b/bucket/o/"+name, "")
	if status != 200 || generation != "" && is != generation {
		s.Errorf("%s: %d, generation %s, want %s", name, status, is, generation)
	}
}

// conditions lists queries and whether they hold for an object of generation g and metageneration 1, and for none.
func conditions(g string) []struct {
	query        string
	live, absent bool
} {
	return []struct {
		query        string
		live, absent bool
	}{
		{"ifGenerationMatch=" + g, true, false},
		{"ifGenerationMatch=1", false, false},
		{"ifGenerationMatch=0", false, true},
		{"ifGenerationNotMatch=" + g, false, false},
		{"ifGenerationNotMatch=1", true, false},
		{"ifGenerationNotMatch=0", true, false},
		{"ifMetagenerationMatch=1", true, false},
		{"ifMetagenerationMatch=2", false, false},
		{"ifMetagenerationNotMatch=1", false, false},
		{"ifMetagenerationNotMatch=2", true, false},
		{"ifGenerationMatch=" + g + "&ifMetagenerationMatch=2", false, false},
	}
}

func status(holds bool, success int) int {
	if holds {
		return success
	}
	return http.StatusPreconditionFailed
}

// Each way to write an object honors each condition, and changes nothing if one doesn't hold.
func TestConditions(t *testing.T) {
	s := newServer(t)
	s.put("source")
	for name, write := range map[string]func(object, query string) (request, body string, headers []string){
		"media": func(object, query string) (string, string, []string) {
			return "POST /upload/storage/v1/b/bucket/o?uploadType=media&name=" + object + "&" + query, "new", nil
		},
		"multipart": func(object, query string) (string, string, []string) {
			body := "--x\r\nContent-Type: application/json\r\n\r\n{\"name\": \"" + object + "\"}\r\n--x\r\nContent-Type: text/plain\r\n\r\nnew\r\n--x--\r\n"
			return "POST /upload/storage/v1/b/bucket/o?uploadType=multipart&" + query, body, []string{"Content-Type: multipart/related; boundary=x"}
		},
		"compose": func(object, query string) (string, string, []string) {
			return "POST /storage/v1/b/bucket/o/" + object + "/compose?" + query, `{"sourceObjects": [{"name": "source"}], "destination": {}}`, nil
		},
		"rewrite": func(object, query string) (string, string, []string) {
			return "POST /storage/v1/b/bucket/o/source/rewriteTo/b/bucket/o/" + object + "?" + query, "{}", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := server{t, s.url}
			live, absent := "live-"+name, "absent-"+name
			for i := range conditions("") {
				g := s.put(live)
				c := conditions(g)[i]
				request, body, headers := write(live, c.query)
				if s.want(status(c.live, 200), request, body, headers...); !c.live {
					s.exists(live, g)
				}
				request, body, headers = write(absent, c.query)
				if s.want(status(c.absent, 200), request, body, headers...); c.absent {
					s.want(200, "DELETE /storage/v1/b/bucket/o/"+absent, "")
				}
				s.want(404, "GET /storage/v1/b/bucket/o/"+absent, "")
			}
		})
	}
	t.Run("delete", func(t *testing.T) {
		s := server{t, s.url}
		for i := range conditions("") {
			g := s.put("deleted")
			c := conditions(g)[i]
			if s.want(status(c.live, 200), "DELETE /storage/v1/b/bucket/o/deleted?"+c.query, ""); !c.live {
				s.exists("deleted", g)
			}
			s.want(404, "DELETE /storage/v1/b/bucket/o/absent?"+c.query, "")
		}
	})
	t.Run("metadata", func(t *testing.T) {
		s := server{t, s.url}
		s.put("m")
		const at = "/storage/v1/b/bucket/o/m?ifMetagenerationMatch="
		s.want(412, "PATCH "+at+"2", "{}")
		s.want(200, "PATCH "+at+"1", `{"metadata": {"a": "b"}}`)
		s.want(412, "PATCH "+at+"1", "{}")
		s.want(200, "DELETE "+at+"2", "")
	})
}

// Sources of copies and compositions have conditions of their own.
func TestSources(t *testing.T) {
	s := newServer(t)
	g := s.put("source")
	const copied = "POST /storage/v1/b/bucket/o/source/rewriteTo/b/bucket/o/copy?"
	s.want(404, "POST /storage/v1/b/bucket/o/none/rewriteTo/b/bucket/o/copy", "{}")
	s.want(404, copied+"sourceGeneration=1", "{}")
	s.want(412, copied+"ifSourceGenerationMatch=1", "{}")
	s.want(412, copied+"ifSourceGenerationNotMatch="+g, "{}")
	s.want(412, copied+"ifSourceMetagenerationMatch=2", "{}")
	s.want(404, "GET /storage/v1/b/bucket/o/copy", "")
	s.want(200, copied+"sourceGeneration="+g+"&ifSourceGenerationMatch="+g+"&ifGenerationMatch=0", "{}")
	const composed = "POST /storage/v1/b/bucket/o/whole/compose"
	for source, want := range map[string]int{
		`{"name": "none"}`:                      404,
		`{"name": "source", "generation": "1"}`: 404,
		`{"name": "source", "objectPreconditions": {"ifGenerationMatch": "1"}}`:            412,
		`{"name": "source", "objectPreconditions": {"ifGenerationMatch": "` + g + `"}}`:    200,
		`{"name": "source"}, {"name": "none"}`:                                             404,
		`{"name": "source", "objectPreconditions": {"ifGenerationMatch": "one"}}`:          400,
		`{"name": "source", "generation": "` + g + `"}, {"name": "copy"}, {"name":"copy"}`: 200,
	} {
		s.want(want, composed, `{"sourceObjects": [`+source+`], "destination": {}}`)
	}
}

// Signed requests of the XML interface have their conditions in headers, and end.
func TestSigned(t *testing.T) {
	s := newServer(t)
	signed := func(ago time.Duration) string {
		return "?X-Goog-Expires=10&X-Goog-Date=" + time.Now().Add(-ago).UTC().Format("20060102T150405Z")
	}
	g := s.want(200, "PUT /bucket/a/b"+signed(0), "one", "X-Goog-If-Generation-Match: 0", "X-Goog-Meta-Writer: w")
	s.exists("a%2Fb", g)
	s.want(412, "PUT /bucket/a/b"+signed(0), "two", "X-Goog-If-Generation-Match: 0")
	s.want(400, "PUT /bucket/a/b"+signed(time.Minute), "two", "X-Goog-If-Generation-Match: "+g)
	s.want(400, "PUT /bucket/a/b", "two")
	s.want(412, "DELETE /bucket/a/b"+signed(0), "", "X-Goog-If-Generation-Match: 1")
	s.exists("a%2Fb", g)
	s.want(400, "DELETE /bucket/a/b"+signed(time.Minute), "", "X-Goog-If-Generation-Match: "+g)
	s.want(200, "DELETE /bucket/a/b"+signed(0), "", "X-Goog-If-Generation-Match: "+g)
	s.want(404, "DELETE /bucket/a/b"+signed(0), "")
}

// Of writers and deleters that name the same generation one succeeds.
func TestRace(t *testing.T) {
	s := newServer(t)
	for range 5 {
		g := s.put("raced")
		var done atomic.Int64
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				request, body := "DELETE /storage/v1/b/bucket/o/raced?ifGenerationMatch="+g, ""
				switch i % 3 {
				case 1:
					request = "POST /storage/v1/b/bucket/o/raced/rewriteTo/b/bucket/o/raced?ifGenerationMatch=" + g
				case 2:
					request, body = "POST /upload/storage/v1/b/bucket/o?uploadType=media&name=raced&ifGenerationMatch="+g, fmt.Sprint(i)
				}
				if status, _ := s.ask(request, body); status == http.StatusOK {
					done.Add(1)
				}
			})
		}
		all.Wait()
		if n := done.Load(); n != 1 {
			t.Errorf("%d of 12 succeeded", n)
		}
	}
}
