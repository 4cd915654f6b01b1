package web

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/signature"
	"slipway/registry/internal/web/imageinfo"
)

// child is an entry of an index.
type child struct {
	oci.Descriptor
	Platform string
	Of       oci.Digest // what an attestation is about
	Missing  bool
}

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
	Summary     *imageinfo.Summary
	Children    []child
	Layers      []imageinfo.Layer
	LayersSize  int64
	Config      *imageinfo.Config
	Settings    []imageinfo.Pair
	Labels      []imageinfo.Pair
	Annotations []imageinfo.Pair
	Subject     oci.Digest
	Referrers   []oci.Descriptor
	More        bool              // referrers than the page lists and looks for scan reports in
	Signed      *signature.Result // nil = signatures aren't checked
	Scans       []scanned         // the newest of each scanner, the worst first
	Protected   bool
	Rule        int      // that protects it, counted from 0
	Left        int      // entries of lists that the page leaves out
	Others      []string // tags to compare with
	Raw         string
	Host        string
	Cache       bool
	Rights      rights
}

// reference is the image of the path.
func (web *Web) reference(v *visit) (registry.Repository, oci.Reference, error) {
	repo, err := web.repository(v)
	if err != nil {
		return repo, oci.Reference{}, err
	}
	vars := mux.Vars(v.Request)
	ref, err := oci.ParseReference(vars["reference"])
	if err != nil || (ref.Tag != "") != (vars["sign"] == ":") {
		return repo, ref, errHidden
	}
	return repo, ref, nil
}

func (web *Web) getImage(w http.ResponseWriter, v *visit) error {
	repo, ref, err := web.reference(v)
	if err != nil {
		return err
	}
	found, d := &scans{web, v, repo, maxScanBytes}, ref.Digest
	if ref.Tag != "" {
		d, _ = repo.TagTarget(v.Context(), ref.Tag) // an unknown one has nothing attached
	}
	attached, err := found.attached(d)
	if err != nil {
		return err
	}
	reports, err := found.find(attached)
	if err != nil {
		return err
	}
	m, room, err := web.peek(v, repo, ref, rawFactor*maxRaw+referrerBytes)
	if err != nil {
		return err
	}
	defer room.Release()
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return err
	}
	name := repo.Name()
	p := imagePage{
		Repository: name, Digest: m.Digest, MediaType: m.MediaType, Size: m.Size, Tag: string(ref.Tag), Annotations: pairs(parsed.Annotations), Subject: m.Subject,
		Host: web.host(v.Request), Cache: web.o.Caches(name), Rights: web.rights(v, name), Raw: indent(m.Bytes), Reference: "@" + string(m.Digest), Scans: reports,
	}
	title := short(m.Digest)
	if ref.Tag != "" {
		title, p.Reference, p.Protected = string(ref.Tag), ":"+string(ref.Tag), repo.Immutable(ref.Tag)
		p.Rule = repo.ImmutableRule(ref.Tag)
	}
	p.frame = web.frame(v, "repositories", string(name)+" "+title)
	if p.Summary, err = web.images.Summarize(v.Context(), repo, m, func(int64) {}); err != nil {
		return err
	}
	config := int64(0)
	if parsed.Config != nil {
		config = parsed.Config.Size
	}
	room.Shrink(imageinfo.Room(m.Size, config) + rawFactor*min(m.Size, maxRaw) + referrerBytes)
	p.Kind = p.Summary.Kind
	p.Images = p.Kind == "image" || p.Kind == "index"
	if err := web.addContent(v, repo, &p, parsed); err != nil {
		return err
	}
	var next registry.Page
	if p.Referrers, next, err = repo.Referrers(v.Context(), m.Digest, "", "", maxReferrers); err != nil {
		return err
	}
	p.More = next.Next != ""
	if !p.Cache {
		result, err := web.o.Signatures.Check(v.Context(), repo, m)
		if err != nil {
			return err
		}
		p.Signed = &result
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
	return web.show(w, room, "image", p)
}

// maxOthers is the number of tags that are offered for a comparison.
const maxOthers = 500

func (web *Web) addContent(v *visit, repo registry.Repository, p *imagePage, m *oci.Manifest) (err error) {
	for i := range m.Manifests {
		c := child{Descriptor: m.Manifests[i], Platform: imageinfo.PlatformOf(&m.Manifests[i])}
		if of, err := oci.ParseDigest(c.Annotations["vnd.docker.reference.digest"]); err == nil {
			c.Of = of
		}
		if i < imageinfo.MaxChildren {
			_, err := repo.PeekSize(v.Context(), c.Digest)
			if c.Missing = oci.IsUnknown(err); err != nil && !c.Missing {
				return err
			}
		}
		p.Children = append(p.Children, c)
	}
	if m.Config != nil && imageinfo.IsConfig(m.Config.MediaType) {
		if p.Config, err = web.images.Config(v.Context(), repo, m.Config, imageinfo.MaxConfig); err != nil {
			return err
		}
	}
	p.Layers = imageinfo.LayersOf(m, p.Config)
	for i := range p.Layers {
		p.LayersSize += p.Layers[i].Size
	}
	if p.Config != nil {
		p.Settings, p.Labels = p.Config.Settings(), pairs(p.Config.Config.Labels)
	}
	p.Children, p.Layers = shorten(p.Children, &p.Left), shorten(p.Layers, &p.Left)
	p.Settings, p.Labels, p.Annotations = shorten(p.Settings, &p.Left), shorten(p.Labels, &p.Left), shorten(p.Annotations, &p.Left)
	return nil
}

// maxRows bounds the entries of a list on a page: a manifest has room for 40,000 layers.
const maxRows = 500

// shorten drops the entries of a list after the first maxRows, and adds their number to left.
func shorten[T any](list []T, left *int) []T {
	*left += max(0, len(list)-maxRows)
	return list[:min(len(list), maxRows)]
}

func pairs(m map[string]string) []imageinfo.Pair {
	list := make([]imageinfo.Pair, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, imageinfo.Pair{Key: key, Value: m[key]})
	}
	return list
}

const maxRaw = 64 << 10 // bytes of a manifest that are shown

func indent(content []byte) string {
	var b bytes.Buffer
	if len(content) > maxRaw || json.Indent(&b, content, "", "  ") != nil {
		return ""
	}
	return b.String()
}
