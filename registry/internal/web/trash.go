package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

const (
	maxTrash     = 200 // repositories with deletions that one page looks into
	maxDeletions = 100 // of a repository
	maxDeleted   = 50  // tags or images that are named of one deletion
)

// deletedRow is a deletion that can be undone.
type deletedRow struct {
	registry.Deletion
	Tags   []deletedTag
	Images []oci.Digest // without a tag
	More   int          // that are not named
}

type deletedTag struct {
	Tag    oci.Tag
	Digest oci.Digest
}

type trashPage struct {
	frame
	Repository   oci.Name
	Rows         []deletedRow
	Older        bool // deletions that the page leaves out may exist
	Repositories []trashRow
}

type trashRow struct {
	Name      oci.Name
	Deletions int
	More      bool // the deletions are the latest only
	Latest    registry.Deletion
}

// getTrash lists the repositories in which the visitor can undo a deletion.
func (web *Web) getTrash(w http.ResponseWriter, v *visit) error {
	if !web.restores(v) {
		return errNoPage
	}
	p := trashPage{frame: web.frame(v, "trash", "Deleted")}
	room, err := web.reserve(v, scanBytes)
	if err != nil {
		return err
	}
	defer room.Release()
	names, err := web.o.Registry.Deleted(v.Context(), maxTrash, func(name oci.Name) bool { return v.may(access.Push, name) })
	if err != nil {
		return err
	}
	for _, name := range names {
		all, err := web.o.Registry.Repository(name).Deletions(v.Context(), maxDeletions)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			p.Repositories = append(p.Repositories, trashRow{name, len(all), len(all) == maxDeletions, all[0]})
		}
	}
	return web.pages.Show(w, http.StatusOK, "trash", p)
}

// restores reports whether deletions can be undone from the pages.
func (web *Web) restores(v *visit) bool { return web.o.KeepDeleted > 0 && v.csrf != "" }

// getDeleted lists what was deleted from a repository.
func (web *Web) getDeleted(w http.ResponseWriter, v *visit) error {
	repo, err := web.repository(v)
	if err != nil {
		return err
	}
	name := repo.Name()
	if !web.restores(v) || !web.rights(v, name).Push {
		return errHidden
	}
	p := trashPage{frame: web.frame(v, "trash", "Deleted from "+string(name)), Repository: name}
	room, err := web.reserve(v, scanBytes)
	if err != nil {
		return err
	}
	defer room.Release()
	all, err := repo.Deletions(v.Context(), maxDeletions)
	if err != nil {
		return err
	}
	p.Older = len(all) == maxDeletions
	for i := range all {
		p.Rows = append(p.Rows, newDeletedRow(&all[i]))
	}
	return web.pages.Show(w, http.StatusOK, "deleted", p)
}

func newDeletedRow(d *registry.Deletion) deletedRow {
	row := deletedRow{Deletion: *d}
	tagged := map[oci.Digest]bool{}
	for _, tag := range slices.Sorted(maps.Keys(d.Tags)) {
		tagged[d.Tags[tag]] = true
		row.Tags = append(row.Tags, deletedTag{tag, d.Tags[tag]})
	}
	for _, digest := range d.Manifests {
		if !tagged[digest] {
			row.Images = append(row.Images, digest)
		}
	}
	row.More = max(0, len(row.Tags)-maxDeleted) + max(0, len(row.Images)-maxDeleted)
	row.Tags, row.Images = row.Tags[:min(len(row.Tags), maxDeleted)], row.Images[:min(len(row.Images), maxDeleted)]
	return row
}

// postRestore undoes a deletion, or points a tag at what it pointed at before.
func (web *Web) postRestore(w http.ResponseWriter, v *visit) error {
	repo, err := web.repository(v)
	if err != nil {
		return err
	}
	name, form := string(repo.Name()), v.PostForm
	wanted := map[string]string{"deletion": form.Get("deletion"), "tag": form.Get("tag"), "digest": form.Get("digest")}
	answer, err := web.actJSON(v, http.MethodPost, "/"+name+"/_slipway/restore", wanted)
	if err != nil {
		return err
	}
	web.names.changed(v.Context(), repo.Name())
	var restored registry.Restored
	if err := json.Unmarshal(answer, &restored); err != nil {
		return err
	}
	if len(restored.Failed) > 0 {
		return web.back(w, v, "/trash/"+name, "restoredpart")
	}
	return web.back(w, v, "/repository/"+name, "restored")
}

type historyPage struct {
	frame
	Crumbs     []entry
	Repository oci.Name
	Tag        oci.Tag
	Targets    []registry.Target
	Restore    bool // the visitor may point the tag elsewhere
}

// getHistory shows what a tag points at and has pointed at, and to visitors who may push, who
// pushed.
func (web *Web) getHistory(w http.ResponseWriter, v *visit) error {
	repo, err := web.repository(v)
	if err != nil {
		return err
	}
	tag, err := oci.ParseTag(mux.Vars(v.Request)["reference"])
	if err != nil {
		return errHidden
	}
	p := historyPage{frame: web.frame(v, "repositories", "History of "+string(tag)), Repository: repo.Name(), Tag: tag}
	p.Restore = web.rights(v, p.Repository).Push && v.may(access.TagMove, p.Repository) && !repo.Immutable(tag)
	room, err := web.reserve(v, scanBytes)
	if err != nil {
		return err
	}
	defer room.Release()
	if p.Targets, err = repo.History(v.Context(), tag); err != nil {
		return err
	}
	if !v.may(access.Push, p.Repository) {
		for i := range p.Targets {
			p.Targets[i].By = ""
		}
	}
	return web.pages.Show(w, http.StatusOK, "history", p)
}
