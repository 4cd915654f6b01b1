package auth

import (
	"cmp"
	"slices"
)

// turns is how often a queue takes somebody whose turn it would not be: every eighth time.
const turns = 8

// queue is where comparisons wait. Credentials that were right before come first: nobody
// who guesses has any. Then come those that nothing speaks against, then suspects; but
// every eighth turn begins at the other end, so that nobody waits for ever.
type queue struct {
	known           []*call
	fresh, suspects crowd
	pops            int
}

// length is the number of calls that wait.
func (q *queue) length() int { return len(q.known) + len(q.fresh.calls) + len(q.suspects.calls) }

// push appends a call. More from one address than people send at once are suspects.
func (q *queue) push(k *call) {
	switch {
	case k.known:
		q.known = append(q.known, k)
	case k.suspect || q.fresh.hosts[k.host] >= freeFailures:
		k.suspect = true
		q.suspects.push(k)
	default:
		q.fresh.push(k)
	}
}

// pop takes out the call whose turn it is; nil if none waits. Suspects are passed over
// unless they are allowed.
func (q *queue) pop(suspects bool) *call {
	q.pops++
	order := []func() *call{q.popKnown, q.fresh.pop, func() *call {
		if !suspects {
			return nil
		}
		return q.suspects.pop()
	}}
	if q.pops%turns == 0 {
		slices.Reverse(order)
	}
	for _, pop := range order {
		if k := pop(); k != nil {
			return k
		}
	}
	return nil
}

func (q *queue) popKnown() *call {
	if len(q.known) == 0 {
		return nil
	}
	k := q.known[0]
	q.known = q.known[1:]
	return k
}

// dropOldest takes out a call of those who fill the queue; nil if only known ones wait.
func (q *queue) dropOldest() *call {
	if k := q.suspects.dropOldest(); k != nil {
		return k
	}
	return q.fresh.dropOldest()
}

// crowd is calls of which those go first whose address and name have the fewest there:
// whoever guesses has many of one or of both. Every eighth time it is the newest one, which
// may be somebody who has just arrived where others have guessed for a while, or the oldest.
type crowd struct {
	calls        []*call        // the oldest in front
	hosts, names map[string]int // calls of each; of a name its beginning, as these are hashed often
	pops         int
}

func (c *crowd) push(k *call) {
	if c.hosts == nil {
		c.hosts, c.names = map[string]int{}, map[string]int{}
	}
	c.calls = append(c.calls, k)
	c.hosts[k.host]++
	c.names[brakeName(k.user)]++
}

// pop takes out the call whose turn it is; nil if none waits.
func (c *crowd) pop() *call {
	if len(c.calls) == 0 {
		return nil
	}
	at := 0
	switch c.pops++; c.pops % (2 * turns) {
	case turns:
		at = len(c.calls) - 1
	case 0:
	default:
		at = c.first(func(a, b *call) int { return cmp.Compare(c.beside(a), c.beside(b)) })
	}
	return c.take(at)
}

// dropOldest takes out the call that has waited longest of those with the most beside
// them; nil if none waits.
func (c *crowd) dropOldest() *call {
	if len(c.calls) == 0 {
		return nil
	}
	return c.take(c.first(func(a, b *call) int { return cmp.Compare(c.beside(b), c.beside(a)) }))
}

// beside is how many calls of its address and of its name wait with a call.
func (c *crowd) beside(k *call) int { return c.hosts[k.host] + c.names[brakeName(k.user)] }

// first is the index of the oldest of the calls that no other is less than.
func (c *crowd) first(compare func(a, b *call) int) int {
	return slices.Index(c.calls, slices.MinFunc(c.calls, compare))
}

func (c *crowd) take(at int) *call {
	k := c.calls[at]
	c.calls = slices.Delete(c.calls, at, at+1)
	count := func(of map[string]int, key string) {
		if of[key]--; of[key] == 0 {
			delete(of, key)
		}
	}
	count(c.hosts, k.host)
	count(c.names, brakeName(k.user))
	return k
}
