package collect

// # Collectors

type collectorStep uint8

const (
	toLock collectorStep = iota // and publish the run
	waitForAll
	toMark
	toListLinks
	waitForLinks
	toConfirmLinks
	toDeleteLinks
	toListData
	waitForData
	toConfirmData
	toDeleteData
	toWithdraw
	toUnlock
	finished
)

const (
	unlocked      omission = "a collector takes no lock"
	marksAtOnce   omission = "a collector marks without waiting for sections that do not know of the run"
	linksAtOnce   omission = "links go without waiting for sections that have not read the list"
	dataAtOnce    omission = "data goes without waiting for sections that have not read the list"
	manifestsOnce omission = "manifests are not read again"
	tagsOnce      omission = "tags are not read again"
	agesOnce      omission = "the ages of links are not read again"
	lateGoes      omission = "a manifest that came between the looks does not keep what it needs"
	marksUnread   omission = "the marks of writers are not read"
	keptForgotten omission = "data goes though a link that was to go stays"
	linksFirst    omission = "links go before the manifest that needs them"
	volatile      omission = "data goes before the deletion of a manifest is durable"
	usedStays     omission = "what a deleted manifest has used stays for the grace period"
	unnoticed     omission = "a collector goes on when it has lost its lock"
	impatient     omission = "a collector goes on while a request of its own may take effect later"
	takesOver     omission = "a run takes over from a dead one while a request of that may take effect"
)

// collect does the next step of collector c in all ways that it may go.
func (m *model) collect(w world, c int, emit emitter) {
	before, me := w, &w.collectors[c]
	switch {
	case me.pc == finished, me.pc == toLock && c == 1 && (!m.second || w.collectors[0].pc == toLock):
		return
	case me.late.kind != none && m.without != impatient:
		return
	case me.lost && m.without != unnoticed:
		*me = collector{pc: finished}
		emit("has lost its lock, and ends", 0, w)
		return
	}
	if me.pc == toListLinks && me.going&aged == 0 {
		me.pc = toListData
	}
	if me.pc == toListData && me.going&data == 0 {
		me.pc = toWithdraw
	}
	at := me.pc
	me.pc++
	switch at {
	case toLock:
		if w.holder == 0 || m.without == unlocked {
			w.holder, w.run, w.list = uint8(c+1), uint8(c+1), 0
			w.startBarrier(c, m.without == marksAtOnce)
			emit("takes the lock and publishes its run", 0, w)
		}
	case waitForAll:
		m.barrier(before, w, c, toWithdraw, emit)
	case toMark:
		m.mark(w, c, emit)
	case toListLinks:
		m.publish(before, w, c, me.going&aged, m.without == linksAtOnce, emit)
	case waitForLinks:
		m.barrier(before, w, c, toListData, emit)
	case toConfirmLinks:
		m.confirm(w, c, emit)
	case toDeleteLinks:
		m.remove(before, w, c, emit)
	case toListData:
		m.publish(before, w, c, me.going&data, m.without == dataAtOnce, emit)
	case waitForData:
		m.barrier(before, w, c, toWithdraw, emit)
	case toConfirmData:
		if w.marked>>(c+1)&1 != 0 && m.without != marksUnread {
			me.going = 0
		}
		emit("reads the marks of writers", 0, w)
	case toDeleteData:
		m.remove(before, w, c, emit)
	case toWithdraw:
		w.run = 0
		m.publish(before, w, c, 0, true, emit)
	case toUnlock:
		w.marked, w.holder = 0, 0
		*me = collector{pc: finished}
		emit("releases the lock", 0, w)
	}
	if at != toDeleteLinks && at != toDeleteData {
		return // else it may as well die before, or stop waiting
	}
	if !m.fault(&before) {
		return
	}
	m.die(before, c, request{}, emit)
	if m.leases && before.holder == uint8(c+1) {
		before.collectors[c].lost = true
		before.release()
		emit("is slow: the deadline + δ of its lock passes", 0, before)
	}
}

// die kills a collector. On files lock and list vanish with it.
func (m *model) die(w world, c int, late request, emit emitter) {
	lost := w.collectors[c].lost
	w.collectors[c] = collector{pc: finished, died: !lost, late: late}
	switch {
	case lost:
	case !m.leases:
		w.release()
	case m.without == takesOver:
		w.holder = 0
	}
	emit("dies", 0, w)
}

func (w *world) release() { w.holder, w.run, w.list = 0, 0, 0 }

func (w *world) startBarrier(c int, skip bool) {
	for i, me := range w.writers {
		w.collectors[c].waitFor[i] = sections{open: me.open && !me.expired && !skip, lease: me.lease && !skip}
	}
}

// barrier goes on once nobody is waited for. It may be given up before, and with
// it what is listed.
func (m *model) barrier(before, w world, c int, otherwise collectorStep, emit emitter) {
	me := &w.collectors[c]
	if me.waitFor == [2]sections{} {
		emit("has waited for the sections that were open", 0, w)
		return
	}
	me.pc, me.waitFor = otherwise, [2]sections{}
	m.keep(me, me.batch)
	emit("waits no longer", 0, w)
}

// keep takes things off what is going. With a link its data stays.
func (m *model) keep(me *collector, what things) {
	what &= me.going
	me.going &^= what
	if what&links != 0 && m.without != keptForgotten {
		me.going &^= data
	}
}

// publish replaces the list and begins a barrier.
func (m *model) publish(before, w world, c int, list things, skip bool, emit emitter) {
	w.list, w.collectors[c].batch = list, list
	w.startBarrier(c, skip)
	m.request(before, w, c, request{publication, list}, "publishes the list", emit)
}

// request emits a change in all ways that it may go: w is the world with it
// answered.
func (m *model) request(before, w world, c int, r request, name string, emit emitter) {
	emit(name, r.what, w)
	if m.leases && before.collectors[c].late.kind == none && !before.collectors[c].lost && m.fault(&w) {
		before.faults = w.faults
		m.die(before, c, r, emit)
		w.collectors[c].late = r
		emit(name+", now and once more later,", r.what, w)
	}
}

// mark takes any links for garbage, and the data if it has seen no other link.
// It reads repository a, then b and the data.
func (m *model) mark(w world, c int, emit emitter) {
	me := &w.collectors[c]
	seen := w.there & (linkA | child)
	if me.half {
		seen = w.there & (linkB | data)
	} else if m.without == lateGoes {
		me.child = seen&child != 0
	}
	me.half = !me.half
	if me.half {
		me.pc = toMark
	}
	for going := seen; ; going = (going - 1) & seen {
		n := w
		its := &n.collectors[c]
		its.going |= going &^ data
		its.needed |= seen &^ going & links
		if !me.half {
			if its.needed == 0 {
				its.going |= seen & data
			}
			its.needed = 0
		}
		emit("takes for garbage:", its.going, n)
		if going == 0 {
			return
		}
	}
}

// confirm reads tags and manifests again, and then the ages of what is listed.
func (m *model) confirm(w world, c int, emit emitter) {
	me := &w.collectors[c]
	if me.half = !me.half; me.half {
		me.pc = toConfirmLinks
		for i := range w.writers {
			needs := m.goal(i).needs
			unread := manifestsOnce
			if needs&child != 0 && needs != child { // it is a tag
				needs, unread = child, tagsOnce
			}
			if w.there&made(i) != 0 && m.without != unread {
				me.needed |= needs
			}
		}
		emit("reads tags and manifests again", 0, w)
		return
	}
	for one := linkA; one <= child; one <<= 1 {
		if w.young&one != 0 && m.mode != ageless && m.without != agesOnce && !m.released(&w, one) {
			me.needed |= one
		}
	}
	unlisted := w.there &^ me.batch & child // it came since the first look, or stayed then
	if m.without == lateGoes && !me.child {
		unlisted = 0
	}
	if w.there&child != 0 && (me.needed|unlisted)&child != 0 {
		me.needed |= ofChild
	}
	m.keep(me, me.needed)
	me.needed = 0
	emit("reads ages again", 0, w)
}

// released says whether a manifest that was deleted has used something, and
// it was confirmed to nobody since: the link is no newer than the manifest's bytes.
func (m *model) released(w *world, what things) bool {
	if m.mode != command || m.without == usedStays {
		return false
	}
	for j := range w.used {
		if w.used[j] && m.goal(j).needs&what != 0 && w.renewed[j]&what == 0 {
			return true
		}
	}
	return false
}

// remove deletes one of the things that are listed and still going: manifests
// first, then links, then data.
func (m *model) remove(before, w world, c int, emit emitter) {
	me := &w.collectors[c]
	order := []things{child, linkA, linkB, data}
	if m.without == linksFirst {
		order = []things{linkA, linkB, child, data}
	}
	for _, one := range order {
		if me.going&me.batch&one == 0 {
			continue
		}
		me.going &^= one
		me.pc = before.collectors[c].pc
		if m.power && (one != child || m.without == volatile) {
			w.undurable |= one & w.there
		}
		w.vanish(one)
		m.request(before, w, c, request{deletion, one}, "deletes", emit)
		return
	}
	emit("has deleted what was listed", 0, w)
}

func (w *world) vanish(what things) {
	w.there &^= what
	w.young &^= what
}
