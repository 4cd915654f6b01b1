package collect

import (
	"fmt"
	"slices"
	"strings"
)

// The protocol in small. There is one blob: its bytes, and a link to them in each of the
// repositories a and b. An untagged manifest in a, the child, needs link a. Two writers push: an
// image in a or b, or an index of the child. Two collectors may run, by mistake at the same
// time. Each actor does one step at a time, in every order; an actor that isn't chosen any
// more is frozen or dead. Time passes at any moment.

type thing uint8

const (
	theBytes thing = iota
	linkA
	linkB
	child
	imageA
	imageB
	index
	things
)

var thingNames = [things]string{"bytes", "link-a", "link-b", "child", "image-a", "image-b", "index"}

// needs maps each thing to what it needs to be worth something (promise 1).
var modelNeeds = [things][]thing{
	linkA: nil, child: {linkA, theBytes}, imageA: {linkA, theBytes}, imageB: {linkB, theBytes}, index: {child},
}

// storeKind is the way in which a store deletes: under a lock, under a version, or blindly from a list.
type storeKind uint8

const (
	modelFiles storeKind = iota
	modelVersions
	modelLists
)

var kindNames = [...]string{"files", "versions", "lists"}

// modelTimes are in ticks, and those of the protocol.
type modelTimes struct{ fresh, limit, late, grace, wait, reading, lease, end int8 }

// model is a question to the explorer.
type model struct {
	kind       storeKind
	plans      [2]string // of the writers
	collectors int
	backwards  bool   // the collectors read in the opposite order
	leases     bool   // collectors look for leases; otherwise they wait always
	renews     bool   // processes renew their leases, and stop
	omit       string // the step or inequality that is left out
	times      modelTimes
}

// plans are the steps of writers. Placing bytes has no limit in time. A push that finds something
// missing fails, which is right unless the client was told before.
var modelPlans = map[string]string{
	"push":   "begin, rely link-a, look bytes, put image-a",
	"head":   "begin, rely link-a, look bytes, tell; begin, rely link-a, look bytes, put image-a",
	"mount":  "begin, rely bytes, put link-b, tell; begin, rely link-b, look bytes, put image-b",
	"upload": "begin, put bytes, put link-b, tell; begin, rely link-b, look bytes, put image-b",
	"slow":   "begin, place bytes; begin, rely bytes, put link-b, tell, look bytes",
	"index":  "begin, rely child, tell; begin, rely child, put index",
	"none":   "",
}

type modelStep struct {
	verb string
	what thing
}

func compilePlan(text string) (steps []modelStep) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		verb, name, _ := strings.Cut(strings.TrimSpace(word), " ")
		steps = append(steps, modelStep{verb, thing(max(0, slices.Index(thingNames[:], name)))})
	}
	return steps
}

// world is one moment. The zero stamp of a thing is that it isn't there.
type world struct {
	now     int8
	stamp   [things]int8
	writers [2]modelWriter
	runs    [2]modelRun
	stopped bool // a process has
	broken  string
}

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

// modelRequest is on its way; nobody waits for its answer.
type modelRequest struct {
	put, renew, del bool
	what            thing
	version, until  int8
}

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

const modelStart = 20

func (m *model) first() world {
	w := world{now: modelStart}
	w.stamp[theBytes], w.stamp[linkA] = 1, 1
	if m.leases { // a writer that has stopped renewed them
		w.now, w.stamp[theBytes], w.stamp[linkA] = modelStart+1, modelStart, modelStart
		if m.plans[0] == "mount" { // or the bytes alone
			w.stamp[linkA] = 1
		}
		w.writers[0].lease, w.writers[0].since = 1, 1 // a lease that has expired
	}
	if slices.Contains(m.plans[:], "index") {
		w.stamp[child] = 1
	}
	return w
}

func (w *world) has(t thing) bool { return w.stamp[t] > 0 }

// check looks for a manifest that lacks something.
func (w *world) check() string {
	for _, t := range []thing{imageA, imageB, index, child} {
		if !w.has(t) {
			continue
		}
		for _, need := range modelNeeds[t] {
			if !w.has(need) {
				return fmt.Sprintf("promise 1: %s is in place without %s", thingNames[t], thingNames[need])
			}
		}
	}
	return ""
}

// next calls emit for each world that one step leads to.
func (m *model) next(w world, plans *[2][]modelStep, emit func(string, world)) {
	if w.now < m.times.end {
		n := w
		n.now++
		emit("a tick", n)
	}
	for i := range w.writers {
		if m.renews {
			m.keepLease(w, i, plans[i], emit)
		}
		m.request(w, fmt.Sprint("writer ", i), func(w *world) *modelRequest { return &w.writers[i].sent }, emit)
		if int(w.writers[i].pc) < len(plans[i]) && w.writers[i].sent == (modelRequest{}) {
			m.write(w, i, plans[i], emit)
		}
	}
	for i := range m.collectors {
		m.request(w, fmt.Sprint("collector ", i), func(w *world) *modelRequest { return &w.runs[i].sent }, emit)
		if w.runs[i].sent == (modelRequest{}) {
			m.collect(w, i, emit)
		}
	}
}

// request lets a late request take effect. Its sender has given up.
func (m *model) request(w world, who string, of func(*world) *modelRequest, emit func(string, world)) {
	r := *of(&w)
	if r == (modelRequest{}) || w.now > r.until && m.omit != "requests expire" {
		return
	}
	switch {
	case r.put:
		w.stamp[r.what] = w.now
	case r.renew && (w.has(r.what) || m.omit == "a renewal never creates"):
		w.stamp[r.what] = w.now
	case r.del && (r.version == 0 || w.stamp[r.what] == r.version):
		w.stamp[r.what] = 0
	}
	*of(&w) = modelRequest{until: -1} // dead
	emit("a late request of "+who+" takes effect", w)
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
	for _, t := range []thing{child, linkA, linkB, theBytes} {
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
	case linkA, linkB:
		me.seen[theBytes] = 0
	}
}

// remove deletes one thing: manifests before links before bytes.
func (m *model) remove(w world, i int, emit func(string, world)) {
	me := &w.runs[i]
	order := []thing{child, linkA, linkB, theBytes}
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

// explore returns how a promise is broken, nil if none is, and how many worlds there are.
func (m *model) explore(most int) (trace []string, worlds int) {
	var plans [2][]modelStep
	for i, name := range m.plans {
		plans[i] = compilePlan(modelPlans[name])
	}
	type origin struct {
		from int
		what string
	}
	all, origins := []world{m.first()}, []origin{{-1, ""}}
	known := map[world]bool{all[0]: true}
	for at := 0; at < len(all); at++ {
		w := all[at]
		why := w.broken
		if why == "" {
			why = w.check()
		}
		if why != "" {
			trace = []string{why}
			for i := at; i > 0; i = origins[i].from {
				trace = append(trace, fmt.Sprintf("%d: %s", all[i].now, origins[i].what))
			}
			slices.Reverse(trace)
			return trace, len(all)
		}
		m.next(w, &plans, func(what string, n world) {
			if !known[n] && len(all) < most {
				known[n] = true
				all, origins = append(all, n), append(origins, origin{at, what})
			}
		})
	}
	return nil, len(all)
}

// timesOf are times that keep the promises.
func timesOf(kind storeKind) modelTimes {
	if kind == modelFiles {
		return modelTimes{fresh: 1, limit: 1, grace: 1, wait: 1, end: modelStart + 6}
	}
	return modelTimes{fresh: 1, limit: 1, late: 1, grace: 1, wait: 4, reading: 1, lease: 2, end: modelStart + 10}
}

// withoutAge are the times of a collection with --age 0, in which links have no grace period, and clients are promised nothing.
func (t modelTimes) withoutAge() modelTimes {
	t.grace = -t.limit
	return t
}
