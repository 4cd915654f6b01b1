package audit

import (
	"sync"
	"time"

	"slipway/registry/internal/clientaddr"
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
	line    Record // of the folded refusals: their Count and the fields in which all agree
}

// take reports whether the refusal gets a line of its own.
func (f *fold) take(r Record) bool {
	from := shorten(clientaddr.Network(r.From), maxField)
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
	e.add(Record{Event: r.Event, From: from, Reason: shorten(r.Reason, maxField), Who: shorten(r.Who, maxField), Claimed: shorten(r.Claimed, maxField), Status: r.Status})
	return false
}

// add counts a refusal. A field that differs from those before is left out of the line,
// which would otherwise blame one caller for the refusals of others.
func (e *refusals) add(r Record) {
	if e.line.Count == 0 {
		e.line = r
	}
	e.line.Count++
	for _, f := range []struct {
		all  *string
		this string
	}{{&e.line.Who, r.Who}, {&e.line.Claimed, r.Claimed}, {&e.line.Reason, r.Reason}} {
		if *f.all != f.this {
			*f.all = ""
		}
	}
	if e.line.Status != r.Status {
		e.line.Status = 0
	}
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
		if e.line.Count > 0 {
			e.line.Time = now
			lines = append(lines, e.line)
		}
		delete(f.byFrom, from)
	}
	return lines
}
