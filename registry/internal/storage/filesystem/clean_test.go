package filesystem

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/.staging/crashed.lock", "")
	write(t, root+"/.staging/crashed-1.tmp", "half")
	write(t, root+"/.staging/crashed-2.tmp/tags/v1/link", "half")
	write(t, root+"/.staging/unknown-1.tmp", "half")
	alive, s := openRoot(t, root), openRoot(t, root)
	defer s.Close()
	for _, store := range []*Store{alive, s} {
		check(t, store.makeStaging())
		write(t, store.tempName(), "of a process that lives")
	}
	check(t, s.Clean(t.Context()))
	wantLeft(t, s, alive.instance+"-1.tmp", alive.instance+".lock", s.instance+"-1.tmp", s.instance+".lock", "unknown-1.tmp")
	s.clean(time.Now().Add(2 * abandoned))
	wantLeft(t, s, alive.instance+"-1.tmp", alive.instance+".lock", s.instance+"-1.tmp", s.instance+".lock")
	alive.Close()
	s.clean(time.Now().Add(2 * abandoned))
	wantLeft(t, s, s.instance+"-1.tmp", s.instance+".lock")
}

func wantLeft(t *testing.T, s *Store, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(s.staging)
	check(t, err)
	var got []string
	for _, e := range entries {
		// The number of a name says how many came before it.
		got = append(got, regexp.MustCompile(`-\w+\.tmp`).ReplaceAllString(e.Name(), "-1.tmp"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the staging directory has %v, want %v", got, want)
	}
}
