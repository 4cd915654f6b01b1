package collect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The protocol between a collector and writers, small enough to try every
// interleaving of their steps, with a crash of anybody after any of them. Each
// step is one operation on the storage, as the code does it.
//
// A repository knows an index X of a manifest C of a blob: its link L and its
// bytes D. C and the blob are garbage at first: old, without tag. Of two
// writers one pushes X, or uploads the blob anew and pushes C; the other asks
// with HEAD for C or for the blob. The collector runs twice.

type object int

const (
	indexX object = iota
	manifestC
	linkL
	bytesD
	tagOfC
	objects
)

type where byte

const (
	nowhere where = iota
	inPlace
	isAside
)

// state is all there is at one moment. It is compared by value.
type state struct {
	at      [objects]where
	young   [objects]bool // touched or written in this model's time
	writers [2]writer
	c       collectorState
	trace   *history // how it came about; not compared
}

// history is the last step that led to a state.
type history struct {
	before *history
	who    string
	pc     int
}

func (h *history) String() string {
	if h == nil {
		return ""
	}
	return fmt.Sprintf("%v %s.%d", h.before, h.who, h.pc)
}

var writerNames = [2]string{"w0", "w1"}

type writer struct {
	pc        int8
	inSection bool
	ended     bool
	told      bool // the client was told that what it asked for is there
	acked     bool // the client's manifest was acknowledged
	refused   bool
}

type collectorState struct {
	pc       int8
	runs     int8
	crashed  bool
	sawX     bool
	sawC     bool
	needBlob bool
	waitFor  [2]bool // sections that the barrier waits for
	seen     bool    // the object at hand was in place when it was decided on
	wasYoung bool
}

// mutant is what is wrong with the protocol.
type mutant struct {
	noBarrier, noConfirm, noLookAgain, noRecovery, tagsOnce, noSecondStat, shallowRestore, restoreOrder, sectionEndsEarly, noSection bool
}

// model is one question: who does what, and what must hold.
type model struct {
	mutant
	age     bool // promises count
	writers [2][]step
}

// step does one operation as writer w. It returns the next pc, or wait.
type step func(m *model, s *state, w *writer) int

const (
	next = -1 // the step behind this one
	end  = -2
	wait = -3 // not now
	deny = -4 // the client is told that something is missing
)

// ensure finds an object, or moves it back.
func ensure(o object) step {
	return func(_ *model, s *state, w *writer) int {
		switch s.at[o] {
		case inPlace:
			return next
		case isAside:
			s.at[o] = inPlace
			return next
		}
		return deny
	}
}

func enter(m *model, _ *state, w *writer) int { w.inSection = !m.noSection; return next }
func leave(_ *model, _ *state, w *writer) int { w.inSection = false; return next }
func ack(_ *model, _ *state, w *writer) int   { w.acked, w.told = true, false; return end }
func tell(_ *model, _ *state, w *writer) int  { w.told = true; return next }

func put(o object) step {
	return func(_ *model, s *state, _ *writer) int {
		s.at[o], s.young[o] = inPlace, true
		return next
	}
}

// childOrRestore is how a push of X looks at C: in its place it is whole; aside,
// all that it needs is moved back first.
func childOrRestore(jumpTo int) step {
	return func(m *model, s *state, w *writer) int {
		switch s.at[manifestC] {
		case inPlace:
			return jumpTo
		case nowhere:
			return deny
		}
		if m.shallowRestore {
			s.at[manifestC] = inPlace
			return jumpTo
		}
		return next
	}
}

// touch is how a promise is renewed: by path, and with a look whether it was not
// just being moved. The time may be set after the move though the path was found
// before: found and set are two steps.
func found(o object) step {
	return func(_ *model, s *state, w *writer) int {
		if s.at[o] == inPlace {
			return next
		}
		return deny // the caller's table goes to the restoring branch instead
	}
}

func setTime(o object) step {
	return func(_ *model, s *state, _ *writer) int {
		if s.at[o] != nowhere {
			s.young[o] = true
		}
		return next
	}
}

// orElse goes to pc instead of denying.
func orElse(st step, pc int) step {
	return func(m *model, s *state, w *writer) int {
		if to := st(m, s, w); to != deny {
			return to
		}
		return pc
	}
}

func goTo(pc int) step { return func(*model, *state, *writer) int { return pc } }

func unless(cond func(m *model) bool, st step) step {
	return func(m *model, s *state, w *writer) int {
		if cond(m) {
			return next
		}
		return st(m, s, w)
	}
}

// pushX: PUT of the index.
func pushX() []step {
	return []step{
		0: enter,
		1: childOrRestore(5),
		2: ensure(linkL),
		3: ensure(bytesD),
		4: ensure(manifestC),
		5: func(m *model, _ *state, w *writer) int {
			if m.sectionEndsEarly {
				w.inSection = false
			}
			return next
		},
		6: put(indexX),
		7: leave,
		8: ack,
	}
}

// uploadAndPushC: an upload of the blob, and PUT of C by a tag.
func uploadAndPushC() []step {
	return []step{
		0: enter,
		1: put(bytesD),
		2: put(linkL),
		3: leave,
		4: tell,
		5: enter,
		6: ensure(linkL),
		7: ensure(bytesD),
		8: func(m *model, _ *state, w *writer) int {
			if m.sectionEndsEarly {
				w.inSection = false
			}
			return next
		},
		9:  put(manifestC),
		10: put(tagOfC),
		11: leave,
		12: ack,
	}
}

// askForC: HEAD of the manifest by digest.
func askForC() []step {
	again := func(m *model) bool { return m.noSecondStat }
	return []step{
		0: orElse(found(manifestC), 4),
		1: setTime(manifestC),
		2: unless(again, orElse(found(manifestC), 4)),
		3: goTo(13),
		4: enter,
		5: func(m *model, s *state, w *writer) int {
			switch {
			case s.at[manifestC] == inPlace:
				return 9
			case s.at[manifestC] == nowhere:
				return deny
			case m.restoreOrder:
				s.at[manifestC] = inPlace
			}
			return next
		},
		6:  ensure(linkL),
		7:  ensure(bytesD),
		8:  ensure(manifestC),
		9:  leave,
		10: orElse(found(manifestC), 4),
		11: setTime(manifestC),
		12: unless(again, orElse(found(manifestC), 4)),
		13: tell,
		14: goTo(end),
	}
}

// askForBlob: HEAD of the blob.
func askForBlob() []step {
	again := func(m *model) bool { return m.noSecondStat }
	return []step{
		0: orElse(found(linkL), 4),
		1: setTime(linkL),
		2: unless(again, orElse(found(linkL), 4)),
		3: goTo(6),
		4: ensure(linkL),
		5: goTo(0),
		6: ensure(bytesD),
		7: tell,
		8: goTo(end),
	}
}

// firstStep is the collector's pc at the begin of a run.
const firstStep = -2

// advance does writer i's next step; ok is false if it has none now.
func (m *model) advance(s state, i int) (state, bool) {
	w := &s.writers[i]
	if w.ended {
		return s, false
	}
	at := w.pc
	switch to := m.writers[i][at](m, &s, w); to {
	case wait:
		return s, false
	case next:
		w.pc++
	case end:
		w.ended, w.inSection = true, false
	case deny:
		w.ended, w.inSection, w.refused = true, false, true
	default:
		w.pc = int8(to)
	}
	if int(w.pc) >= len(m.writers[i]) {
		w.ended, w.inSection = true, false
	}
	s.trace = &history{s.trace, writerNames[i], int(at)}
	return s, true
}

// collect does the collector's next step. Its look at several objects is several
// steps.
func (m *model) collect(s state) (state, bool) {
	c := &s.c
	if c.runs == 2 {
		return s, false
	}
	counts := func(o object) bool { return m.age && s.young[o] }
	aside := func(o object) {
		if s.at[o] == inPlace {
			s.at[o] = isAside
		}
	}
	lookAgain := func(o object) {
		if !m.noLookAgain && s.at[o] == isAside && s.young[o] && !c.wasYoung {
			s.at[o] = inPlace
		}
	}
	purge := func(o object) {
		if s.at[o] == isAside {
			s.at[o] = nowhere
		}
	}
	at := c.pc
	c.pc++
	switch at {
	case -2:
		if !m.noRecovery && counts(manifestC) && s.at[manifestC] == isAside {
			s.at[manifestC] = inPlace
		}
	case -1:
		if !m.noRecovery && counts(linkL) && s.at[linkL] == isAside {
			s.at[linkL] = inPlace
		}
	case 0:
		c.sawX = s.at[indexX] == inPlace
	case 1:
		c.sawC = s.at[manifestC] == inPlace && (c.sawX || counts(manifestC) || s.at[tagOfC] == inPlace)
		c.needBlob = c.sawC
		c.seen, c.wasYoung = s.at[manifestC] == inPlace, s.young[manifestC]
	case 2:
		if c.seen && !c.sawC {
			aside(manifestC)
		}
	case 3:
		if c.seen && !c.sawC {
			lookAgain(manifestC)
		}
	case 4:
		c.needBlob = c.needBlob || counts(linkL) && s.at[linkL] == inPlace
		c.seen, c.wasYoung = s.at[linkL] == inPlace, s.young[linkL]
	case 5:
		if c.seen && !c.needBlob {
			aside(linkL)
		}
	case 6:
		if c.seen && !c.needBlob {
			lookAgain(linkL)
		}
	case 7:
		if !c.needBlob {
			aside(bytesD)
		}
		if m.noConfirm {
			c.pc = 15
		}
	case 8: // the barrier
		for i := range s.writers {
			c.waitFor[i] = s.writers[i].inSection
		}
	case 9:
		for i := range s.writers {
			c.waitFor[i] = c.waitFor[i] && s.writers[i].inSection
		}
		if c.waitFor != [2]bool{} && !m.noBarrier {
			return s, false
		}
		c.waitFor = [2]bool{}
	case 10:
		c.sawX = s.at[indexX] == inPlace
		c.sawC, c.needBlob = false, false
	case 11:
		c.sawC = s.at[manifestC] == inPlace || s.at[manifestC] == isAside && (c.sawX || s.at[tagOfC] == inPlace && !m.tagsOnce)
		c.needBlob = c.sawC
	case 12:
		if c.sawC && s.at[linkL] == isAside {
			s.at[linkL] = inPlace
		}
	case 13:
		c.needBlob = c.needBlob || s.at[linkL] == inPlace
	case 14:
		if c.sawC && s.at[manifestC] == isAside {
			s.at[manifestC] = inPlace
		}
	case 15:
		purge(manifestC)
	case 16:
		purge(linkL)
	case 17:
		if c.needBlob && !m.noConfirm {
			if s.at[bytesD] == isAside {
				s.at[bytesD] = inPlace
			}
		} else {
			purge(bytesD)
		}
		*c = collectorState{pc: firstStep, runs: c.runs + 1, crashed: c.crashed}
	}
	s.trace = &history{s.trace, "c", int(at)}
	return s, true
}

// wrong says which promise the state breaks.
func (m *model) wrong(s *state, pushesC bool) string {
	gone := func(os ...object) bool {
		return slices.ContainsFunc(os, func(o object) bool { return s.at[o] == nowhere })
	}
	for i, w := range s.writers {
		switch {
		case w.acked && gone(manifestC, linkL, bytesD):
			return fmt.Sprintf("writer %d's manifest was acknowledged and lacks something", i)
		case m.age && w.refused && i == 0 && pushesC:
			return "a push was refused after its upload was acknowledged"
		case m.age && w.told && !w.acked && gone(linkL, bytesD):
			return fmt.Sprintf("writer %d was told that it is there", i)
		}
	}
	return ""
}

// explore tries everything. It returns how many states there are and the first
// wrong one's history.
func (m *model) explore(start state, pushesC bool) (states int, wrong string) {
	seen := map[state]bool{}
	todo := []state{start}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		bare := s
		bare.trace = nil
		if seen[bare] {
			continue
		}
		seen[bare] = true
		if what := m.wrong(&s, pushesC); what != "" {
			return len(seen), what + ":" + s.trace.String()
		}
		for i := range s.writers {
			if n, ok := m.advance(s, i); ok {
				todo = append(todo, n)
			}
			if w := s.writers[i]; !w.ended {
				dead := s
				dead.writers[i] = writer{ended: true} // its client was told nothing that counts
				dead.trace = &history{s.trace, writerNames[i] + " dies at ", int(w.pc)}
				todo = append(todo, dead)
			}
		}
		if n, ok := m.collect(s); ok {
			todo = append(todo, n)
		}
		if !s.c.crashed && s.c.pc > firstStep {
			dead := s
			dead.c = collectorState{pc: firstStep, runs: s.c.runs, crashed: true}
			dead.trace = &history{s.trace, "c dies at ", int(s.c.pc)}
			todo = append(todo, dead)
		}
	}
	return len(seen), ""
}

type scenario struct {
	name    string
	writers [2][]step
	pushesC bool
}

func scenarios() []scenario {
	return []scenario{
		{"an index is pushed while its manifest is asked for", [2][]step{pushX(), askForC()}, false},
		{"a blob is uploaded and used while it is asked for", [2][]step{uploadAndPushC(), askForBlob()}, true},
		{"a blob is uploaded twice", [2][]step{uploadAndPushC(), uploadAndPushC()}, true},
		{"an index and its manifest are pushed", [2][]step{uploadAndPushC(), pushX()}, true},
	}
}

func starts() map[string]state {
	c := collectorState{pc: firstStep}
	garbage := state{c: c, at: [objects]where{nowhere, inPlace, inPlace, inPlace}}
	nothing := state{c: c}
	leftover := state{c: c, at: [objects]where{nowhere, isAside, isAside, isAside}}
	return map[string]state{"garbage": garbage, "nothing": nothing, "left aside": leftover}
}

// firstWrong explores all scenarios.
func firstWrong(mu mutant) (states int, wrong string) {
	for _, sc := range scenarios() {
		for name, start := range starts() {
			for _, age := range []bool{true, false} {
				m := &model{mutant: mu, age: age, writers: sc.writers}
				n, what := m.explore(start, sc.pushesC)
				states += n
				if what != "" {
					return states, fmt.Sprintf("%s, from %s, promises count = %v: %s", sc.name, name, age, what)
				}
			}
		}
	}
	return states, ""
}

func TestEveryInterleaving(t *testing.T) {
	states, wrong := firstWrong(mutant{})
	if wrong != "" {
		t.Fatal(wrong)
	}
	t.Logf("%d states", states)
	if states < 50_000 {
		t.Errorf("only %d states: the model proves little", states)
	}
}

// A protocol with a step left out is found wrong.
func TestModelFindsWhatIsWrong(t *testing.T) {
	for name, mu := range map[string]mutant{
		"no barrier":                          {noBarrier: true},
		"no second look":                      {noConfirm: true},
		"no look at what was set aside":       {noLookAgain: true},
		"nothing recovered after a crash":     {noRecovery: true},
		"tags read in the first look only":    {tagsOnce: true},
		"no look after a touch":               {noSecondStat: true},
		"a manifest without what it needs":    {shallowRestore: true},
		"a manifest before what it needs":     {restoreOrder: true},
		"a section that ends before the push": {sectionEndsEarly: true},
		"no sections":                         {noSection: true},
	} {
		_, wrong := firstWrong(mu)
		if wrong == "" {
			t.Errorf("%s: the model finds nothing wrong", name)
		} else {
			t.Logf("%s: %s", name, strings.Join(strings.Fields(wrong), " "))
		}
	}
}
