package web

import (
	"net/http"

	"slipway/registry/internal/clientaddr"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/web/imageinfo"
	"slipway/shared/shares"
	ui "slipway/shared/web"
)

const (
	// pagesMemory bounds the bytes that pages take at the same time, from reading to sending, and
	// pagesShare those of one client. A few KiB of a manifest become a MiB in memory.
	pagesMemory = 192 << 20
	pagesShare  = 64 << 20

	heldManifest = 128 << 10 // bytes of a manifest that is held while its page waits for room

	nameBytes     = 200      // of a repository in a list
	tagBytes      = 200      // of a tag in a list
	rawFactor     = 64       // times as large is a manifest with line breaks, at most
	referrerBytes = 4 << 20  // of the list of an image
	scanBytes     = 32 << 20 // of a page that reads a whole index, or the records of deletions
)

// reserve waits for memory for about n bytes of a page. The caller holds nothing large meanwhile.
// UNAVAILABLE.
func (web *Web) reserve(v *visit, n int64) (*shares.Held, error) {
	client := clientaddr.Network(v.RemoteAddr)
	if user := v.user(); user != "" {
		client = "user " + user
	}
	return web.memory.Reserve(v.Context(), client, n)
}

// peek returns a manifest with room for reading it and a configuration, and for extra bytes. The caller
// must release the room.
func (web *Web) peek(v *visit, repo registry.Repository, ref oci.Reference, extra int64) (*registry.Manifest, *shares.Held, error) {
	m, err := repo.Peek(v.Context(), ref)
	if err != nil {
		return nil, nil, err
	}
	size, digest := m.Size, m.Digest
	if size > heldManifest {
		m = nil
	}
	room, err := web.reserve(v, imageinfo.Room(size, imageinfo.MaxConfig)+extra)
	if err != nil {
		return nil, nil, err
	}
	if m == nil {
		if m, err = repo.Peek(v.Context(), oci.Reference{Digest: digest}); err != nil {
			room.Release()
			return nil, nil, err
		}
	}
	return m, room, nil
}

// show answers with a page. Its room shrinks to what is sent: a slow reader holds no more.
func (web *Web) show(w http.ResponseWriter, room *shares.Held, name string, page any) error {
	body, err := web.pages.Render(name, page)
	if err != nil {
		return err
	}
	room.Shrink(int64(len(body)))
	ui.Send(w, http.StatusOK, body)
	return nil
}
