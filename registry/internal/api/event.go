package api

import (
	"net/http"

	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/shared/tracing"
)

// retryEvents is the Retry-After while events can't be queued, in seconds.
const retryEvents = "10"

// readyToCommit refuses a change whose sender has lost the right to it since the request
// began, or whose event could not be stored. Handlers call it right before the change.
func (a *API) readyToCommit(w http.ResponseWriter, r *request) error {
	if err := a.confirm(w, r); err != nil {
		return err
	}
	if err := a.opts.Notify.Ready(); err != nil {
		w.Header().Set("Retry-After", retryEvents)
		return &oci.Error{Code: oci.CodeUnavailable, Message: "changes are refused while their events cannot be stored", Err: err}
	}
	return nil
}

// readyToDelete is readyToCommit for a change that frees space: on a full disk it is made, although its
// event can only wait in memory.
func (a *API) readyToDelete(w http.ResponseWriter, r *request) error {
	if notify.NoRoom(a.opts.Notify.Ready()) {
		return a.confirm(w, r)
	}
	return a.readyToCommit(w, r)
}

// deletable is the repository for deletions. The answer to one that can't be undone says so.
func (a *API) deletable(w http.ResponseWriter, r *request) registry.Repository {
	return a.repository(r).OnUnrecorded(func() { warn(w, `299 - "the storage is full: this deletion cannot be undone"`) })
}

// emitDeletion queues what was deleted.
func (a *API) emitDeletion(w http.ResponseWriter, r *request, targets ...notify.Target) error {
	err := a.emit(r, notify.Delete, targets...)
	if notify.NoRoom(err) {
		warn(w, `299 - "the storage is full: the event of this deletion waits in memory only"`)
		return nil
	}
	return err
}

// emit queues what has changed, durably, before the request is answered.
func (a *API) emit(r *request, action notify.Action, targets ...notify.Target) error {
	if a.opts.Notify == nil {
		return nil
	}
	events := make([]notify.Event, len(targets))
	for i, target := range targets {
		events[i] = a.newEvent(r, action, target)
	}
	if err := a.opts.Notify.Changed(events...); err != nil {
		return &oci.Error{Code: oci.CodeUnknown, Message: "the change was made, but its event could not be stored", Err: err}
	}
	return nil
}

// emitPull queues a pull that was answered. Nobody waits for it.
func (a *API) emitPull(r *request, target notify.Target) {
	a.opts.Notify.Pulled(a.newEvent(r, notify.Pull, target))
}

func (a *API) newEvent(r *request, action notify.Action, target notify.Target) notify.Event {
	target.Repository, target.Warning = r.name, r.warning
	actor := r.user
	if actor == "" {
		actor, _, _ = r.BasicAuth() // nobody has checked it
	}
	return notify.Event{
		Action: action, Target: target, Actor: actor, Trace: tracing.Parent(r.Context()),
		Request: notify.Request{ID: r.rec.ID(), Addr: r.RemoteAddr, Host: r.Host, Method: r.Method, UserAgent: r.UserAgent()},
	}
}

func (a *API) manifestTarget(r *request, d oci.Descriptor, content []byte, tag oci.Tag) notify.Target {
	return notify.Target{
		MediaType: d.MediaType, Digest: d.Digest, Size: d.Size, Tag: tag,
		URL: a.links.Manifest(r.Request, r.name, d.Digest), Manifest: content,
	}
}

// blobMediaType is the type that distribution gives every blob.
const blobMediaType = "application/octet-stream"

func (a *API) blobTarget(r *request, d oci.Digest, size int64) notify.Target {
	return notify.Target{MediaType: blobMediaType, Digest: d, Size: size, URL: a.links.Blob(r.Request, r.name, d)}
}

// emitBlobPull emits the pull of a blob that was answered, also by 304.
func (a *API) emitBlobPull(r *request, d oci.Digest, size int64) {
	if a.opts.Notify.Wants(notify.Pull, blobMediaType) {
		a.emitPull(r, a.blobTarget(r, d, size))
	}
}

// emitManifestPull emits the pull of a manifest that was answered, and of the list
// that it was taken from because the client does not accept lists.
func (a *API) emitManifestPull(r *request, tag oci.Tag, found, served *registry.Manifest) {
	if !a.opts.Notify.Wants(notify.Pull, found.MediaType) && !a.opts.Notify.Wants(notify.Pull, served.MediaType) {
		return
	}
	a.emitPull(r, a.manifestTarget(r, found.Descriptor, found.Bytes, tag))
	if served != found {
		a.emitPull(r, a.manifestTarget(r, served.Descriptor, served.Bytes, ""))
	}
}

// emitManifestPush emits one push of a manifest for each tag that it got, or one if it
// got none.
func (a *API) emitManifestPush(r *request, res registry.PutResult, content []byte) error {
	if !a.opts.Notify.Wants(notify.Push, res.Descriptor.MediaType) {
		return nil
	}
	if len(res.Tags) == 0 {
		return a.emit(r, notify.Push, a.manifestTarget(r, res.Descriptor, content, ""))
	}
	targets := make([]notify.Target, len(res.Tags))
	for i, tag := range res.Tags {
		targets[i] = a.manifestTarget(r, res.Descriptor, content, tag)
	}
	return a.emit(r, notify.Push, targets...)
}
