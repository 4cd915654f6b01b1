package retention

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/lastpull"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/pattern"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/registrytest"
	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/memory"
)

// store is a registry whose tags v… below safe are immutable.
type store struct {
	t *testing.T
	Options
	memory *memory.Memory
	now    time.Time
	clock  func() time.Time
}

func newStore(t *testing.T, rules ...Rule) *store {
	m := memory.New()
	immutable := registry.TagRule{Repositories: names(t, "safe/**"), Tags: tags(t, "v.*")}
	rules = slices.Clone(rules)
	s := &store{t: t, memory: m, now: time.Now(), clock: time.Now, Options: Options{Store: m, Rules: rules, Pulls: lastpull.NewFile(m), All: true}}
	s.Registry = registry.New(registry.Options{
		Store: m, DeleteEnabled: true, Immutable: []registry.TagRule{immutable},
		Now: func() time.Time { return s.clock() },
	})
	return s
}

func names(t *testing.T, patterns ...string) pattern.Names {
	t.Helper()
	n, err := pattern.ParseNames(patterns)
	check(t, err)
	return n
}

func tags(t *testing.T, expressions ...string) pattern.Tags {
	t.Helper()
	p, err := pattern.ParseTags(expressions)
	check(t, err)
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sum(s string) oci.Digest { return oci.SHA256.FromBytes([]byte(s)) }

func (s *store) blob(name oci.Name, content string) oci.Descriptor {
	s.t.Helper()
	return registrytest.Push(s.t, s.Registry.Repository(name), content)
}

// image pushes an image of the layers and tags it days ago.
func (s *store) image(name oci.Name, tag string, days int, subject oci.Digest, layers ...string) oci.Digest {
	s.t.Helper()
	config := s.blob(name, "config of "+strings.Join(layers, "+"))
	config.MediaType = "application/vnd.oci.image.config.v1+json"
	m := map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": config, "layers": []any{}}
	for _, l := range layers {
		m["layers"] = append(m["layers"].([]any), s.blob(name, l))
	}
	if subject != "" {
		m["subject"] = oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: subject, Size: 1}
	}
	return s.put(name, tag, days, m)
}

func (s *store) index(name oci.Name, tag string, days int, children ...oci.Digest) oci.Digest {
	s.t.Helper()
	var list []oci.Descriptor
	for _, d := range children {
		m, err := s.Registry.Repository(name).Manifest(s.t.Context(), oci.Reference{Digest: d})
		check(s.t, err)
		list = append(list, oci.Descriptor{MediaType: m.MediaType, Digest: d, Size: m.Size})
	}
	return s.put(name, tag, days, map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": list})
}

// put pushes a manifest, under its digest if there is no tag.
func (s *store) put(name oci.Name, tag string, days int, m map[string]any) oci.Digest {
	s.t.Helper()
	s.setClock(func() time.Time { return s.now.AddDate(0, 0, -days) })
	defer s.setClock(time.Now)
	return registrytest.PutManifest(s.t, s.Registry.Repository(name), m, oci.Tag(tag)).Digest
}

// setClock sets the clock of the registry and of the store.
func (s *store) setClock(clock func() time.Time) {
	s.clock = clock
	s.memory.SetClock(clock)
}

// write puts objects past the rules.
func (s *store) write(objects map[string]string) {
	s.t.Helper()
	for key, content := range objects {
		check(s.t, s.Store.Apply(s.t.Context(), nil, storage.Stage{{Key: key, Content: []byte(content)}}))
	}
}

func (s *store) remove(key string) {
	s.t.Helper()
	check(s.t, s.Store.Apply(s.t.Context(), nil, storage.Stage{{Key: key, Delete: true}}))
}

func (s *store) pulled(name oci.Name, d oci.Digest, days int) {
	s.t.Helper()
	var times lastpull.Times
	times.Set(name, d, s.now.AddDate(0, 0, -days))
	check(s.t, s.Pulls.Add(s.t.Context(), times))
}

func (s *store) plan() *Plan {
	s.t.Helper()
	p, err := Make(s.t.Context(), s.Options)
	check(s.t, err)
	return p
}

// goes is the tags that the plan deletes, by "repository:tag", sorted.
func goes(p *Plan) string {
	list := map[string]bool{}
	for _, v := range p.Verdicts {
		if v.Delete {
			list[fmt.Sprintf("%s:%s", v.Repository, v.Tag)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(list)), " ")
}

func (p *Plan) of(t *testing.T, tag oci.Tag) *Verdict {
	t.Helper()
	i := slices.IndexFunc(p.Verdicts, func(v *Verdict) bool { return v.Tag == tag })
	if i < 0 {
		t.Fatalf("no verdict about %s", tag)
	}
	return p.Verdicts[i]
}

func (s *store) apply(p *Plan) Result {
	s.t.Helper()
	r, err := p.Apply(s.t.Context(), s.Options, zap.NewNop())
	check(s.t, err)
	return r
}
