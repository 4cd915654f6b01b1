package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/imageinfo"
)

// act makes a change as the visitor.
func (web *Web) act(v *visit, method, path, contentType string, body []byte) (http.Header, []byte, error) {
	return web.o.API.Act(v.Request, v.grant, method, path, contentType, body)
}

// actJSON makes a change as the visitor, with a JSON body; nil for none.
func (web *Web) actJSON(v *visit, method, path string, body any) (answer []byte, err error) {
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	_, answer, err = web.act(v, method, path, "application/json", content)
	return answer, err
}

type deletePage struct {
	frame
	Repository oci.Name
	Tag        string
	Digest     oci.Digest
	Tags       []string // that go with an image, or the other tags of one that stays
	Whole      bool     // the repository
	Count      int      // of its tags
	Cancel     string
	Keep       time.Duration // it can be restored, 0 = not
}

// deletion describes what the address says to delete, if the visitor may.
func (web *Web) deletion(v *visit) (p deletePage, err error) {
	repo, err := web.repository(v)
	if err != nil {
		return p, err
	}
	vars := mux.Vars(v.Request)
	p = deletePage{Repository: repo.Name(), Keep: web.o.KeepDeleted, Cancel: web.base + "/repository/" + string(repo.Name())}
	if !web.rights(v, p.Repository).Delete {
		return p, errHidden
	}
	all, _, err := repo.Tags(v.Context(), -1, "")
	if err != nil {
		return p, err
	}
	if vars["reference"] == "" {
		p.Whole, p.Count = true, len(all)
		return p, nil
	}
	ref, err := oci.ParseReference(vars["reference"])
	if err != nil {
		return p, errHidden
	}
	m, err := repo.Peek(v.Context(), ref)
	if err != nil {
		return p, err
	}
	p.Cancel = web.base + "/image/" + string(p.Repository) + vars["sign"] + vars["reference"]
	if p.Digest = m.Digest; ref.Tag != "" {
		p.Tag = string(ref.Tag)
	}
	p.Tags = slices.DeleteFunc(web.tagsOf(v, repo, m.Digest, all), func(tag string) bool { return tag == p.Tag })
	return p, nil
}

// tagsOf are the tags that point at an image.
func (web *Web) tagsOf(v *visit, repo registry.Repository, d oci.Digest, all []string) (tags []string) {
	for _, tag := range all[:min(len(all), maxSorted)] {
		if at, ok := repo.TagTarget(v.Context(), oci.Tag(tag)); ok && at == d {
			tags = append(tags, tag)
		}
	}
	return tags
}

func (web *Web) getDelete(w http.ResponseWriter, v *visit) error {
	p, err := web.deletion(v)
	if err != nil {
		return err
	}
	p.frame = web.frame(v, "repositories", "Delete")
	return web.pages.Show(w, http.StatusOK, "delete", p)
}

func (web *Web) postDelete(w http.ResponseWriter, v *visit) error {
	p, err := web.deletion(v)
	if err != nil {
		return err
	}
	if shown := v.PostForm.Get("digest"); p.Tag != "" && shown != "" && shown != string(p.Digest) {
		return &refusal{http.StatusConflict, "The tag points at another image than the one that was shown. Look at it again."}
	}
	path := "/" + string(p.Repository)
	switch {
	case p.Whole:
		path += "/_slipway/repository"
	case p.Tag != "":
		path += "/manifests/" + p.Tag
	default:
		path += "/manifests/" + string(p.Digest)
	}
	header, _, err := web.act(v, http.MethodDelete, path, "", nil)
	if err != nil {
		return err
	}
	web.names.changed(v.Context(), p.Repository)
	done, to := "deleted", "/repository/"+string(p.Repository)
	if p.Whole {
		to = "/"
	}
	if strings.Contains(strings.Join(header.Values("Warning"), " "), "cannot be undone") {
		done = "deletedforgood"
	} else if web.restores(v) && web.rights(v, p.Repository).Push {
		to = "/trash/" + string(p.Repository)
	}
	return web.back(w, v, to, done)
}

// postTag points a tag at an image of the same repository, or copies it into another one.
func (web *Web) postTag(w http.ResponseWriter, v *visit) error {
	repo, ref, err := web.reference(v)
	if err != nil {
		return err
	}
	m, err := repo.Peek(v.Context(), ref)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(v.PostForm.Get("repository"))
	if text == "" {
		text = string(repo.Name())
	}
	to, err := oci.ParseName(text)
	if err != nil {
		return &refusal{http.StatusBadRequest, "This is not the name of a repository: lower-case letters, digits and single separators, in parts between slashes."}
	}
	tag, err := oci.ParseTag(strings.TrimSpace(v.PostForm.Get("tag")))
	if err != nil {
		return &refusal{http.StatusBadRequest, "This is not a tag: letters, digits, dots, dashes and underscores, at most 128, the first no dot or dash."}
	}
	if !v.may(access.Push, to) {
		return &refusal{http.StatusForbidden, "You may not push there."}
	}
	if to != repo.Name() {
		if err := web.copyImage(v, repo, to, m); err != nil {
			return err
		}
	}
	if _, _, err := web.act(v, http.MethodPut, "/"+string(to)+"/manifests/"+string(tag), m.MediaType, m.Bytes); err != nil {
		return err
	}
	web.names.changed(v.Context(), to)
	return web.back(w, v, "/image/"+string(to)+":"+url.PathEscape(string(tag)), "tagged")
}

const (
	maxDepth  = 4      // of indexes in each other that are copied
	maxCopied = 10_000 // blobs and manifests
)

// copying is a copy of an image into another repository.
type copying struct {
	*Web
	visit *visit
	from  registry.Repository
	to    oci.Name
	done  map[oci.Digest]bool // each digest is copied once, however often it is named
}

// copyImage brings what a manifest refers to into another repository; blobs are mounted, so no bytes
// move.
func (web *Web) copyImage(v *visit, from registry.Repository, to oci.Name, m *registry.Manifest) error {
	room, err := web.reserve(v, scanBytes)
	if err != nil {
		return err
	}
	defer room.Release()
	c := &copying{web, v, from, to, map[oci.Digest]bool{}}
	return c.contents(m, 0)
}

// begins reports whether the digest is still to be copied. The error is why nothing more is.
func (c *copying) begins(d oci.Digest) (bool, error) {
	if c.done[d] {
		return false, nil
	}
	if c.done[d] = true; len(c.done) > maxCopied {
		return false, &refusal{http.StatusConflict, "The image refers to more than 10,000 layers and images. Copy it with a client."}
	}
	return true, c.visit.Context().Err()
}

// contents copies what a manifest refers to.
func (c *copying) contents(m *registry.Manifest, depth int) error {
	parsed, err := oci.ReadManifest(m.Bytes)
	if err != nil {
		return err
	}
	for _, blob := range imageinfo.Contents(parsed) {
		if oci.NonDistributable(blob.MediaType) && len(blob.URLs) > 0 {
			continue
		}
		if begins, err := c.begins(blob.Digest); err != nil {
			return err
		} else if !begins {
			continue
		}
		q := url.Values{"mount": {string(blob.Digest)}, "from": {string(c.from.Name())}}
		answer, _, err := c.act(c.visit, http.MethodPost, "/"+string(c.to)+"/blobs/uploads/?"+q.Encode(), "", nil)
		if err != nil {
			return err
		}
		if answer.Get("Docker-Content-Digest") == "" {
			return &refusal{http.StatusConflict, "A layer of the image cannot be copied: it is missing or damaged here, or its size would exceed a quota there."}
		}
	}
	for i := range parsed.Manifests {
		if begins, err := c.begins(parsed.Manifests[i].Digest); err != nil {
			return err
		} else if !begins {
			continue
		}
		child, err := c.from.Peek(c.visit.Context(), oci.Reference{Digest: parsed.Manifests[i].Digest})
		if oci.IsUnknown(err) {
			continue // of a sparse index
		}
		if err != nil {
			return err
		}
		if depth == maxDepth {
			return &refusal{http.StatusConflict, "The image has too many indexes inside each other."}
		}
		if err := c.contents(child, depth+1); err != nil {
			return err
		}
		if _, _, err := c.act(c.visit, http.MethodPut, "/"+string(c.to)+"/manifests/"+string(child.Digest), child.MediaType, child.Bytes); err != nil {
			return err
		}
	}
	return nil
}
