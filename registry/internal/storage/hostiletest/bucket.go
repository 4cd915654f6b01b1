// Package hostiletest is a store for tests that behaves like object stores at their worst: no
// rename, no directories, a clock of whole seconds, opaque versions, and requests that fail
// before or after they took effect, or take effect late.
//
// A Bucket is the service, and a Process is the store that one registry has on it. A
// collection waits as long as on a real bucket: run it in a bubble of testing/synctest.
package hostiletest

import (
	text "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/registry/internal/storage"
	store "slipway/registry/internal/storage/object"
)

// Options describes how hostile a Bucket is. The zero value has conditional requests
// that hold, unique versions and no faults.
type Options struct {
	// ContentVersions makes the version a hash of the content, so that a renewal, or
	// a change and its reversal, don't change it.
	ContentVersions bool
	// NoConditions ignores conditions on all requests. Then there is one process.
	NoConditions bool
	// DeleteIgnoresConditions ignores those on DELETE.
	DeleteIgnoresConditions bool

	// Fault decides what happens to each request, unless it is nil.
	Fault func(r Request) Fault
	// MaxLate is the time after which a request can't take effect any more; 30 ms if 0.
	MaxLate time.Duration
}

// Request describes a request to Options.Fault.
type Request struct {
	Op          string // "GET", "HEAD", "LIST", "PUT", "DELETE"
	Key         string
	Write       bool
	Conditional bool
}

// Fault describes a failure of a request.
type Fault int

// What may happen to a request. For a read, all but None are the same.
const (
	None       Fault = iota
	FailBefore       // an error, and nothing has happened
	FailAfter        // an error after it took effect
	Late             // an error, and it takes effect within MaxLate
	Denied           // refused, however often it is sent
)

// Random returns requests that fail before or after they took effect, with the probability p.
// Which ones depends on the seed and the order of requests only.
func Random(seed uint64, p float64) func(Request) Fault {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	return func(Request) Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Float64() >= p {
			return None
		}
		return Fault(1 + r.IntN(2))
	}
}

// Bucket is the service. All methods are safe for concurrent use.
type Bucket struct {
	o     Options
	spool string // of all processes

	mu      sync.Mutex
	objects map[string]*object
	keys    []string // sorted
	count   uint64
	clock   func() time.Time
	late    int        // requests under way
	arrived *sync.Cond // signaled when late is 0
}

type object struct {
	content  []byte
	writer   string // metadata: the request that wrote it
	modified time.Time
	version  string
}

// trouble is the service's answer to a request that failed.
func trouble(e store.Effect) error {
	return &store.Trouble{Err: errors.New("503 the request failed"), Effect: e}
}

// New returns an empty bucket.
func New(o Options) *Bucket {
	if o.MaxLate == 0 {
		o.MaxLate = 30 * time.Millisecond
	}
	b := &Bucket{o: o, spool: filepath.Join(os.TempDir(), "slipway-hostile-"+text.Text()), objects: map[string]*object{}, clock: time.Now}
	b.arrived = sync.NewCond(&b.mu)
	return b
}

// SetClock replaces the clock of the service.
func (b *Bucket) SetClock(now func() time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = now
}

// SetFault replaces Options.Fault.
func (b *Bucket) SetFault(f func(Request) Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.o.Fault = f
}

// Keys returns the keys in the bucket, including those that no Process lists.
func (b *Bucket) Keys() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.keys)
}

func (b *Bucket) fault(r Request) Fault {
	b.mu.Lock()
	f := b.o.Fault
	b.mu.Unlock()
	if f == nil {
		return None
	}
	return f(r)
}

func (b *Bucket) get(op, key string) (*object, error) {
	if b.fault(Request{Op: op, Key: key}) != None {
		return nil, trouble(store.Refused)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.objects[key]
	if o == nil {
		return nil, storage.ErrNotExist
	}
	return o, nil
}

func (b *Bucket) put(key string, content []byte, writer string, c storage.Condition) error {
	return b.change("PUT", key, c, func(*object) error {
		b.set(key, content, writer)
		return nil
	})
}

// touch renews the object of that version.
func (b *Bucket) touch(key, version string) error {
	return b.change("PUT", key, storage.IfVersion(version), func(old *object) error {
		if old == nil {
			return storage.ErrNotExist
		}
		b.set(key, old.content, old.writer)
		return nil
	})
}

// set needs b.mu.
func (b *Bucket) set(key string, content []byte, writer string) {
	if b.objects[key] == nil {
		i, _ := slices.BinarySearch(b.keys, key)
		b.keys = slices.Insert(b.keys, i, key)
	}
	b.count++
	version := fmt.Sprintf("%016x", b.count*0x9E3779B97F4A7C15) // in no order
	if b.o.ContentVersions {
		version = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	b.objects[key] = &object{content, writer, b.clock().Truncate(time.Second), version}
}

func (b *Bucket) delete(key string, c storage.Condition) error {
	if b.o.DeleteIgnoresConditions {
		c = storage.Condition{}
	}
	return b.change("DELETE", key, c, func(old *object) error {
		if old != nil {
			delete(b.objects, key)
			i, _ := slices.BinarySearch(b.keys, key)
			b.keys = slices.Delete(b.keys, i, i+1)
		}
		return nil
	})
}

// change makes a change, unless a fault stops it.
func (b *Bucket) change(op, key string, c storage.Condition, effect func(old *object) error) error {
	if b.o.NoConditions {
		c = storage.Condition{}
	}
	begun := time.Now()
	attempt := func(late bool) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if late && time.Since(begun) >= b.o.MaxLate {
			return nil // this machine is slower than a service would be
		}
		old := b.objects[key]
		if c.Absent() && old != nil || c.Version() != "" && (old == nil || old.version != c.Version()) {
			return storage.ErrConflict
		}
		return effect(old)
	}
	switch b.fault(Request{op, key, true, c != storage.Condition{}}) {
	case FailBefore:
		return trouble(store.Doubtful)
	case FailAfter:
		_ = attempt(false)
		return trouble(store.Doubtful)
	case Late:
		b.addLate(1)
		go func() {
			defer b.addLate(-1)
			time.Sleep(rand.N(b.o.MaxLate * 3 / 4))
			_ = attempt(true)
		}()
		return trouble(store.Lost)
	case Denied:
		return storage.ErrDenied
	default:
		return attempt(false)
	}
}

func (b *Bucket) addLate(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.late += n; b.late == 0 {
		b.arrived.Broadcast()
	}
}

// awaitLate waits until no late request is under way. Unlike with a sync.WaitGroup, other
// processes may send some meanwhile.
func (b *Bucket) awaitLate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.late > 0 {
		b.arrived.Wait()
	}
}

// page is the number of names that one request lists.
const page = 100

type listed struct {
	key    string
	prefix bool
	*object
}

// list returns the next names behind after, and whether more follow.
func (b *Bucket) list(prefix, after string, flat bool) (names []listed, more bool, err error) {
	if b.fault(Request{Op: "LIST", Key: prefix}) != None {
		return nil, false, trouble(store.Refused)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i, _ := slices.BinarySearch(b.keys, max(prefix, after))
	for i < len(b.keys) && strings.HasPrefix(b.keys[i], prefix) {
		n := listed{key: b.keys[i], object: b.objects[b.keys[i]]}
		name, _, deeper := strings.Cut(n.key[len(prefix):], "/")
		if deeper && !flat {
			n = listed{key: prefix + name + "/", prefix: true}
			i, _ = slices.BinarySearch(b.keys, prefix+name+"0") // '0' follows '/'
		} else {
			i++
		}
		if n.key <= after {
			continue
		}
		if len(names) == page {
			return names, true, nil
		}
		names = append(names, n)
	}
	return names, false, nil
}
