package layout

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

func TestDeletion(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 123_000_000, time.UTC)
	until := at.Add(168 * time.Hour)
	id := DeletionID(at, until)
	if later := DeletionID(at.Add(time.Millisecond), until); later <= id {
		t.Errorf("%s does not sort behind %s", later, id)
	}
	if key := DeletionPart(name, id, 0); !storage.ValidKey(key) || !strings.HasPrefix(key, Deletions(name)+"/"+id+"/") {
		t.Errorf("%s is not a valid key", key)
	}
	d := Deletion{ID: id, At: at, Until: until, By: "ci", Tags: map[oci.Tag]oci.Digest{tag: dgst}, Manifests: []oci.Digest{dgst}}
	got, err := ParseDeletion(id, d.Encode())
	if err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("got %+v, %v, want %+v", got, err, d)
	}
	got.Add(Deletion{Tags: map[oci.Tag]oci.Digest{"v2": dgst}, Manifests: []oci.Digest{"sha256:" + hexa}})
	if len(got.Tags) != 2 || len(got.Manifests) != 2 {
		t.Errorf("both parts are %+v", got)
	}
}

func TestParseDeletion(t *testing.T) {
	id := DeletionID(time.Now(), time.Now())
	for content, valid := range map[string]bool{
		`{}`: true, `{"by":"a\nb"}`: true, ``: false, `[]`: false, `{"tags":{"../x":"` + string(dgst) + `"}}`: false,
		`{"tags":{"v1":"sha256:../../x"}}`: false, `{"manifests":["x"]}`: false, `{"id":"../x","at":"2026-03-01T11:30:00Z"}`: true,
	} {
		d, err := ParseDeletion(id, []byte(content))
		if valid != (err == nil) || !valid && !errors.Is(err, ErrBadDeletion) || valid && d.ID != id {
			t.Errorf("%s gives %+v, %v", content, d, err)
		}
	}
	for _, id := range []string{"", "..", "1-2-3", id + "-x", strings.Replace(id, "-", "/", 1), "-" + id[1:]} {
		if _, err := ParseDeletion(id, []byte("{}")); err == nil {
			t.Errorf("the ID %q is accepted", id)
		}
	}
}

func TestLargestDeletionFits(t *testing.T) {
	d := Deletion{Tags: map[oci.Tag]oci.Digest{}}
	long := strings.Repeat("t", oci.MaxTagLength-8)
	for i := range MaxDeleted {
		d.Tags[oci.Tag(long+NewUploadID()[:8])] = oci.SHA512.FromBytes([]byte{byte(i)})
	}
	d.Manifests = []oci.Digest{dgst}
	parts := d.Split()
	if len(parts) != 2 || len(parts[0].Tags) != MaxDeleted || len(parts[1].Tags) > 0 || len(parts[1].Manifests) != 1 {
		t.Errorf("it has %d parts", len(parts))
	}
	if n := len(parts[0].Encode()); n > MaxDeletion {
		t.Errorf("a part has %d bytes", n)
	}
	if parts := new(Deletion).Split(); parts != nil {
		t.Errorf("nothing has the parts %v", parts)
	}
}

func TestParseRevisionLink(t *testing.T) {
	below := strings.TrimPrefix(RevisionLink(name, dgst), Manifests(name)+"/")
	if d, ok := ParseRevisionLink(below); !ok || d != dgst {
		t.Errorf("%s is read as %q", below, d)
	}
	for _, other := range []string{"revisions/sha256/" + hexa, "tags/v1/current/link", "revisions/sha256/x/link", ""} {
		if d, ok := ParseRevisionLink(other); ok {
			t.Errorf("%q is read as %s", other, d)
		}
	}
}
