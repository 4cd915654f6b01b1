package auth

import "slices"

// queue is where comparisons wait. Addresses take turns, and so do the names that
// come from one address, so whoever guesses is in nobody else's way. Credentials that
// were right before come first: nobody who guesses has any.
type queue struct {
	first  []*call
	hosts  []*hostQueue // the next one in front
	length int
}

type hostQueue struct {
	host   string
	names  []*nameQueue // the next one in front
	length int
}

type nameQueue struct {
	name  string
	calls []*call
}

// push appends a call.
func (q *queue) push(k *call) {
	q.length++
	if k.known {
		q.first = append(q.first, k)
		return
	}
	i := slices.IndexFunc(q.hosts, func(h *hostQueue) bool { return h.host == k.host })
	if i < 0 {
		i = len(q.hosts)
		q.hosts = append(q.hosts, &hostQueue{host: k.host})
	}
	h := q.hosts[i]
	h.length++
	j := slices.IndexFunc(h.names, func(n *nameQueue) bool { return n.name == k.user })
	if j < 0 {
		j = len(h.names)
		h.names = append(h.names, &nameQueue{name: k.user})
	}
	h.names[j].calls = append(h.names[j].calls, k)
}

// pop takes out the call whose turn it is; nil if none waits.
func (q *queue) pop() *call {
	if len(q.first) > 0 {
		k := q.first[0]
		q.first = q.first[1:]
		q.length--
		return k
	}
	if len(q.hosts) == 0 {
		return nil
	}
	h := q.hosts[0]
	k := q.take(0, 0)
	if h.length > 0 { // to the end, its name too
		q.hosts = append(q.hosts[1:], h)
	}
	return k
}

// dropOldest takes out the call that has waited longest of the name with most calls
// of the address with most; nil if only known ones wait.
func (q *queue) dropOldest() *call {
	if len(q.hosts) == 0 {
		return nil
	}
	i := longest(q.hosts, func(h *hostQueue) int { return h.length })
	return q.take(i, longest(q.hosts[i].names, func(n *nameQueue) int { return len(n.calls) }))
}

// take takes out the first call of a name, which goes to the end.
func (q *queue) take(host, name int) *call {
	h := q.hosts[host]
	n := h.names[name]
	k := n.calls[0]
	n.calls = n.calls[1:]
	h.names = slices.Delete(h.names, name, name+1)
	if len(n.calls) > 0 {
		h.names = append(h.names, n)
	}
	q.length--
	if h.length--; h.length == 0 {
		q.hosts = slices.Delete(q.hosts, host, host+1)
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
