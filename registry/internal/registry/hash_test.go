package registry

import (
	"strings"
	"testing"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage/memory"
)

// The algorithm that a client names when it begins is that of the running hash.
func TestAlgorithmOfAnUploadWithoutBytes(t *testing.T) {
	repo := newRegistry(memory.New(), Options{}).Repository("a")
	d := oci.SHA512.FromBytes([]byte("content"))
	for name, resume := range map[string]func(id string) (*Upload, error){
		"by the point": func(id string) (*Upload, error) {
			return repo.ResumeUpload(t.Context(), id, UploadPoint{Algorithm: oci.SHA512})
		},
		"by the digest": func(id string) (*Upload, error) {
			u, err := repo.ResumeUpload(t.Context(), id, UploadPoint{})
			if err == nil {
				u.Expect(d, 0)
			}
			return u, err
		},
	} {
		u, err := repo.StartUpload(t.Context(), oci.SHA512)
		check(t, err)
		check(t, u.Close())
		u, err = resume(u.ID())
		check(t, err)
		_, err = u.Append(t.Context(), strings.NewReader("content"), -1)
		check(t, err)
		if u.Algorithm() != oci.SHA512 || u.hashed != u.size {
			t.Errorf("%s: %d of %d bytes are hashed by %s", name, u.hashed, u.size, u.Algorithm())
		}
		check(t, u.verify(t.Context(), d))
		check(t, u.Close())
	}
}
