package upload

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/view"
	"slipway/registry/internal/storage/memory"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The algorithm that a client names when it begins is that of the running hash.
func TestAlgorithmOfAnUploadWithoutBytes(t *testing.T) {
	r := New(view.New(memory.New(), false), zap.NewNop(), time.Now)
	d := oci.SHA512.FromBytes([]byte("content"))
	for name, resume := range map[string]func(id string) (*Upload, error){
		"by the point": func(id string) (*Upload, error) {
			return r.Resume(t.Context(), "a", id, Point{Algorithm: oci.SHA512})
		},
		"by the digest": func(id string) (*Upload, error) {
			u, err := r.Resume(t.Context(), "a", id, Point{})
			if err == nil {
				u.Expect(d, 0)
			}
			return u, err
		},
	} {
		u, err := r.Start(t.Context(), "a", oci.SHA512)
		check(t, err)
		check(t, u.Close())
		u, err = resume(u.ID())
		check(t, err)
		_, err = u.Append(t.Context(), strings.NewReader("content"))
		check(t, err)
		if u.Algorithm() != oci.SHA512 || u.hashed != u.size {
			t.Errorf("%s: %d of %d bytes are hashed by %s", name, u.hashed, u.size, u.Algorithm())
		}
		check(t, u.verify(t.Context(), d))
		check(t, u.Close())
	}
}
