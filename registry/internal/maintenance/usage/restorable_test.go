package usage

import (
	"testing"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage/memory"
)

// What was deleted counts as restorable if nothing else in the repository needs it.
func TestRestorable(t *testing.T) {
	m := memory.New()
	rules := registry.New(registry.Options{Store: m, DeleteEnabled: true, KeepDeleted: time.Hour})
	a := rules.Repository("a")
	put := func(tag oci.Tag, layers ...string) oci.Digest {
		t.Helper()
		return registrytest.PushImage(t, a, tag, "{}", layers...).Digest
	}
	usage := func() Repository {
		t.Helper()
		report, err := Count(t.Context(), m, rules)
		check(t, err)
		if report.Orphans > 0 {
			t.Errorf("there are %d orphans", report.Orphans)
		}
		return report.Repositories[0]
	}
	put("kept", "shared")
	d := put("v1", "shared", "only in v1")
	if got := usage().Restorable; got != 0 {
		t.Errorf("before the deletion %d bytes are restorable", got)
	}
	manifest, err := a.Manifest(t.Context(), oci.Reference{Digest: d})
	check(t, err)
	want := int64(len("only in v1")) + manifest.Size
	_, err = a.DeleteTag(t.Context(), "v1")
	check(t, err)
	if got := usage(); got.Restorable != want || got.Manifests != 2 {
		t.Errorf("without its tag: %+v, want %d bytes", got, want)
	}
	_, err = a.DeleteManifest(t.Context(), d)
	check(t, err)
	if got := usage(); got.Restorable != want || got.Manifests != 1 {
		t.Errorf("without the manifest: %+v, want %d bytes", got, want)
	}
	_, err = a.Restore(t.Context(), registry.Selection{Tag: "v1"})
	check(t, err)
	if got := usage(); got.Restorable != 0 || got.Manifests != 2 {
		t.Errorf("restored: %+v", got)
	}
}
