package collect

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// question is an exploration of the whole protocol.
type question struct {
	model
	bound int // of worlds; an exploration that reaches it has seen the shortest interleavings
}

func (q question) String() string {
	return fmt.Sprintf("%s/%s and %s/%d collectors/backwards %v/leases %v/grace %d", kindNames[q.kind], q.plans[0], q.plans[1], q.collectors, q.backwards, q.leases, q.times.grace)
}

const (
	complete = 12_000_000 // more worlds than one writer and one collector have
	partial  = 1_500_000
)

// questions are about one writer and one collector, which are explored completely. With
// SLIPWAY_SOAK_MODEL each store has all plans and both orders of reading, and the beginnings
// of what two writers or two collectors do are explored, too.
func questions(long bool) (all []question) {
	add := func(kind storeKind, one, two string, collectors int, backwards bool, bound int) {
		all = append(all, question{model{kind: kind, plans: [2]string{one, two}, collectors: collectors, backwards: backwards, times: timesOf(kind)}, bound})
	}
	plans := []string{"push", "head", "mount", "upload", "slow", "index", "signed"}
	for kind := modelFiles; kind <= modelLists; kind++ {
		for i, plan := range plans {
			if kind == modelFiles || plan == "push" || kind == modelLists && plan == "slow" || long {
				add(kind, plan, "none", 1, false, complete)
			}
			if first := plan == "push" || plan == "mount"; kind != modelFiles && (first || long) {
				bound := partial
				if first {
					bound = complete
				}
				add(kind, plan, "none", 1, false, bound)
				q := &all[len(all)-1]
				q.leases, q.renews, q.times.end = true, plan == "push", modelStart+6
				if plan == "push" {
					all = append(all, *q)
					q = &all[len(all)-1]
					q.times = q.times.withoutAge()
				}
			}
			if !long {
				continue
			}
			add(kind, plan, "none", 1, true, complete)
			add(kind, plan, "none", 2, false, partial)
			for _, two := range plans[i:] {
				if kind == modelFiles || plan == "push" {
					add(kind, plan, two, 1, false, partial)
				}
			}
		}
	}
	return all
}

// TestFull_Model_EveryInterleaving explores the whole protocol (see questions). It runs none of the
// collector's code, so no change of that can fail it.
func TestFull_Model_EveryInterleaving(t *testing.T) {
	for _, q := range questions(os.Getenv("SLIPWAY_SOAK_MODEL") != "") {
		t.Run(q.String(), func(t *testing.T) {
			t.Parallel()
			trace, n := q.explore(q.bound)
			switch {
			case trace != nil:
				t.Errorf("after %d worlds:\n%s", n, strings.Join(trace, "\n"))
			case n == q.bound && q.bound == complete:
				t.Error("there are more worlds than the test explores")
			default:
				t.Logf("explored %d worlds", n)
			}
		})
	}
}

// TestFull_Model_EveryStepIsNeeded leaves out a step: then a promise is broken.
func TestFull_Model_EveryStepIsNeeded(t *testing.T) {
	steps := map[storeKind]map[string]string{ // to plans
		modelFiles: {
			"the fence":                                "push",
			"writers renew":                            "push",
			"a renewal never creates":                  "push",
			"deletions are conditional":                "push",
			"what stays keeps what it needs":           "push",
			"manifests go before what they need":       "index",
			"a manifest goes before what refers to it": "signed",
			"dates are compared with the start":        "push",
			"links have a grace period":                "head",
			"a collection waits":                       "head",
			"a client is told in time":                 "head",
			"bytes are dated when they are placed":     "upload",
			"a put over something dates it":            "upload",
		},
		modelVersions: {
			"writers renew":                  "push",
			"a renewal never creates":        "push",
			"deletions are conditional":      "push",
			"what stays keeps what it needs": "push",
			"requests expire":                "push",
			"no request after the limit":     "push",
			"a collection waits":             "push",
		},
		modelLists: {
			"writers renew":                                    "push",
			"writers read the list":                            "push",
			"the second look":                                  "push",
			"the second look waits":                            "push",
			"requests expire":                                  "push",
			"no request after the limit":                       "push",
			"no deletion after the list's end":                 "push",
			"writers believe a list longer than its collector": "push",
			"a list stays while a deletion is unsettled":       "push",
			"fresh things are looked for in the lists":         "slow",
			"the second look waits for early readings":         "push",
		},
	}
	leases := map[storeKind]map[string]string{
		modelVersions: {
			"writers take a lease":                        "push",
			"a collection looks for leases":               "push",
			"what is older than the lease is renewed":     "mount",
			"a collection believes in a lease for longer": "push",
			"an expired lease isn't renewed":              "mount",
			"a lease stays while a request may be late":   "push",
		},
		modelLists: {
			"writers take a lease":                              "push",
			"a collection looks for leases":                     "push",
			"what is older than the lease is renewed":           "mount",
			"a collection believes in a lease for longer":       "push",
			"an expired lease isn't renewed":                    "mount",
			"a lease stays while a request may be late":         "push",
			"lists that were read before the lease don't count": "push",
		},
	}
	breaks(t, steps, false)
	breaks(t, leases, true)
}

// breaks leaves out each step, and fails the test unless a promise is broken.
func breaks(t *testing.T, steps map[storeKind]map[string]string, leases bool) {
	for kind, omissions := range steps {
		for what, plan := range omissions {
			t.Run(kindNames[kind]+": "+what, func(t *testing.T) {
				t.Parallel()
				m := model{kind: kind, plans: [2]string{plan, "none"}, collectors: 1, leases: leases, omit: what, times: timesOf(kind)}
				if leases {
					m.times.end = modelStart + 6
				}
				switch what {
				case "a collection waits":
					m.times.wait = 0
				case "a lease stays while a request may be late":
					m.renews, m.times = true, m.times.withoutAge()
				}
				if trace, _ := m.explore(complete); trace == nil {
					t.Error("nothing is broken without it")
				}
			})
		}
	}
}
