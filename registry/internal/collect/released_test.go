package collect

import (
	"testing"
	"time"

	"slipway/registry/internal/layout"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// Push, delete, collect: the bytes are free in that run, unless they were confirmed to a
// client since.
func TestRelease(t *testing.T) {
	const pushed = 10 * time.Minute
	young := func(x volume, tag oci.Tag, seed string) (oci.Digest, []oci.Digest) {
		m, blobs := x.image("a", tag, seed)
		for _, d := range blobs {
			x.put(layout.BlobData(d), []byte(map[bool]string{true: "config ", false: "layer "}[d == blobs[0]]+seed), pushed+time.Minute)
			x.put(layout.LayerLink("a", d), layout.Link(d), pushed+time.Minute)
		}
		body, _, err := storage.Read(x.t.Context(), x.s, layout.BlobData(m), 1<<20)
		if err != nil {
			x.t.Fatal(err)
		}
		x.put(layout.BlobData(m), body, pushed)
		x.put(layout.RevisionLink("a", m), layout.Link(m), pushed)
		if tag != "" {
			x.put(layout.TagIndex("a", tag, m), layout.Link(m), pushed)
		}
		return m, blobs
	}
	onStores(t, func(t *testing.T, x volume) {
		kept, keptBlobs := young(x, "kept", "kept")
		deleted, deletedBlobs := young(x, "v1", "deleted")
		x.remove(layout.RevisionLink("a", deleted))
		x.remove(layout.TagCurrent("a", "v1"))
		moved, movedBlobs := young(x, "v2", "moved")
		child, childBlobs := young(x, "", "child")
		index := x.manifest("a", "v3", document{Manifests: []descriptor{{Digest: child}}})
		x.remove(layout.RevisionLink("a", index))
		x.remove(layout.TagCurrent("a", "v3"))
		x.put(layout.BlobData(index), []byte(`{"manifests":[{"digest":"`+string(child)+`"}]}`), pushed-time.Minute)
		untagged, untaggedBlobs := young(x, "v5", "untagged")
		body, _, err := storage.Read(t.Context(), x.s, layout.BlobData(untagged), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		x.remove(layout.TagCurrent("a", "v5"))
		x.remove(layout.TagIndex("a", "v5", untagged))
		x.put(layout.BlobData(untagged), body, pushed-time.Minute) // renewed by that
		told, toldBlobs := young(x, "v4", "told")
		x.remove(layout.RevisionLink("a", told))
		x.remove(layout.TagCurrent("a", "v4"))
		x.put(layout.LayerLink("a", toldBlobs[1]), layout.Link(toldBlobs[1]), time.Minute)
		loose := x.blob("a", "loose")
		x.put(layout.LayerLink("a", loose), layout.Link(loose), time.Minute)
		young(x, "v2", "new") // takes v2 from moved

		o := Options{Age: time.Hour, KeepAge: true, DeleteUntagged: true}
		x.run(o)
		for _, blobs := range [][]oci.Digest{deletedBlobs, movedBlobs, childBlobs, untaggedBlobs} {
			x.want("what is young stays for a schedule", layout.BlobData(blobs[1]), true)
		}
		o.Release = true
		x.run(o)
		x.whole("kept", "a", kept, keptBlobs)
		x.gone("deleted", "a", deleted, deletedBlobs)
		x.gone("moved", "a", moved, movedBlobs)
		x.gone("untagged", "a", untagged, untaggedBlobs)
		x.gone("child of a deleted index", "a", child, childBlobs)
		x.want("config of what was deleted", layout.BlobData(toldBlobs[0]), false)
		x.want("what was confirmed to a client since", layout.BlobData(toldBlobs[1]), true)
		x.want("what nothing has used yet", layout.BlobData(loose), true)
	})
}
