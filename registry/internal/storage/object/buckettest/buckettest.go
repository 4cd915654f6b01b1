// Package buckettest is the suite that each object.Bucket passes on a real server, beside that of package storagetest: what a
// store doesn't show of its bucket.
package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// Options describes what the server gets wrong that the driver is tested on.
type Options struct {
	Client     *http.Client // for signed URLs; nil = the default
	MixesPages bool         // a delimited listing of several pages is not in order
	Unsigned   bool         // the bucket has no key to sign URLs with
	KeepsDates bool         // of objects that are touched
}

// Run runs the suite on a bucket whose keys below its prefix nobody else has.
func Run(t *testing.T, b object.Bucket, prefix string, o Options) {
	s := suite{b, prefix, o}
	t.Run("objects", s.objects)
	t.Run("touch", s.touch)
	t.Run("listing", s.listing)
	t.Run("compose", s.compose)
	t.Run("signed URL", s.signedURL)
	t.Run("canceled", s.canceled)
}

type suite struct {
	b      object.Bucket
	prefix string
	o      Options
}

func body(content string) object.Body {
	return object.Body{Content: strings.NewReader(content), Size: int64(len(content))}
}

func (s *suite) put(t *testing.T, key, content string, o object.PutOptions) string {
	t.Helper()
	v, err := s.b.Put(t.Context(), s.prefix+key, body(content), o)
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return v
}

func (s *suite) get(t *testing.T, key string, offset, length int64) (string, object.Info) {
	t.Helper()
	r, info, err := s.b.Get(t.Context(), s.prefix+key, offset, length)
	if err != nil {
		t.Fatalf("get %s from %d, %d bytes: %v", key, offset, length, err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content), info
}

func (s *suite) objects(t *testing.T) {
	for _, content := range []string{"", "x", strings.Repeat("0123456789", 100_000)} {
		for _, expire := range []bool{false, true} {
			before := time.Now().Add(-time.Minute)
			v := s.put(t, "o/one", content, object.PutOptions{Writer: "WRITER", Expire: expire})
			got, info := s.get(t, "o/one", 0, -1)
			if got != content || info.Key != s.prefix+"o/one" || info.Size != int64(len(content)) || info.Version == "" || info.Writer != "WRITER" || v != "" && v != info.Version {
				t.Errorf("%d bytes come back, %+v, written as %s", len(got), info, v)
			}
			if info.Modified.Before(before) || info.Modified.After(time.Now().Add(time.Minute)) || info.Now.Before(before) {
				t.Errorf("written at %v, answered at %v", info.Modified, info.Now)
			}
			head, err := s.b.Head(t.Context(), s.prefix+"o/one")
			if err != nil || head.Size != info.Size || head.Version != info.Version || head.Writer != "WRITER" || !head.Modified.Equal(info.Modified) {
				t.Errorf("head is %+v, get %+v, %v", head, info, err)
			}
		}
	}
	if err := s.b.Delete(t.Context(), s.prefix+"o/one", storage.Condition{}); err != nil {
		t.Error(err)
	}
	if err := s.b.Delete(t.Context(), s.prefix+"o/one", storage.Condition{}); err != nil {
		t.Errorf("deleting what is not there: %v", err)
	}
	if _, err := s.b.Head(t.Context(), s.prefix+"o/one"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("head of what is not there: %v", err)
	}
	if _, _, err := s.b.Get(t.Context(), s.prefix+"o/one", 0, -1); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("get of what is not there: %v", err)
	}
}

// answered repeats a request until the server answers it, as object.Client does. A server that refuses a condition before
// it has read the body closes the connection, and the answer can be lost; Azurite closes a connection that was idle for 5 s,
// also while the next request is on its way.
func answered(request func() error) error {
	err := request()
	var trouble *object.Trouble
	for try := 0; try < 5 && errors.As(err, &trouble); try++ {
		err = request()
	}
	return err
}

// touch checks that a touched object becomes newer, unless the server can't do that, and keeps its content, and that one
// that is gone stays so.
func (s suite) touch(t *testing.T) {
	b, prefix := s.b, s.prefix
	s.put(t, "t/one", "content", object.PutOptions{Writer: "W"})
	_, first := s.get(t, "t/one", 0, -1)
	time.Sleep(1100 * time.Millisecond)
	err := b.Touch(t.Context(), prefix+"t/one", first.Version)
	got, now := s.get(t, "t/one", 0, -1)
	if renewed := err == nil && now.Modified.After(first.Modified); renewed == s.o.KeepsDates || got != "content" {
		t.Errorf("touched it has %q, dated %v after %v, %v", got, now.Modified, first.Modified, err)
	}
	page, err := b.List(t.Context(), prefix+"t/", object.ListOptions{})
	if err != nil || len(page.Entries) != 1 || !page.Entries[0].Modified.Equal(now.Modified) || page.Entries[0].Version != now.Version {
		t.Errorf("listed %+v, %v; it is %+v", page.Entries, err, now)
	}
	if s.o.KeepsDates {
		return
	}
	if err := b.Touch(t.Context(), prefix+"t/none", first.Version); !errors.Is(err, storage.ErrNotExist) && !errors.Is(err, storage.ErrConflict) {
		t.Errorf("touch of what is not there: %v", err)
	}
	if _, err := b.Head(t.Context(), prefix+"t/none"); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("touched, what was not there: %v", err)
	}
	if b.Limits().Versioned == (now.Version == first.Version) {
		t.Errorf("touched it has version %s after %s", now.Version, first.Version)
	}
	s.put(t, "t/one", "other", object.PutOptions{})
	if err := b.Touch(t.Context(), prefix+"t/one", now.Version); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("touch of another version: %v", err)
	}
}

// list reads the whole listing in pages.
func (s *suite) list(t *testing.T, prefix string, o object.ListOptions) (keys []string) {
	t.Helper()
	if o.After != "" {
		o.After = s.prefix + o.After
	}
	for range 1000 {
		page, err := s.b.List(t.Context(), s.prefix+prefix, o)
		if err != nil {
			t.Fatal(err)
		}
		if page.Now.IsZero() {
			t.Error("a page has no time")
		}
		for _, e := range page.Entries {
			key := strings.TrimPrefix(e.Key, s.prefix)
			if e.Prefix != strings.HasSuffix(key, "/") || !e.Prefix && (e.Size != 1 || e.Version == "" || e.Modified.IsZero()) {
				t.Errorf("listed %+v", e)
			}
			keys = append(keys, key)
		}
		if !page.More {
			return keys
		}
		if o.After = page.Next; o.After == "" {
			o.After = page.Entries[len(page.Entries)-1].Key
		}
	}
	t.Fatal("the listing does not end")
	return nil
}

func (s *suite) listing(t *testing.T) {
	for _, key := range []string{"l/0", "l/a-b/x", "l/a.b/x", "l/a/x", "l/a/y/z", "l/b", "l/c/_d/e", "m"} {
		s.put(t, key, "x", object.PutOptions{})
	}
	for _, c := range []struct {
		prefix string
		o      object.ListOptions
		want   string
	}{
		{"l/", object.ListOptions{}, "l/0 l/a-b/x l/a.b/x l/a/x l/a/y/z l/b l/c/_d/e"},
		{"l/", object.ListOptions{Delimited: true}, "l/0 l/a-b/ l/a.b/ l/a/ l/b l/c/"},
		{"l/", object.ListOptions{After: "l/a.b/x"}, "l/a/x l/a/y/z l/b l/c/_d/e"},
		{"l/", object.ListOptions{After: "l/a.b/", Delimited: true}, "l/a/ l/b l/c/"},
		{"l/", object.ListOptions{After: "l/a/~", Delimited: true}, "l/b l/c/"},
		{"l/", object.ListOptions{After: "l/z"}, ""},
		{"l/a/", object.ListOptions{Delimited: true}, "l/a/x l/a/y/"},
		{"l/nothing/", object.ListOptions{}, ""},
	} {
		for _, most := range []int{0, 1, 3} {
			if s.o.MixesPages && c.o.Delimited && most > 0 {
				continue
			}
			o := c.o
			o.Max = most
			got := s.list(t, c.prefix, o)
			// A prefix before After may be listed: what calls leaves it out.
			got = slices.DeleteFunc(got, func(key string) bool { return key <= c.o.After })
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("%s %+v: %s, want %s", c.prefix, o, text, c.want)
			}
		}
	}
	_, info := s.get(t, "l/0", 0, -1)
	page, err := s.b.List(t.Context(), s.prefix+"l/", object.ListOptions{Max: 1})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Version != info.Version {
		t.Errorf("listed %+v, %v; the version is %s", page.Entries, err, info.Version)
	}
}

func (s *suite) compose(t *testing.T) {
	part := max(s.b.Limits().MinPart, 1000)
	contents := []string{strings.Repeat("a", int(part)), strings.Repeat("b", int(part)), "c"}
	var sources []object.Source
	for i, content := range contents {
		key := fmt.Sprint("d/part", i)
		s.put(t, key, content, object.PutOptions{})
		sources = append(sources, object.Source{Key: s.prefix + key, Size: int64(len(content))})
	}
	whole := strings.Join(contents, "")
	var v string
	err := answered(func() (err error) {
		v, err = s.b.Compose(t.Context(), s.prefix+"d/whole", sources, object.PutOptions{Writer: "W", If: storage.IfAbsent()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got, info := s.get(t, "d/whole", 0, -1)
	if got != whole || info.Size != int64(len(whole)) || info.Writer != "W" || v != "" && v != info.Version {
		t.Errorf("got %d bytes, %+v, composed as %s", len(got), info, v)
	}
	err = answered(func() error {
		_, err := s.b.Compose(t.Context(), s.prefix+"d/whole", sources[:1], object.PutOptions{If: storage.IfAbsent()})
		return err
	})
	if !errors.Is(err, storage.ErrConflict) {
		t.Errorf("composing over an object: %v", err)
	}
	if _, err := s.b.Compose(t.Context(), s.prefix+"d/whole", sources[2:], object.PutOptions{}); err != nil {
		t.Errorf("composing of one source: %v", err)
	}
	if got, _ := s.get(t, "d/whole", 0, -1); got != "c" {
		t.Errorf("got %d bytes", len(got))
	}
	missing := []object.Source{{Key: s.prefix + "d/nothing", Size: 1}}
	if _, err := s.b.Compose(t.Context(), s.prefix+"d/other", missing, object.PutOptions{}); !errors.Is(err, storage.ErrNotExist) {
		t.Errorf("composing of what is not there: %v", err)
	}
}

func (s *suite) signedURL(t *testing.T) {
	signer := s.b
	if s.o.Unsigned {
		if signer.Redirects() {
			t.Error("it says that it can sign")
		}
		if url, err := signer.SignedURL(t.Context(), http.MethodGet, s.prefix+"s/x", time.Minute, object.URLOptions{}); err == nil {
			t.Errorf("signed without a key: %s", url)
		}
		return
	}
	if !signer.Redirects() {
		t.Fatal("it says that it cannot sign")
	}
	s.put(t, "s/a_b-c.d", "0123456789", object.PutOptions{})
	url, err := signer.SignedURL(t.Context(), http.MethodGet, s.prefix+"s/a_b-c.d", time.Minute, object.URLOptions{ContentType: "application/vnd.x+json"})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=2-4")
	client := s.o.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusPartialContent || !bytes.Equal(content, []byte("234")) {
		t.Errorf("a range by %s: %d %q %v", url, resp.StatusCode, content, err)
	}
}

func (s *suite) canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.b.Head(ctx, s.prefix+"x"); !errors.Is(err, context.Canceled) {
		t.Errorf("head: %v", err)
	}
	if _, err := s.b.Put(ctx, s.prefix+"x", body("x"), object.PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
}
