package auth

import "slices"

// queue is where comparisons wait. Credentials that were right before come first: nobody
// who guesses has any. Then come those that nothing speaks against, then suspects; but
// every eighth turn begins at the other end, so that nobody waits for ever.
type queue struct {
	known           []*call
	fresh, suspects roundRobin
	pops            int
}

// length is the number of calls that wait.
func (q *queue) length() int { return len(q.known) + q.fresh.length + q.suspects.length }

// push appends a call. More from one address than people send at once are suspects.
func (q *queue) push(k *call) {
	switch {
	case k.known:
		q.known = append(q.known, k)
	case k.suspect || q.fresh.of(k.host) >= freeFailures:
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
	if q.pops%8 == 0 {
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

// roundRobin lets addresses take turns, and the names that come from one address. Every
// fourth turn of an address is the newest name's, and every fourth of a name the newest
// call's: that may be somebody who has just arrived where others have guessed for a while.
type roundRobin struct {
	hosts  []*hostQueue // the next one in front
	length int
}

type hostQueue struct {
	host   string
	names  []*nameQueue // the next one in front
	pops   int
	length int
}

type nameQueue struct {
	name  string
	calls []*call // the oldest in front
	pops  int
}

// of is how many calls of the address wait.
func (l *roundRobin) of(host string) int {
	if i := l.index(host); i >= 0 {
		return l.hosts[i].length
	}
	return 0
}

func (l *roundRobin) index(host string) int {
	return slices.IndexFunc(l.hosts, func(h *hostQueue) bool { return h.host == host })
}

func (l *roundRobin) push(k *call) {
	l.length++
	i := l.index(k.host)
	if i < 0 {
		i = len(l.hosts)
		l.hosts = append(l.hosts, &hostQueue{host: k.host})
	}
	h := l.hosts[i]
	h.length++
	j := slices.IndexFunc(h.names, func(n *nameQueue) bool { return n.name == k.user })
	if j < 0 {
		j = len(h.names)
		h.names = append(h.names, &nameQueue{name: k.user})
	}
	h.names[j].calls = append(h.names[j].calls, k)
}

// pop takes out the call whose turn it is; nil if none waits.
func (l *roundRobin) pop() *call {
	if len(l.hosts) == 0 {
		return nil
	}
	h := l.hosts[0]
	name := newestOrNext(&h.pops, len(h.names))
	n := h.names[name]
	k := l.take(0, name, newestOrNext(&n.pops, len(n.calls)))
	if h.length > 0 { // to the end, its name too
		l.hosts = append(l.hosts[1:], h)
	}
	return k
}

// newestOrNext is an index of a list whose newest element is the last one.
func newestOrNext(pops *int, length int) int {
	if *pops++; *pops%4 == 0 {
		return length - 1
	}
	return 0
}

// dropOldest takes out the call that has waited longest of the name with most calls
// of the address with most; nil if none waits.
func (l *roundRobin) dropOldest() *call {
	if len(l.hosts) == 0 {
		return nil
	}
	i := longest(l.hosts, func(h *hostQueue) int { return h.length })
	return l.take(i, longest(l.hosts[i].names, func(n *nameQueue) int { return len(n.calls) }), 0)
}

// take takes out a call of a name, which goes to the end.
func (l *roundRobin) take(host, name, at int) *call {
	h := l.hosts[host]
	n := h.names[name]
	k := n.calls[at]
	n.calls = slices.Delete(n.calls, at, at+1)
	h.names = slices.Delete(h.names, name, name+1)
	if len(n.calls) > 0 {
		h.names = append(h.names, n)
	}
	l.length--
	if h.length--; h.length == 0 {
		l.hosts = slices.Delete(l.hosts, host, host+1)
	}
	return k
}

func longest[T any](list []T, length func(T) int) (at int) {
	for i, x := range list {
		if length(x) > length(list[at]) {
			at = i
		}
	}
	return at
}
