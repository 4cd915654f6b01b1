package cache

import "context"

// Shared is a cache that several processes use. It may lose anything at any time, and
// what it returns is no more than a hint: anybody may have written it.
type Shared interface {
	// Get returns what was put under key, bounded in size and time.
	Get(ctx context.Context, key string) (content []byte, ok bool)
	// Put keeps content, which nobody changes. It does not wait.
	Put(key string, content []byte)
}

// Unshared is the cache of a process that shares none.
type Unshared struct{}

// Get implements Shared.
func (Unshared) Get(context.Context, string) ([]byte, bool) { return nil, false }

// Put implements Shared.
func (Unshared) Put(string, []byte) {}
