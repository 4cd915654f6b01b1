package audit

import (
	"sync"
	"time"

	"slipway/registry/internal/address"
)

const (
	freeRefusals = 10          // of an address, each with a line, before further ones are only counted
	foldTime     = time.Minute // until a count is written and begins again
	foldTick     = foldTime / 6
	maxFolded    = 4096 // addresses that are counted apart from each other

	otherAddresses = "other addresses"
)

// fold bounds the lines of refusals: after some of one address within a minute it counts
// the others, which share one line.
type fold struct {
	mu     sync.Mutex
	byFrom map[string]*refusals
}

type refusals struct {
	since   time.Time
	written int
	folded  int
	last    Record // the last folded refusal, with long fields cut
}

// take reports whether the refusal gets a line of its own.
func (f *fold) take(r Record) bool {
	from := shorten(address.Network(r.From), maxField)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byFrom == nil {
		f.byFrom = map[string]*refusals{}
	}
	e := f.byFrom[from]
	if e == nil && len(f.byFrom) >= maxFolded {
		from = otherAddresses
		e = f.byFrom[from]
	}
	if e == nil {
		e = &refusals{since: r.Time}
		f.byFrom[from] = e
	}
	if e.written < freeRefusals {
		e.written++
		return true
	}
	e.folded++
	e.last = Record{Event: r.Event, From: from, Reason: shorten(r.Reason, maxField), Who: shorten(r.Who, maxField), Claimed: shorten(r.Claimed, maxField), Status: r.Status}
	return false
}

// due returns the lines of those who were counted for long enough, or of all.
func (f *fold) due(now time.Time, all bool) []Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []Record
	for from, e := range f.byFrom {
		if !all && now.Sub(e.since) < foldTime {
			continue
		}
		if e.folded > 0 {
			e.last.Time, e.last.Count = now, e.folded
			lines = append(lines, e.last)
		}
		delete(f.byFrom, from)
	}
	return lines
}
