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
	d := Deletion{ID: id, At: at, Until: until, By: "ci", Tags: map[oci.Tag]oci.Digest{tag: dgst}, Manifests: []oci.Digest{dgst}}
	got, err := ParseDeletion(id, d.Encode())
	if err != nil || !reflect.DeepEqual(got, d) {
		t.Errorf("got %+v, %v, want %+v", got, err, d)
	}
	sha512 := oci.SHA512.FromBytes(nil)
	for _, manifests := range [][]oci.Digest{nil, {dgst}, {sha512}, {dgst, sha512}} {
		d.Manifests = manifests
		var one oci.Digest
		if len(manifests) == 1 {
			one = manifests[0]
		}
		key := d.Key(name)
		below, ok := strings.CutPrefix(key, Deletions(name)+"/")
		if gotID, gotUntil, gotOne, valid := ParseDeletionName(below); !ok || !valid || gotID != id || !gotUntil.Equal(until) || gotOne != one || !storage.ValidKey(key) {
			t.Errorf("%s is read as %q, %v, %q, %v", key, gotID, gotUntil, gotOne, valid)
		}
	}
	for _, bad := range []string{"", id + ".", id + ".sha256-x", id + "/0", "x." + string(oci.SHA256) + "-" + hexa} {
		if _, _, _, ok := ParseDeletionName(bad); ok {
			t.Errorf("%q is a record", bad)
		}
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
