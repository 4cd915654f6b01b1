package collect

import (
	"fmt"
	"slices"
	"strings"
)

// The protocol in small. There is one blob: its bytes, and a link to them in each of the
// repositories a and b. An untagged manifest in a, the child, needs link a; in some plans it has a signature,
// of which it is the subject. Two writers push: an image in a or b, or an index of the child. Two collectors may run, by mistake at the same
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
	signature
	things
)

var thingNames = [things]string{"bytes", "link-a", "link-b", "child", "image-a", "image-b", "index", "signature"}

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
	"signed": "begin, rely child, put index", // which finds the child's signature, if it finds the child
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

// modelRequest is on its way; nobody waits for its answer.
type modelRequest struct {
	put, renew, del bool
	what            thing
	version, until  int8
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
	if m.signed() {
		w.stamp[signature] = 1
	}
	if m.signed() || slices.Contains(m.plans[:], "index") {
		w.stamp[child] = 1
	}
	return w
}

func (m *model) signed() bool { return slices.Contains(m.plans[:], "signed") }

func (w *world) has(t thing) bool { return w.stamp[t] > 0 }

// check looks for a manifest that lacks something.
func (w *world) check(signed bool) string {
	if signed && w.has(index) && !w.has(signature) {
		return "a signature is gone whose subject is in use"
	}
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
			why = w.check(m.signed())
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
