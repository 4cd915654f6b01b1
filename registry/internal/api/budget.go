package api

import "slipway/registry/internal/clientaddr"

const (
	// smallBody is the size up to which a body isn't counted.
	smallBody = 128 << 10

	answerMemory = 64 << 20 // bytes of large answers at the same time
	answerShare  = 16 << 20 // of one client
	bodyMemory   = 32 << 20 // bytes of large manifests being pushed at the same time
	bodyShare    = 8 << 20  // of one client
)

// client is whose share a request takes: its user's or, without one, its network's.
func (r *request) client() string {
	if r.user != "" {
		return "user " + r.user
	}
	return clientaddr.Network(r.RemoteAddr)
}

// room waits for memory for an answer of about size bytes. The caller holds nothing large
// meanwhile. UNAVAILABLE.
func (a *API) room(r *request, size int64) (release func(), err error) {
	if size <= smallBody {
		return func() {}, nil
	}
	return a.answers.Acquire(r.Context(), r.client(), size)
}

// roomForList is room for a JSON list of strings.
func (a *API) roomForList(r *request, list []string) (release func(), err error) {
	size := 0
	for _, s := range list {
		size += len(s) + 3
	}
	return a.room(r, int64(size))
}
