package collect

import (
	"fmt"
	"slices"
)

type modelRun struct {
	phase      int8 // 0 idle, 1 waiting, 2 reading, 3 publishing, 4 looking again, 5 deleting, 6 done
	cut, ready int8 // ready is 0 until the collector has looked for leases, if it does
	read       int8 // how many things were
	needed     uint8
	seen       [things]int8
	list       uint8
	listEnd    int8
	sent       modelRequest
}

// leased reports whether a writer may be making attempts, as a collector sees it.
func (m *model) leased(w *world) bool {
	life := m.times.lease + m.times.late
	if m.omit == "a collection believes in a lease for longer" {
		life = m.times.lease - m.times.limit
	}
	for _, me := range w.writers {
		if me.lease > 0 && w.now <= me.lease+life {
			return m.omit != "a collection looks for leases"
		}
	}
	return false
}

func (m *model) collect(w world, i int, emit func(string, world)) {
	me := &w.runs[i]
	name := fmt.Sprint("collector ", i)
	switch me.phase {
	case 0:
		if me.phase, me.cut = 1, w.now; !m.leases {
			me.ready = w.now + m.times.wait
		}
		emit(name+" starts", w)
	case 1:
		if me.ready == 0 {
			if me.ready = w.now; m.leased(&w) {
				me.ready = me.cut + m.times.wait
			}
			emit(name+" looks for leases", w)
			return
		}
		if w.now < me.ready {
			return
		}
		for j := range w.writers {
			if b := w.writers[j].begun; m.kind == modelFiles && b > 0 && b < me.cut+m.times.fresh {
				w.writers[j].revoked = true
			}
		}
		if me.phase = 2; m.omit == "dates are compared with the start" {
			me.cut = w.now
		}
		emit(name+" fences", w)
	case 2:
		m.read(w, i, emit)
	case 3:
		if me.phase = 5; m.kind == modelLists {
			wait := m.times.limit + m.times.reading + 1
			if m.omit == "the second look waits for early readings" {
				wait = m.times.limit + 1
			}
			me.phase, me.listEnd = 4, w.now+wait+1
			for t := range things {
				if me.seen[t] > 0 {
					me.list |= 1 << t
				}
			}
			if me.ready = 0; m.omit == "the second look waits" {
				me.ready = w.now
			} else if !m.leases {
				me.ready = w.now + wait
			}
		}
		emit(name+" publishes", w)
	case 4:
		if me.ready == 0 {
			if me.ready = w.now; m.leased(&w) {
				me.ready = me.listEnd - 1
			}
			emit(name+" looks for leases again", w)
			return
		}
		if w.now < me.ready {
			return
		}
		for t := range things {
			if me.seen[t] > 0 && w.stamp[t] != me.seen[t] && m.omit != "the second look" {
				m.keep(me, t)
			}
		}
		me.phase = 5
		emit(name+" looks again", w)
	case 5:
		m.remove(w, i, emit)
	}
}

// links and manifests are garbage when they are older than the grace period.
func (m *model) cutoff(me *modelRun, t thing) int8 {
	if t == theBytes {
		return me.cut
	}
	if m.omit == "links have a grace period" {
		return me.cut
	}
	return me.cut - m.times.grace - m.times.limit
}

// read reads one more thing. An untagged child is garbage that no index needs.
func (m *model) read(w world, i int, emit func(string, world)) {
	me := &w.runs[i]
	order := []thing{index, imageB, imageA, child, linkB, linkA, theBytes}
	if m.signed() {
		order = append(order, signature)
	}
	if m.backwards {
		slices.Reverse(order)
	}
	t := order[me.read]
	me.read++
	if w.has(t) {
		switch t {
		case imageA, imageB, index:
			for _, need := range modelNeeds[t] {
				me.needed |= 1 << need
			}
		default:
			me.seen[t] = w.stamp[t]
		}
	}
	if int(me.read) == len(order) {
		m.decide(me)
	}
	emit(fmt.Sprintf("collector %d reads %s", i, thingNames[t]), w)
}

func (m *model) decide(me *modelRun) {
	me.phase = 3
	if me.needed>>child&1 == 1 { // so is what refers to it
		me.seen[signature] = 0
	}
	for _, t := range []thing{child, signature, linkA, linkB, theBytes} {
		if me.seen[t] == 0 {
			continue
		}
		if me.needed>>t&1 == 1 || me.seen[t] >= m.cutoff(me, t) {
			m.keep(me, t)
		}
	}
	me.needed = 0
}

// keep takes a thing off what goes, with all that it needs.
func (m *model) keep(me *modelRun, t thing) {
	me.seen[t] = 0
	if m.omit == "what stays keeps what it needs" {
		return
	}
	switch t {
	case child:
		m.keep(me, linkA)
		me.seen[signature] = 0
	case linkA, linkB:
		me.seen[theBytes] = 0
	}
}

// remove deletes one thing: manifests before links before bytes.
func (m *model) remove(w world, i int, emit func(string, world)) {
	me := &w.runs[i]
	order := []thing{child, signature, linkA, linkB, theBytes}
	if m.omit == "a manifest goes before what refers to it" {
		order[0], order[1] = signature, child
	}
	if m.omit == "manifests go before what they need" {
		slices.Reverse(order)
	}
	for _, t := range order {
		seen := me.seen[t]
		if seen == 0 {
			continue
		}
		name := fmt.Sprintf("collector %d deletes %s", i, thingNames[t])
		if m.kind == modelLists && w.now > me.listEnd && m.omit != "no deletion after the list's end" {
			me.phase, me.seen = 6, [things]int8{}
			emit(fmt.Sprintf("collector %d gives up", i), w)
			return
		}
		if m.kind != modelFiles {
			late := w
			r := modelRequest{del: true, what: t, until: w.now + m.times.late}
			if m.kind == modelVersions && m.omit != "deletions are conditional" {
				r.version = seen
			}
			late.runs[i].sent = r
			if m.omit == "a list stays while a deletion is unsettled" {
				late.runs[i].list = 0
			}
			emit(name+": late", late)
		}
		if m.kind == modelLists || w.stamp[t] == seen || m.omit == "deletions are conditional" {
			w.stamp[t], me.seen[t] = 0, 0
		} else {
			m.keep(me, t)
		}
		emit(name, w)
		return
	}
	me.phase, me.list = 6, 0
	emit(fmt.Sprintf("collector %d ends", i), w)
}
