package s3_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/object/buckettest"
	"slipway/registry/internal/storage/s3"
	"slipway/registry/internal/storage/s3/s3test"
	"slipway/registry/internal/storage/storagetest"
)

// contract runs the suite of stores. checksApart means that the server checks a deletion's condition before it deletes, so
// that a write between the two is lost.
func contract(t *testing.T, scale storagetest.Scale, b object.Bucket, checksApart bool) {
	limits := b.Limits()
	limits.MaxLate = 200 * time.Millisecond // these servers do at once what they do
	if scale.Page > 0 {
		b, limits.MaxDelete = &buckettest.Paged{Bucket: b, Page: scale.Page}, scale.Page
	}
	found, err := object.Probe(t.Context(), object.NewClient(b, "root", limits, object.Timing{}))
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	storagetest.Run(t, scale, func(t *testing.T) (x, y storage.Store) {
		root := fmt.Sprintf("root/%d", n.Add(1))
		limits := found.Limits
		open := func() storage.Store {
			return object.New(object.NewClient(b, root, limits, object.Timing{}), object.Options{Spool: t.TempDir(), SpoolMax: 8 << 20, Fresh: time.Second})
		}
		if strings.HasSuffix(t.Name(), "/DeleteIfVersionLosesNoChange") && (checksApart || !limits.ConditionalDelete) {
			limits.ConditionalDelete = false // then one process keeps conditions on deletions by its own locks
			x = open()
			return x, x
		}
		return open(), open()
	})
}

func TestFull_Contract_MinIO(t *testing.T) {
	contract(t, storagetest.Scale{}, &beside{Bucket: s3test.MinIO(t, t.TempDir()).Bucket(t, "contract")}, false)
}

// beside is a bucket of MinIO, which now and then answers 403 to a PUT while a deletion removes the
// directory it writes to. Only such a PUT, beside a deletion, is sent again. The driver does not do
// that: anywhere else a 403 is a matter of keys and rights.
type beside struct {
	*s3.Bucket
	begun, ended atomic.Int64 // deletions
}

func (b *beside) Put(ctx context.Context, key string, body object.Body, o object.PutOptions) (version string, err error) {
	for range 10 {
		ended := b.ended.Load()
		version, err = b.Bucket.Put(ctx, key, body, o)
		if alone := b.begun.Load() == ended; alone || !errors.Is(err, storage.ErrDenied) {
			break
		}
	}
	return version, err
}

func (b *beside) Delete(ctx context.Context, key string, c storage.Condition) error {
	b.begun.Add(1)
	defer b.ended.Add(1)
	return b.Bucket.Delete(ctx, key, c)
}

func (b *beside) DeleteMany(ctx context.Context, keys []string) error {
	b.begun.Add(1)
	defer b.ended.Add(1)
	return b.Bucket.DeleteMany(ctx, keys)
}

func TestContract_VersityGW(t *testing.T) {
	contract(t, storagetest.Emulated, s3test.VersityGW(t, t.TempDir()).Bucket(t, "contract"), true)
}

func TestProbe(t *testing.T) { probe(t, s3test.VersityGW, true) }

func probe(t *testing.T, start s3test.Start, conditionalDelete bool) {
	b := start(t, t.TempDir()).Bucket(t, "probe")
	f, err := object.Probe(t.Context(), object.NewClient(b, "a/b", b.Limits(), object.Timing{}))
	if err != nil || !f.ConditionalPut || f.ConditionalDelete != conditionalDelete || (f.Why == "") != conditionalDelete {
		t.Errorf("found %+v, %v", f, err)
	}
	if page, err := b.List(t.Context(), "", object.ListOptions{}); err != nil || len(page.Entries) != 0 {
		t.Errorf("the probe left %+v, %v", page.Entries, err)
	}
}

// TestFull_MinIO repeats on MinIO what the other tests do on versitygw.
func TestFull_MinIO(t *testing.T) {
	for name, test := range map[string]func(*testing.T, s3test.Start){
		"probe": func(t *testing.T, start s3test.Start) { probe(t, start, false) },
		"bucket": func(t *testing.T, start s3test.Start) {
			buckettest.Run(t, start(t, t.TempDir()).Bucket(t, "bucket"), "a/b/", buckettest.Options{})
		},
		"names the setting":    func(t *testing.T, start s3test.Start) { namesTheSetting(t, start, "storage.s3.accesskey: ") },
		"changes expire":       changesExpire,
		"signed URLs expire":   signedURLExpires,
		"requests with faults": faulty,
		"versions":             versions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s3test.MinIO)
		})
	}
}

// versions: below a bucket that keeps versions, a deletion takes names out of listings at once, which MinIO's own don't.
func versions(t *testing.T, start s3test.Start) {
	server := start(t, t.TempDir())
	b := server.Bucket(t, "versions")
	server.KeepVersions(t, "versions")
	f, err := object.Probe(t.Context(), object.NewClient(b, "root", b.Limits(), object.Timing{}))
	if err != nil || !f.ListsDeleted {
		t.Fatalf("found %+v, %v", f, err)
	}
	c := object.NewClient(b, "root", f.Limits, object.Timing{})
	list := func() (keys []string) {
		for e, err := range c.List(t.Context(), "tags/", object.ListOptions{Delimited: true}) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, e.Key)
		}
		return keys
	}
	for _, key := range []string{"tags/a/link", "tags/b/link", "tags/c/link"} {
		if _, err := c.Put(t.Context(), key, []byte("x"), &object.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(t.Context(), "tags/b/link", &object.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := list(); !slices.Equal(got, []string{"tags/a/", "tags/c/"}) {
		t.Errorf("listed %q", got)
	}
}

// versitygw leaves the date of an object that is copied onto itself.
func TestBucket(t *testing.T) {
	buckettest.Run(t, s3test.VersityGW(t, t.TempDir()).Bucket(t, "bucket"), "a/b/", buckettest.Options{KeepsDates: true})
}

// What an operator got wrong is a sentence that names the setting.
func TestOpen_NamesTheSetting(t *testing.T) {
	namesTheSetting(t, s3test.VersityGW, "storage.s3.regionendpoint: ") // it answers 404 XAdminUserNotFound
}

func namesTheSetting(t *testing.T, start s3test.Start, unknownKey string) {
	server := start(t, t.TempDir())
	server.Bucket(t, "there")
	good := server.Config("there")
	for name, tt := range map[string]struct {
		change func(*s3.Config)
		want   string
	}{
		"bucket":     {func(c *s3.Config) { c.Bucket = "missing" }, "storage.s3.bucket: there is no bucket \"missing\""},
		"access key": {func(c *s3.Config) { c.AccessKey = "nobody" }, unknownKey},
		"secret key": {func(c *s3.Config) { c.SecretKey = "wrong" }, "storage.s3.secretkey: "},
		"port":       {func(c *s3.Config) { c.Endpoint = "http://127.0.0.1:1" }, "storage.s3.regionendpoint: cannot reach http://127.0.0.1:1"},
		"endpoint":   {func(c *s3.Config) { c.Endpoint = "http://" }, "storage.s3.regionendpoint: "},
		"CA file":    {func(c *s3.Config) { c.CAFile = "/does/not/exist" }, "storage.s3.cafile: "},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			tt.change(&c)
			begun := time.Now()
			_, err := s3.Open(t.Context(), c)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error is %v, want %s…", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), c.SecretKey) {
				t.Errorf("%v holds the secret", err)
			}
			if d := time.Since(begun); d > 30*time.Second {
				t.Errorf("it took %v to say so", d)
			}
		})
	}
}

// A change whose signature has expired does nothing.
func TestChangesExpire(t *testing.T) { changesExpire(t, s3test.VersityGW) }

func changesExpire(t *testing.T, start s3test.Start) {
	b := start(t, t.TempDir()).Bucket(t, "expire")
	key := rand.Text()
	put := func(o object.PutOptions) error {
		_, err := b.Put(t.Context(), key, object.Body{Content: strings.NewReader("x"), Size: 1}, o)
		return err
	}
	if err := put(object.PutOptions{Expire: true}); err != nil {
		t.Fatal(err)
	}
	b.SetClock(-time.Minute) // as if it had been sent a minute ago
	if err := put(object.PutOptions{Expire: true}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a put that was under way for a minute: %v", err)
	}
	b.SetClock(-time.Minute)
	if err := b.Delete(context.Background(), key, storage.Condition{}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a deletion that was under way for a minute: %v", err)
	}
	if _, err := b.Head(t.Context(), key); err != nil {
		t.Errorf("the object is gone: %v", err)
	}
}

// A URL that was given to a client works until its time is over.
func TestSignedURL_Expires(t *testing.T) { signedURLExpires(t, s3test.VersityGW) }

func signedURLExpires(t *testing.T, start s3test.Start) {
	b := start(t, t.TempDir()).Bucket(t, "urls")
	if _, err := b.Put(t.Context(), "k", object.Body{Content: strings.NewReader("0123"), Size: 4}, object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	get := func(life time.Duration) func() (int, string) {
		t.Helper()
		url, err := b.SignedURL(t.Context(), http.MethodGet, "k", life, object.URLOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return func() (int, string) {
			resp, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			content, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(content)
		}
	}
	if status, content := get(time.Hour)(); status != http.StatusOK || content != "0123" {
		t.Errorf("%d %q", status, content)
	}
	short := get(time.Second)
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if status, _ := short(); status == http.StatusForbidden {
			return
		}
		if time.Now().After(end) {
			t.Fatal("a URL that was signed for a second works for a minute")
		}
	}
}
