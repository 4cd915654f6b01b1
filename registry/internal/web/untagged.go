package web

import (
	"net/http"
	"strconv"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/imageinfo"
)

// maxUntagged bounds the tags and the manifests of a repository whose untagged images are listed.
const maxUntagged = 1000

type untaggedPage struct {
	frame
	Repository oci.Name
	Rows       []untaggedRow
	Images     int
	TooMany    bool
	Previous   string
	Next       string
}

type untaggedRow struct {
	registry.Untagged
	Image *imageinfo.Summary // nil if the manifest can't be read
}

// seesUntagged reports whether the visitor may see the untagged images of a repository. Callers who may only pull can't list them by the API.
func (web *Web) seesUntagged(v *visit, name oci.Name) bool {
	return v.may(access.Push, name) || v.may(access.Delete, name)
}

// getUntagged lists the images of a repository that no tag leads to.
func (web *Web) getUntagged(w http.ResponseWriter, v *visit) error {
	repo, err := web.repository(v)
	if err != nil {
		return err
	}
	name := repo.Name()
	if !web.seesUntagged(v, name) {
		return errHidden
	}
	if _, _, err := repo.Tags(v.Context(), 1, ""); err != nil { // it may not exist
		return err
	}
	p := untaggedPage{frame: web.frame(v, "repositories", "Untagged images of "+string(name)), Repository: name}
	room, err := web.reserve(v, scanBytes)
	if err != nil {
		return err
	}
	all, ok, err := repo.Untagged(v.Context(), maxUntagged)
	room.Release()
	if err != nil {
		return err
	}
	p.TooMany, p.Images = !ok, len(all)
	shown, previous, next := paged(all, v.URL.Query().Get("page"), func(n int) string {
		return address(web.base+"/untagged/"+string(name), map[string]string{"page": strconv.Itoa(n)})
	})
	p.Previous, p.Next = previous, next
	for _, u := range shown {
		row := untaggedRow{Untagged: u}
		if row.Image, err = web.summary(v, repo, u.Digest); err != nil {
			return err
		}
		p.Rows = append(p.Rows, row)
	}
	return web.pages.Show(w, http.StatusOK, "untagged", p)
}

// summary describes a manifest; nil if it can't be read.
func (web *Web) summary(v *visit, repo registry.Repository, d oci.Digest) (*imageinfo.Summary, error) {
	m, room, err := web.peek(v, repo, oci.Reference{Digest: d}, 0)
	if registry.IsLost(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer room.Release()
	return web.images.Summarize(v.Context(), repo, m, room.Shrink)
}
