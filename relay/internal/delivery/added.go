package delivery

import "slipway/relay/internal/post"

// maxAdded bounds the size of a message that is kept in memory from its commit on: together they take no more than a page.
const maxAdded = pageBytes / pageEntries

// added are the messages of a room that were committed since its last page was read, in order. While the page and they are all that
// the room has, they needn't be read.
type added struct {
	entries []*post.Entry
	left    int   // how many more messages may follow the page
	last    int64 // the highest ID that was read or taken
	from    map[int64]post.FromApplication
	edits   int64 // [store.Store.Edits] before from was read
}

// follow starts over behind a page, which was read after the store had that number of edits. So that a room has no more results
// that aren't committed than Pending allows, it is read again after pageEntries messages.
func (a *added) follow(page []*post.Entry, edits int64) {
	if a.from == nil || a.edits != edits {
		a.from, a.edits = map[int64]post.FromApplication{}, edits
	}
	for _, e := range page {
		a.last = max(a.last, e.ID)
		a.from[e.ApplicationID] = e.FromApplication
	}
	a.left = pageEntries - len(page)
}

// take keeps a copy of a message that was committed. It returns false if the message must be read.
func (a *added) take(e *post.Entry, edits int64) bool {
	if e == nil || a.left == 0 || a.edits != edits || e.Size() > maxAdded {
		return false
	}
	from, known := a.from[e.ApplicationID]
	if !known || e.ID <= a.last {
		return known // what isn't above last was read
	}
	kept := *e
	kept.FromApplication = from
	a.entries = append(a.entries, &kept)
	a.last = e.ID
	a.left--
	return true
}
