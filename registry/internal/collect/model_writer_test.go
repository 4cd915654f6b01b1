package collect

// # Writers

// verb is a step of a writer. What follows it in a section without a change of
// the storage (the section ends, the client is answered) belongs to the step:
// holding a section longer only keeps others waiting.
type verb uint8

const (
	begin  verb = iota // opens a section
	read               // reads the list: if something is listed, it ends the section and begins it again
	look               // for things: the plan fails if one is missing
	renew              // makes a thing young: the plan fails if it is missing
	mark               // leaves a mark for the run that the section has read
	put                // makes a thing there
	end                // ends the section
	tell               // the client that what was put or renewed is there
	answer             // that the manifest was pushed
)

type step struct {
	verb verb
	what things
}

// plan has two sections: the first to tell a client that something is there, the
// second to push what needs it.
type plan struct {
	name      string
	steps     []step
	push      uint8  // the step that begins the second section
	about     things // what is confirmed to the client
	needs     things // what it pushes needs
	otherwise uint8  // the plan of a client that was told it is not there
}

const (
	uploadToA uint8 = iota // upload the blob, push an image
	uploadToB
	headInA // ask whether the blob is there, push an image
	headInB
	mountToA  // mount the blob, which is in b, push an image
	headChild // ask whether the child is there, push an index of it
	tagChild  // upload the blob, push the child by a tag
	pushChild // push the child by its digest, push an index of it
	giveUp
)

func plansOf(i int) []plan {
	upload := func(link things) []step {
		first, second := step{put, link}, step{put, data} // one stage: either may be the first
		if i == 1 {
			first, second = second, first
		}
		return []step{{begin, 0}, {read, link | data}, {mark, 0}, first, second, {end, 0}, {tell, 0}}
	}
	head := func(link things) []step {
		return []step{{begin, 0}, {read, link | data}, {renew, link}, {look, data}, {end, 0}, {tell, 0}}
	}
	mount := []step{{begin, 0}, {read, linkA | data}, {look, data}, {mark, 0}, {put, linkA}, {end, 0}, {tell, 0}}
	image := func(link things) []step {
		return []step{{begin, 0}, {read, link | data}, {look, link | data}, {put, made(i)}, {end, 0}, {answer, 0}}
	}
	headOfChild := []step{{begin, 0}, {read, child}, {renew, child}, {end, 0}, {tell, 0}}
	index := []step{{begin, 0}, {read, child}, {look, child}, {put, made(i)}, {end, 0}, {answer, 0}}
	byDigest := []step{{begin, 0}, {read, ofChild | child}, {look, ofChild}, {put, child}, {end, 0}, {tell, 0}}
	tag := []step{{begin, 0}, {read, ofChild | child}, {look, ofChild}, {put, child}, {put, made(i)}, {end, 0}, {answer, 0}}
	build := func(name string, told []step, about things, pushed []step, needs things, otherwise uint8) plan {
		return plan{name, append(told, pushed...), uint8(len(told)), about, needs, otherwise}
	}
	return []plan{
		uploadToA: build("upload to a", upload(linkA), linkA, image(linkA), linkA|data, giveUp),
		uploadToB: build("upload to b", upload(linkB), linkB, image(linkB), linkB|data, giveUp),
		headInA:   build("HEAD in a", head(linkA), linkA, image(linkA), linkA|data, uploadToA),
		headInB:   build("HEAD in b", head(linkB), linkB, image(linkB), linkB|data, uploadToB),
		mountToA:  build("mount to a", mount, linkA, image(linkA), linkA|data, uploadToA),
		headChild: build("HEAD of the child", headOfChild, child, index, child, giveUp),
		tagChild:  build("tag the child", upload(linkA), linkA, tag, ofChild|child, giveUp),
		pushChild: build("push the child by its digest", byDigest, child, index, child, giveUp),
		giveUp:    {name: "nothing"},
	}
}

// uses is what the section asks the list for.
func (p *plan) uses(pushing bool) things {
	if pushing {
		return p.steps[p.push+1].what
	}
	return p.steps[1].what
}

var plans = [2][]plan{plansOf(0), plansOf(1)}

func (w *world) plan(i int) *plan { return &plans[i][w.writers[i].plan] }

// goal is the plan that writer i began with: what it pushes and tells stays the
// same when the way there changes.
func (m *model) goal(i int) *plan { return &plans[i][m.plans[i]] }

// finished says whether a writer has nothing more to do.
func (w *world) finished(i int) bool { return int(w.writers[i].pc) >= len(w.plan(i).steps) }

const (
	tellsOutside omission = "a client is told without a section"
	pushesAlone  omission = "a push opens no section"
	endsTooEarly omission = "the section of a push ends before the manifest is put"
	readsFirst   omission = "a section reads the list before it is open"
	ignoresList  omission = "a writer does not wait for what is listed"
	unrenewed    omission = "a client is told without renewing the link"
	withoutData  omission = "a client is told without a look at the data"
	blindly      omission = "a push does not look whether its references are there"
	mountsSilent omission = "a mount leaves no mark for the run"
	newSilent    omission = "an upload of data that was not there leaves no mark for the run"
	tooLate      omission = "a writer puts something past its deadline"
	endsUnclean  omission = "a section with an unanswered request ends at once"
)

// write does the next step of writer i in all ways that it may go.
func (m *model) write(w world, i int, emit emitter) {
	if w.finished(i) {
		return
	}
	before, me, p := w, &w.writers[i], w.plan(i)
	s, pushing := p.steps[me.pc], me.pc >= p.push
	withoutSection := tellsOutside
	if pushing {
		withoutSection = pushesAlone
	}
	hasSection := m.without != withoutSection
	me.pc++
	switch s.verb {
	case begin, read:
		if (s.verb == begin) != (m.without == readsFirst) {
			me.open = hasSection
			emit("opens a section", 0, w)
			return
		}
		if w.list&p.uses(pushing) != 0 && m.without != ignoresList {
			m.again(&w, i)
			emit("begins again, because of the list:", w.list, w)
			return
		}
		me.run = w.run
		emit("reads the list:", w.list, w)
	case look:
		blind := pushing && m.without == blindly || !pushing && m.without == withoutData
		if s.what&^w.there != 0 && !blind {
			m.fail(&w, i)
			emit("misses", s.what, w)
			return
		}
		if pushing && m.without == endsTooEarly {
			m.close(&w, i)
		}
		m.done(&w, i)
		emit("finds", s.what, w)
	case mark:
		silent := m.without == mountsSilent && me.plan == mountToA || m.without == newSilent && w.there&data == 0
		if !silent {
			w.marked |= 1 << me.run
		}
		emit("leaves a mark for run", things(me.run), w)
	case renew, put:
		switch {
		case s.verb == renew && w.there&s.what == 0:
			m.fail(&w, i)
			emit("cannot renew", s.what, w)
		case s.verb == renew && m.without == unrenewed:
			me.renewed = true
			m.done(&w, i)
			emit("finds", s.what, w)
		case s.what == data && w.there&data != 0:
			m.done(&w, i)
			emit("finds", data, w)
		default:
			m.send(before, w, i, s.what, emit)
		}
	case tell:
		me.told, me.renewed, me.overtaken = !me.overtaken, false, false
		emit("tells the client of", p.about, w)
	}
	if was := &before.writers[i]; m.leases && was.open && !was.expired && !was.lease && m.fault(&before) {
		was.expired = true
		before.endSection(i, false)
		emit("is slow: the deadline + δ of its section passes", 0, before)
	}
}

// done does what follows a step without a change of the storage.
func (m *model) done(w *world, i int) {
	for me, steps := &w.writers[i], w.plan(i).steps; int(me.pc) < len(steps); me.pc++ {
		switch steps[me.pc].verb {
		case end:
			m.close(w, i)
		case answer:
			me.told = false
		default:
			return
		}
	}
}

// send puts something, in all ways that a request may go: w is the world with it
// answered.
func (m *model) send(before, w world, i int, what things, emit emitter) {
	me := &w.writers[i]
	if me.expired && m.without != tooLate {
		m.again(&before, i)
		emit("begins again, past its deadline", 0, before)
		return
	}
	me.renewed = me.renewed || what == m.goal(i).about && me.pc < w.plan(i).push
	m.land(&w, i, what)
	if n := w; !m.leases && w.plan(i).steps[me.pc].verb == put && m.fault(&n) {
		m.crash(n, i, emit) // with half of its puts done; else it may as well stop before or after
	}
	if n := w; m.leases && !me.lease && !me.expired && me.open && m.fault(&n) {
		outlives := m.without != endsUnclean
		dead := before
		dead.faults = n.faults
		dead.writers[i].late, dead.writers[i].lease = what, outlives
		m.crash(dead, i, emit)
		n.writers[i].late, n.writers[i].lease = what, outlives
		m.done(&n, i)
		emit("puts, now and once more later,", what, n)
	}
	m.done(&w, i)
	emit("puts", what, w)
}

// land is what a put does to the storage.
func (m *model) land(w *world, i int, what things) {
	w.there |= what
	w.undurable &^= what
	w.young |= what & aged
	for j := range w.renewed {
		if w.used[j] || w.there&made(j) != 0 {
			w.renewed[j] |= what & m.goal(j).needs & aged
		}
	}
	if what == made(i) {
		w.used[i], w.renewed[i] = false, 0
	}
}

// close ends a section.
func (m *model) close(w *world, i int) {
	me := &w.writers[i]
	w.endSection(i, me.lease)
	me.open, me.expired, me.run = false, false, 0
}

// endSection makes barriers no longer wait for an open section, unless its lease
// outlives it.
func (w *world) endSection(i int, lease bool) {
	for c := range w.collectors {
		if waits := &w.collectors[c].waitFor[i]; waits.open {
			*waits = sections{lease: waits.lease || lease}
		}
	}
}

// again begins the section at hand anew.
func (m *model) again(w *world, i int) {
	m.close(w, i)
	me := &w.writers[i]
	me.renewed, me.overtaken = false, false
	if push := w.plan(i).push; me.pc > push {
		me.pc = push
	} else {
		me.pc = 0
	}
}

// fail is what happens when something is not there.
func (m *model) fail(w *world, i int) {
	m.close(w, i)
	me, p := &w.writers[i], w.plan(i)
	if me.pc <= p.push {
		me.renewed, me.overtaken, me.plan, me.pc = false, false, p.otherwise, 0
		return
	}
	w.broken = me.told && m.mode != ageless
	me.told, me.plan, me.pc = false, giveUp, 0
}

// fault counts one, unless there were enough.
func (m *model) fault(w *world) bool {
	if w.faults == m.faults {
		return false
	}
	w.faults++
	return true
}

// crash kills the server of writer i. The client tries again with another, or
// gives up.
func (m *model) crash(w world, i int, emit emitter) {
	m.again(&w, i)
	emit("dies; the client tries again", 0, w)
	me := &w.writers[i]
	me.told, me.plan, me.pc = false, giveUp, 0
	emit("dies; the client gives up", 0, w)
}
