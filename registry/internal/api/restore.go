package api

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
)

// Undoing deletions is no part of the distribution-spec. Its paths are among those that the spec
// leaves to extensions, like that of deleteRepository.

// listDeleted answers what was deleted from a repository and can be restored.
func (a *API) listDeleted(w http.ResponseWriter, r *request) error {
	release, err := a.answers.Acquire(r.Context(), r.client(), deletionsCost)
	if err != nil {
		return err
	}
	defer release()
	all, err := a.repository(r).Deletions(r.Context(), registry.MaxDeletions)
	if err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, map[string][]registry.Deletion{"deleted": all})
}

// maxDeletedRepositories bounds the repositories that one answer lists.
const maxDeletedRepositories = 200

// maxDeletionsCounted bounds the deletions of each repository that a list of repositories counts.
const maxDeletionsCounted = 100

// deletionsCost is the memory reserved for the records of deletions, in bytes.
const deletionsCost = 32 << 20

// deletedRepository is a repository in which something can be restored.
type deletedRepository struct {
	Name      oci.Name  `json:"name"`
	Deletions int       `json:"deletions"`
	At        time.Time `json:"at"` // of the latest
	Until     time.Time `json:"until"`
	By        string    `json:"by,omitempty"`
}

// listAllDeleted answers the repositories in which the caller can undo a deletion.
func (a *API) listAllDeleted(w http.ResponseWriter, r *request) error {
	release, err := a.answers.Acquire(r.Context(), r.client(), deletionsCost)
	if err != nil {
		return err
	}
	defer release()
	names, err := a.opts.Registry.Deleted(r.Context(), maxDeletedRepositories, func(name oci.Name) bool { return r.may(access.Push.Needs(), name) })
	if err != nil {
		return err
	}
	list := []deletedRepository{}
	for _, name := range names {
		all, err := a.opts.Registry.Repository(name).Deletions(r.Context(), maxDeletionsCounted)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			list = append(list, deletedRepository{name, len(all), all[0].At, all[0].Until, all[0].By})
		}
	}
	return writeJSON(w, r, http.StatusOK, struct {
		Repositories []deletedRepository `json:"repositories"`
		More         bool                `json:"more"`
	}{list, len(names) == maxDeletedRepositories})
}

// getHistory answers what a tag points at and has pointed at. Only callers who may push learn who
// pushed.
func (a *API) getHistory(w http.ResponseWriter, r *request) error {
	tag, err := oci.ParseTag(r.last)
	if err != nil {
		return unknownTag(err)
	}
	all, err := a.repository(r).History(r.Context(), tag)
	if err != nil {
		return err
	}
	if !r.may(access.Push, r.name) {
		for i := range all {
			all[i].By = ""
		}
	}
	return writeJSON(w, r, http.StatusOK, map[string][]registry.Target{"history": all})
}

// restore undoes a deletion, or points a tag at an earlier target.
func (a *API) restore(w http.ResponseWriter, r *request) error {
	selected, err := readSelection(r.Body)
	if err != nil {
		return err
	}
	r.last, r.digest = string(selected.Tag), selected.Digest
	if err := a.readyToCommit(w, r); err != nil {
		return err
	}
	repo := a.pushable(r)
	before := a.tagsBefore(r, oci.Reference{Tag: selected.Tag}, nil)
	restored, err := repo.Restore(r.Context(), selected)
	if d := restored.Tags[selected.Tag]; d != "" {
		r.digest = d
		a.noteMoves(r, before)
	}
	err = errors.Join(err, a.emit(r, notify.Push, a.restoredTargets(r, &restored)...))
	if err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, restored)
}

func readSelection(body io.Reader) (s registry.Selection, err error) {
	d := json.NewDecoder(io.LimitReader(body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, badRequest("not the JSON of what to restore: " + err.Error())
	}
	if s.Tag != "" {
		_, err = oci.ParseTag(string(s.Tag))
	}
	if s.Digest != "" && err == nil {
		s.Digest, err = oci.ParseDigest(string(s.Digest))
	}
	return s, err
}

// restoredTargets are the pushes that a restore stands for: of each tag, and of manifests
// without one.
func (a *API) restoredTargets(r *request, restored *registry.Restored) (targets []notify.Target) {
	tags := map[oci.Digest][]oci.Tag{}
	for _, tag := range slices.Sorted(maps.Keys(restored.Tags)) {
		d := restored.Tags[tag]
		tags[d] = append(tags[d], tag)
	}
	for _, m := range restored.Manifests {
		if len(tags[m.Digest]) == 0 {
			targets = append(targets, a.manifestTarget(r, m, nil, ""))
		}
		for _, tag := range tags[m.Digest] {
			targets = append(targets, a.manifestTarget(r, m, nil, tag))
		}
	}
	return targets
}
