package index

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/storage/memory"
)

// many is a repository with n blobs; thousands fill many pages.
func many(n int) *snapshot {
	s := &snapshot{Repository: Repository{Name: "many", Tags: 1}, contents: map[key]int64{}}
	for i := range n {
		var k key
		binary.BigEndian.PutUint64(k[i%16:], uint64(i)*0x9e3779b97f4a7c15)
		s.contents[k] = 1
	}
	return s
}

// A file that was not closed, or that isn't what was closed, is replaced: bbolt would panic in a
// goroutine that nothing can recover.
func TestFile_Torn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	o := Options{Path: path, Store: memory.New(), Interval: time.Hour, Log: zap.NewNop()}
	x, err := Open(o)
	check(t, err)
	check(t, x.put(many(2_000)))
	if _, err := os.Stat(path + markSuffix); err == nil {
		t.Error("there is a mark while the file is open")
	}
	check(t, x.Close())
	whole, err := os.ReadFile(path)
	check(t, err)
	sum, err := os.ReadFile(path + markSuffix)
	check(t, err)

	count := func(content, mark []byte) int {
		t.Helper()
		check(t, os.WriteFile(path, content, 0o600))
		if check(t, os.WriteFile(path+markSuffix, mark, 0o600)); mark == nil {
			check(t, os.Remove(path+markSuffix))
		}
		x, err := Open(o)
		check(t, err)
		defer x.Close()
		p, err := x.Repositories(Query{})
		check(t, err)
		check(t, x.put(many(2_000)))
		return p.Total
	}
	if n := count(whole, sum); n != 1 {
		t.Errorf("closed properly, it has %d repositories", n)
	}
	if n := count(whole, nil); n != 0 {
		t.Errorf("not closed, it has %d repositories", n)
	}
	const page = 4096
	places := []int{0, page, 2 * page, 3 * page} // of bbolt's own pages first
	for part := 1; part < 8; part++ {
		places = append(places, len(whole)/page*part/8*page)
	}
	for _, at := range places {
		torn := bytes.Clone(whole)
		copy(torn[at:], bytes.Repeat([]byte("torn"), page/4))
		if n := count(torn, sum); n != 0 {
			t.Errorf("torn at %d, it has %d repositories", at, n)
		}
		if n := count(whole[:at], sum); n != 0 {
			t.Errorf("cut at %d, it has %d repositories", at, n)
		}
	}
	for _, mark := range []string{"", "garbage", string(sum[:5]), string(bytes.Repeat(sum, 100))} {
		if n := count(whole, []byte(mark)); n != 0 {
			t.Errorf("with the mark %.20q, it has %d repositories", mark, n)
		}
	}
}

// A file that is cut while it is open ends neither the process nor the pages.
func TestFile_CutWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	o := Options{Path: path, Store: memory.New(), Interval: time.Hour, Log: zap.NewNop()}
	x, err := Open(o)
	check(t, err)
	check(t, x.put(many(20_000)))
	check(t, os.Truncate(path, 0))
	if p, err := x.Repositories(Query{}); err != nil || p.Total != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if err := x.put(many(20_000)); err == nil {
		t.Error("it is still written")
	}
	if x.Want() {
		t.Error("it is whole")
	}
	check(t, x.Close())
	x, err = Open(o)
	check(t, err)
	defer x.Close()
	check(t, x.put(many(20_000)))
	if p, err := x.Repositories(Query{}); err != nil || p.Total != 1 {
		t.Errorf("after the next start: %+v, %v", p, err)
	}
}
