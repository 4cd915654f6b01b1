package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/upload"
)

// hanging gives some bytes and then waits to be released.
type hanging struct {
	io.Reader
	reading chan struct{} // closed when it hangs
	release chan struct{}
	once    sync.Once
}

func (h *hanging) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	h.once.Do(func() { close(h.reading) })
	<-h.release
	return copy(p, "late"), nil
}

func TestTakeover(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		first := strings.Repeat("first,", 100_000)
		hung, err := repo.StartUpload(ctx, "")
		check(t, err)
		src := &hanging{Reader: strings.NewReader(first), reading: make(chan struct{}), release: make(chan struct{})}
		failed := make(chan error)
		go func() {
			_, err := hung.Append(ctx, src)
			hung.Close()
			failed <- err
		}()
		<-src.reading

		taken := hung.Taken().Done()
		st, err := repo.UploadStatus(ctx, hung.ID())
		check(t, err)
		came := first[:st.Size]
		if len(came) < len(first)-(64<<10) {
			t.Errorf("the status reports %d bytes of %d", len(came), len(first))
		}
		select {
		case <-taken:
			t.Error("asking for the state takes over")
		default:
		}

		u, err := repo.ResumeUpload(ctx, hung.ID(), upload.Point{})
		check(t, err)
		<-taken
		if u.Size() != int64(len(came)) {
			t.Errorf("taken up at %d", u.Size())
		}
		_, err = u.Append(ctx, strings.NewReader("second"))
		check(t, err)
		close(src.release)
		err = <-failed
		wantCode(t, err, oci.CodeBlobUploadInvalid)
		if !errors.Is(err, ErrUploadTaken) {
			t.Errorf("the hung request ends with %v", err)
		}
		_, err = hung.Commit(ctx, sum(came))
		if !errors.Is(err, ErrUploadTaken) {
			t.Errorf("the hung request commits: %v", err)
		}
		_, err = u.Commit(ctx, sum(came+"second"))
		check(t, err)
		check(t, u.Close())
		if got := readBlob(t, repo, sum(came+"second")); got != came+"second" {
			t.Errorf("%d other bytes come back", len(got))
		}
	})
}

// Requests that take one upload from each other never mix their bytes up: the
// outcome is some order of whole writes, told truly by Size.
func TestConcurrentTakeovers(t *testing.T) {
	onStores(t, func(t *testing.T, r *Registry) {
		ctx, repo := context.Background(), r.Repository("a")
		id := start(t, repo)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				chunk := bytes.Repeat([]byte{'a' + byte(i)}, 1000)
				for range 5 {
					u, err := repo.ResumeUpload(ctx, id, upload.Point{})
					if err != nil {
						t.Error(err)
						return
					}
					if rand.IntN(2) == 0 {
						time.Sleep(time.Millisecond)
					}
					if _, err := u.Append(ctx, bytes.NewReader(chunk)); err != nil && !errors.Is(err, ErrUploadTaken) {
						t.Error(err)
					}
					u.Close()
				}
			})
		}
		wg.Wait()
		u, err := repo.ResumeUpload(ctx, id, upload.Point{})
		check(t, err)
		defer u.Close()
		src, err := u.Reader(ctx, 0)
		check(t, err)
		all, err := io.ReadAll(src)
		check(t, err)
		src.Close()
		if int64(len(all)) != u.Size() {
			t.Fatalf("%d bytes, told %d", len(all), u.Size())
		}
		_, err = u.Commit(ctx, oci.SHA256.FromBytes(all))
		check(t, err)
	})
}

// Behind a balancer, each request of an upload may reach another process.
func TestUploadThroughTwoProcesses(t *testing.T) {
	for name, open := range pairs {
		t.Run(name, func(t *testing.T) {
			ctx, content := context.Background(), ""
			a, b := open(t)
			repos := [2]Repository{newRegistry(a, Options{}).Repository("a"), newRegistry(b, Options{}).Repository("a")}
			id := start(t, repos[0])
			for i := range 5 {
				chunk := strings.Repeat(string(rune('a'+i)), 1000)
				appendTo(t, repos[(i+1)%2], id, chunk)
				content += chunk
			}
			u, err := repos[1].ResumeUpload(ctx, id, upload.Point{})
			check(t, err)
			defer u.Close()
			_, err = u.Commit(ctx, sum(content+"x"))
			wantCode(t, err, oci.CodeDigestInvalid)
			_, err = u.Commit(ctx, sum(content))
			check(t, err)
			if got := readBlob(t, repos[0], sum(content)); got != content {
				t.Errorf("%d bytes come back of %d", len(got), len(content))
			}
			_, err = repos[0].ResumeUpload(ctx, id, upload.Point{})
			wantCode(t, err, oci.CodeBlobUploadUnknown)
		})
	}
}

// slow is a store whose changes of uploads and manifests tell that they begin and wait to be released.
type slow struct {
	both
	begun, release chan struct{}
}

func (s *slow) Apply(ctx context.Context, section storage.Section, stages ...storage.Stage) error {
	if slices.ContainsFunc(slices.Concat(stages...), func(c storage.Change) bool { return !c.Ephemeral }) {
		s.begun <- struct{}{}
		<-s.release
	}
	return s.both.Apply(ctx, section, stages...)
}

// A client that repeats its last request, because the answer takes too long,
// does not disturb the commit that is under way.
func TestCommitIsNotTakenOver(t *testing.T) {
	s := &slow{both: stores["memory"](t), begun: make(chan struct{}), release: make(chan struct{})}
	ctx, repo := context.Background(), newRegistry(s, Options{}).Repository("a")
	u, err := repo.StartUpload(ctx, "")
	check(t, err)
	_, err = u.Append(ctx, strings.NewReader("content"))
	check(t, err)
	committed, resumed := make(chan error), make(chan error)
	go func() {
		_, err := u.Commit(ctx, sum("content"))
		u.Close()
		committed <- err
	}()
	<-s.begun
	go func() {
		_, err := repo.ResumeUpload(ctx, u.ID(), upload.Point{})
		resumed <- err
	}()
	impatient, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := repo.ResumeUpload(impatient, u.ID(), upload.Point{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a commit under way is taken over: %v", err)
	}
	close(s.release)
	check(t, <-committed)
	wantCode(t, <-resumed, oci.CodeBlobUploadUnknown)
	readBlob(t, repo, sum("content"))
}
