package collect

import "fmt"

type modelWriter struct {
	pc      int8
	begun   int8  // of the attempt, 0 = none
	told    int8  // when the client was told, 0 = not
	half    bool  // a renewal is due, or the lists were read for an attempt
	lists   uint8 // that were read
	revoked bool
	lease   int8 // its date, 0 = none
	since   int8 // when the writer saw that it has one, 0 = not yet
	sent    modelRequest
}

func (m *model) overdue(w *world, me *modelWriter) bool { return w.now > me.begun+m.times.limit }

func (m *model) write(w world, i int, plan []modelStep, emit func(string, world)) {
	me := &w.writers[i]
	s := plan[me.pc]
	name := fmt.Sprintf("writer %d: %s %s", i, s.verb, thingNames[s.what])
	advance := func() {
		me.pc, me.half = me.pc+1, false
		emit(name, w)
	}
	again := func() {
		for me.pc > 0 && plan[me.pc].verb != "begin" {
			me.pc--
		}
		me.half = false
		emit(name+": begins again", w)
	}
	switch {
	case s.verb == "begin" && m.kind == modelLists && (!me.half || w.now > me.begun+m.times.reading):
		me.lists, me.begun, me.half = m.announced(&w), w.now, true
		emit(name+": reads the lists", w)
	case s.verb == "begin" && m.leases && m.omit != "writers take a lease" && m.lease(w, i, name, emit):
	case s.verb == "begin":
		me.begun, me.revoked = w.now, false
		advance()
	case m.listed(me, s) && m.announced(&w)>>s.what&1 == 1: // waits
	case m.listed(me, s):
		me.lists &^= 1 << s.what
		emit(name+": is no longer listed", w)
	case s.verb == "tell" && m.overdue(&w, me) && m.omit != "a client is told in time":
		again()
	case s.verb == "tell":
		me.told = w.now
		advance()
	case s.verb == "look" && w.has(s.what):
		advance()
	case s.verb == "rely" && me.half: // a renewal that was due
		if !w.has(s.what) && m.omit != "a renewal never creates" {
			m.miss(w, i, plan, emit)
			return
		}
		late := w
		late.writers[i].sent = modelRequest{renew: true, what: s.what, until: w.now + m.times.late}
		if m.kind != modelFiles {
			emit(name+": a renewal is late", late)
		}
		w.stamp[s.what] = w.now
		advance()
	case s.verb == "rely" && w.has(s.what):
		since := me.since
		if m.omit == "what is older than the lease is renewed" {
			since = 0
		}
		if w.stamp[s.what] >= max(me.begun-m.times.fresh, since) || m.omit == "writers renew" {
			advance()
			return
		}
		me.half = true
		emit(name+": stale", w)
	case s.verb == "put" || s.verb == "place":
		m.put(w, i, s, name, advance, again, emit)
	default:
		m.miss(w, i, plan, emit)
	}
}

// lease takes a lease that lasts as long as an attempt. It reports false if the writer has one. A collector may look
// between the two steps.
func (m *model) lease(w world, i int, name string, emit func(string, world)) bool {
	me := &w.writers[i]
	switch {
	case me.lease > 0 && w.now+m.times.limit <= me.lease+m.times.lease && me.since > 0:
		return false
	case me.lease > 0 && me.since == 0 && w.now+m.times.limit <= me.lease+m.times.lease:
		me.since = w.now
		if m.omit != "lists that were read before the lease don't count" {
			me.half = false
		}
		emit(name+": has a lease", w)
	default:
		if me.lease = w.now; m.omit != "an expired lease isn't renewed" {
			me.since = 0
		}
		emit(name+": takes a lease", w)
	}
	return true
}

// keepLease renews a lease while it is valid, or deletes it because the process stops: between two attempts, or when it has given
// up on a request. The client goes on at another process.
func (m *model) keepLease(w world, i int, plan []modelStep, emit func(string, world)) {
	me := &w.writers[i]
	if me.since == 0 {
		return
	}
	if w.now > me.lease && w.now <= me.lease+m.times.lease {
		n := w
		n.writers[i].lease = w.now
		emit(fmt.Sprintf("writer %d renews its lease", i), n)
	}
	ended := me.sent != (modelRequest{}) || int(me.pc) == len(plan) || plan[me.pc].verb == "begin" && !me.half
	late := w.now <= me.sent.until && m.omit != "a lease stays while a request may be late"
	if ended && !late {
		me.lease, me.since, w.stopped = 0, 0, true
		emit(fmt.Sprintf("the process of writer %d stops", i), w)
	}
}

// listed reports whether a step relies on, puts or renews what was listed when the attempt began.
func (m *model) listed(me *modelWriter, s modelStep) bool {
	switch s.verb {
	case "rely":
		if !me.half && m.omit == "fresh things are looked for in the lists" {
			return false
		}
	case "put", "place":
	default:
		return false
	}
	return me.lists>>s.what&1 == 1
}

// announced returns the keys that collectors are deleting, as writers read them now.
func (m *model) announced(w *world) (all uint8) {
	for _, r := range w.runs[:m.collectors] {
		if w.now <= r.listEnd+m.lateness() && m.omit != "writers read the list" {
			all |= r.list
		}
	}
	return all
}

// lateness is the time after a list's end for which writers believe it.
func (m *model) lateness() int8 {
	if m.omit == "writers believe a list longer than its collector" {
		return 0
	}
	return m.times.late
}

func (m *model) put(w world, i int, s modelStep, name string, advance, again func(), emit func(string, world)) {
	me := &w.writers[i]
	switch {
	case m.kind == modelFiles && me.revoked && m.omit != "the fence":
		again()
		return
	case m.kind != modelFiles && s.verb == "put" && m.overdue(&w, me) && m.omit != "no request after the limit":
		again()
		return
	}
	if m.kind != modelFiles {
		late := w
		late.writers[i].sent = modelRequest{put: true, what: s.what, until: w.now + m.times.late}
		emit(name+": late", late)
	}
	stamp := w.now
	if m.omit == "bytes are dated when they are placed" && s.what == theBytes {
		stamp = 1
	}
	if m.omit == "a put over something dates it" && w.has(s.what) {
		stamp = w.stamp[s.what]
	}
	w.stamp[s.what] = stamp
	me.pc, me.half = me.pc+1, false
	emit(name, w)
}

// miss ends a push that finds something missing.
func (m *model) miss(w world, i int, plan []modelStep, emit func(string, world)) {
	me := &w.writers[i]
	until := me.told + m.times.grace
	if w.stopped { // which shortens the promise
		until -= m.times.fresh
	}
	if me.told > 0 && w.now <= until {
		w.broken = fmt.Sprintf("promise 2: writer %d was told that %s is there", i, thingNames[plan[me.pc].what])
	}
	me.pc = int8(len(plan))
	emit(fmt.Sprintf("writer %d misses %s", i, thingNames[plan[me.pc-1].what]), w)
}
