package collect

import (
	"strings"
)

// The collection of garbage as a model, small enough to try every interleaving
// of its steps (model_explore_test.go). Nothing in it calls the code of this
// package.
//
// # The world
//
// One blob: its data, and a link to it in each of two repositories, a and b. In
// a there may be a manifest without a tag, the child, which needs link a and the
// data: an old one, or one that a writer pushes by its digest. Two writers, each a client and its server, follow one of the
// plans below. Two collectors do one run each. Users delete what was pushed.
//
// A step is at most one change of the storage. After each of them anybody else
// may go on, or somebody may die. On files whatever a process holds vanishes when
// it dies, and a power loss kills everybody and may undo deletions. With leases
// (object stores) a section or a lock ends δ after its deadline, whether or not
// its holder lives, and a request without an answer may take effect until then.
//
// # The promises
//
//  1. A manifest that is in place has all that it needs.
//  2. What was confirmed to a client less than a grace period ago is there when it
//     pushes the manifest that needs it. (A power loss ends that.)
//  3. A run on a quiet storage frees all that nothing needs and that was confirmed
//     to nobody. Run as a command, it also frees what was confirmed to clients that
//     used it in a manifest that is deleted by now.
//
// # The protocol
//
// A writer that relies on something opens a section and then reads the list of
// what is about to be deleted. If what it needs or puts is listed, it ends the
// section and begins it again later. Before it puts a link it leaves a mark for
// the run that is under way.
//
// A collector publishes its run, waits for all open sections, and marks: that
// may be wrong in any way about what nothing needs. Then for the links, and later for
// the data: it publishes the list, waits for all sections that were open then,
// confirms that nothing needs what is listed, deletes, and withdraws the list. It
// may stop waiting at any time and leave everything as it is.
//
// A run that is alone on the storage publishes itself before the first writer opens a
// section. So the ways that it may go are among those here in which it waits for nobody
// and deletes before any writer begins.
//
// Each omission below leaves out one step, and breaks a promise.

// things is a set of what there is on the storage.
type things uint8

const (
	linkA things = 1 << iota // repository a links the blob
	linkB                    // repository b links it
	data                     // the bytes of the blob
	child                    // a manifest without a tag in a
	made0                    // what writer 0 pushes: an image, an index, or a tag of the child
	made1                    // what writer 1 pushes

	links   = linkA | linkB
	aged    = links | child // what has an age
	ofChild = linkA | data  // what the child needs
)

func made(i int) things { return made0 << i }

func (t things) String() string {
	var names []string
	for i, name := range []string{"link a", "link b", "data", "child", "push 0", "push 1"} {
		if t>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// world is all there is at one moment. It is compared by value.
type world struct {
	there     things
	young     things    // renewed less than a grace period ago
	used      [2]bool   // what writer i pushed was deleted
	renewed   [2]things // since writer i pushed
	undurable things    // deleted; a power loss may bring it back

	holder uint8 // of the collector's lock: 1 + its number
	run    uint8 // published: the run under way, 1 + its number
	list   things
	marked uint8 // runs for which a writer has left a mark

	broken     bool // the second promise
	powerLost  bool
	faults     uint8 // that have happened: deaths, slowness, requests without an answer
	writers    [2]writer
	collectors [2]collector
}

// writer is a client and the server that it talks to.
type writer struct {
	plan, pc  uint8
	open      bool   // its section
	run       uint8  // that the section has read
	expired   bool   // deadline + δ of the section has passed
	renewed   bool   // what it is about to tell
	overtaken bool   // that was used and released meanwhile
	told      bool   // less than a grace period ago
	lease     bool   // a lease with a request under way outlives its section
	late      things // what that request puts
}

// collector is one run.
type collector struct {
	pc      collectorStep
	half    bool   // of a look has been read
	child   bool   // was there at the first look; only where lateGoes asks
	batch   things // what is listed
	going   things // garbage, for all that is known
	needed  things // of what was read
	waitFor [2]sections
	lost    bool // its lock, and it has not noticed
	died    bool
	late    request
}

// sections of a writer that a barrier waits for.
type sections struct{ open, lease bool }

// request of a collector that may take effect yet.
type request struct {
	kind requestKind
	what things
}

type requestKind uint8

const (
	none requestKind = iota
	deletion
	publication
)

// omission is a sentence about a step that is left out.
type omission string

// model says who does what under which circumstances.
type model struct {
	without omission
	leases  bool  // an object store; else files
	power   bool  // may be lost
	second  bool  // run
	faults  uint8 // at most
	mode    mode
	plans   [2]uint8
}

// mode is how a run treats what was confirmed to clients.
type mode uint8

const (
	schedule mode = iota // all of it stays for the grace period
	command              // what was used by a deleted manifest goes
	ageless              // --age 0: the second promise is not given
)
