package programtest

import (
	"bytes"
	"sync"
)

// Output is the output of a program so far. It may be read while the program
// runs; its zero value is empty.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to it.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String is all of it.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
