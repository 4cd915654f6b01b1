package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// layer is a layer of an image with what made it, or a file of another artifact.
type layer struct {
	oci.Descriptor
	Title   string // the name of a file
	Command string
	Created time.Time
}

// child is an entry of an index.
type child struct {
	oci.Descriptor
	Platform string
	Of       oci.Digest // what an attestation is about
	Missing  bool
}

type pair struct{ Key, Value string }

type imagePage struct {
	frame
	Crumbs      []entry
	Repository  oci.Name
	Reference   string // ":1.0" or "@sha256:…"
	Tag         string
	Digest      oci.Digest
	MediaType   string
	Kind        string
	Images      bool // it is an image or an index
	Size        int64
	Summary     *summary
	Children    []child
	Layers      []layer
	LayersSize  int64
	Config      *config
	Settings    []pair
	Labels      []pair
	Annotations []pair
	Subject     oci.Digest
	Referrers   []oci.Descriptor
	Protected   bool
	Rule        int      // that protects it, counted from 0
	Left        int      // entries of lists that the page leaves out
	Others      []string // tags to compare with
	Raw         string
	Host        string
	Cache       bool
	Rights      rights
}

// manifest finds the image of the path.
func (web *Web) manifest(v *visit) (registry.Repository, oci.Reference, *registry.Manifest, error) {
	repo, err := web.repository(v)
	if err != nil {
		return repo, oci.Reference{}, nil, err
	}
	vars := mux.Vars(v.Request)
	ref, err := oci.ParseReference(vars["reference"])
	if err != nil || (ref.Tag != "") != (vars["sign"] == ":") {
		return repo, ref, nil, errHidden
	}
	m, err := repo.Peek(v.Context(), ref)
	return repo, ref, m, err
}

func (web *Web) getImage(w http.ResponseWriter, v *visit) error {
	repo, ref, m, err := web.manifest(v)
	if err != nil {
		return err
	}
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return err
	}
	name := repo.Name()
	p := imagePage{
		Repository: name, Digest: m.Digest, MediaType: m.MediaType, Size: m.Size, Tag: string(ref.Tag), Annotations: pairs(parsed.Annotations), Subject: m.Subject,
		Host: web.host(v.Request), Cache: web.o.Caches(name), Rights: web.rights(v, name), Raw: indent(m.Bytes), Reference: "@" + string(m.Digest),
	}
	title := short(m.Digest)
	if ref.Tag != "" {
		title, p.Reference, p.Protected = string(ref.Tag), ":"+string(ref.Tag), repo.Immutable(ref.Tag)
		p.Rule = repo.ImmutableRule(ref.Tag)
	}
	p.frame = web.frame(v, "repositories", string(name)+" "+title)
	if p.Summary, err = web.images.summarize(v.Context(), repo, m); err != nil {
		return err
	}
	p.Kind = p.Summary.Kind
	p.Images = p.Kind == "image" || p.Kind == "index"
	if err := web.addContent(v, repo, &p, parsed); err != nil {
		return err
	}
	if p.Referrers, _, err = repo.Referrers(v.Context(), m.Digest, "", "", maxReferrers); err != nil {
		return err
	}
	if p.Tag != "" && p.Images {
		tags, _, err := repo.Tags(v.Context(), -1, "")
		if err != nil {
			return err
		}
		for _, tag := range tags {
			if tag != p.Tag && len(p.Others) < maxOthers && !strings.HasPrefix(tag, "sha256-") {
				p.Others = append(p.Others, tag)
			}
		}
	}
	return web.pages.Show(w, http.StatusOK, "image", p)
}

// maxOthers is how many tags are offered for a comparison.
const maxOthers = 500

func (web *Web) addContent(v *visit, repo registry.Repository, p *imagePage, m *oci.Manifest) (err error) {
	for i := range m.Manifests {
		c := child{Descriptor: m.Manifests[i], Platform: platformOf(&m.Manifests[i])}
		if of, err := oci.ParseDigest(c.Annotations["vnd.docker.reference.digest"]); err == nil {
			c.Of = of
		}
		if i < maxChildren {
			_, err := repo.Peek(v.Context(), oci.Reference{Digest: c.Digest})
			if c.Missing = isUnknown(err); err != nil && !c.Missing && !errors.Is(err, registry.ErrDamaged) {
				return err
			}
		}
		p.Children = append(p.Children, c)
	}
	if m.Config != nil && isImageConfig(m.Config.MediaType) {
		if p.Config, err = web.images.config(v.Context(), repo, m.Config.Digest); err != nil {
			return err
		}
	}
	p.Layers = layersOf(m, p.Config)
	for i := range p.Layers {
		p.LayersSize += p.Layers[i].Size
	}
	if p.Config != nil {
		p.Settings, p.Labels = p.Config.settings(), pairs(p.Config.Config.Labels)
	}
	p.Children, p.Layers = shorten(p.Children, &p.Left), shorten(p.Layers, &p.Left)
	p.Settings, p.Labels, p.Annotations = shorten(p.Settings, &p.Left), shorten(p.Labels, &p.Left), shorten(p.Annotations, &p.Left)
	return nil
}

// maxRows is how many entries of a list a page shows: a manifest has room for 40,000 layers.
const maxRows = 500

// shorten leaves out the entries of a list behind the first maxRows, and adds their number to left.
func shorten[T any](list []T, left *int) []T {
	*left += max(0, len(list)-maxRows)
	return list[:min(len(list), maxRows)]
}

// layersOf are the layers of an image with the commands that made them, if its history has one for
// each.
func layersOf(m *oci.Manifest, c *config) []layer {
	layers := make([]layer, len(m.Layers))
	for i := range m.Layers {
		layers[i] = layer{Descriptor: m.Layers[i], Title: m.Layers[i].Annotations["org.opencontainers.image.title"]}
	}
	if c == nil {
		return layers
	}
	n := 0
	for i := range c.History {
		if !c.History[i].EmptyLayer {
			n++
		}
	}
	if n != len(layers) {
		return layers
	}
	n = 0
	for i := range c.History {
		if h := &c.History[i]; !h.EmptyLayer {
			layers[n].Command, layers[n].Created = command(h.CreatedBy), h.Created
			n++
		}
	}
	return layers
}

// command is the line of a Dockerfile, without what builders put around it.
func command(text string) string {
	text = strings.TrimPrefix(text, "/bin/sh -c #(nop) ")
	if run, ok := strings.CutPrefix(text, "/bin/sh -c "); ok {
		text = "RUN " + run
	}
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "# buildkit"))
}

// settings are how a container of the image runs.
func (c *config) settings() []pair {
	list := []pair{}
	add := func(key string, values ...string) {
		for _, value := range values {
			if value != "" {
				list = append(list, pair{key, value})
			}
		}
	}
	add("Platform", c.platform().String())
	add("Entrypoint", arguments(c.Config.Entrypoint))
	add("Command", arguments(c.Config.Cmd))
	add("User", c.Config.User)
	add("Working directory", c.Config.WorkingDir)
	add("Port", slices.Sorted(maps.Keys(c.Config.ExposedPorts))...)
	add("Volume", slices.Sorted(maps.Keys(c.Config.Volumes))...)
	add("Environment", c.Config.Env...)
	add("Stop signal", c.Config.StopSignal)
	add("Author", c.Author)
	return list
}

func arguments(list []string) string {
	if len(list) == 0 {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(list) // texts always encode
	return strings.TrimSpace(b.String())
}

func pairs(m map[string]string) []pair {
	list := make([]pair, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, pair{key, m[key]})
	}
	return list
}

const maxRaw = 256 << 10 // bytes of a manifest that are shown

func indent(content []byte) string {
	var b bytes.Buffer
	if len(content) > maxRaw || json.Indent(&b, content, "", "  ") != nil {
		return ""
	}
	return b.String()
}
