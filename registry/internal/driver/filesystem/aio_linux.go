package filesystem

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A flush keeps a thread waiting for as long as the disk needs, and what the Go
// runtime does about threads that wait in the kernel costs more than the flush.
// Linux's AIO (io_submit(2)) takes any number of flushes in one call, runs them
// beside each other, so that the disk can flush once for all of them, and tells
// by an eventfd when they are done, which the runtime waits for as for a
// connection. Each flush has its own result, the very one of fsync. Where there is
// no AIO (some sandboxes, or fs.aio-max-nr is used up) the calls are made one by
// one.

// aioDepth is how many flushes the kernel holds at the same time.
const aioDepth = 256

// What an iocb asks for, and that the eventfd is to be told.
const (
	iocbFsync     = 2
	iocbFdatasync = 3
	iocbTellEvent = 1
)

// iocb is struct iocb of <linux/aio_abi.h>. The two fields whose order depends
// on that of bytes are one here, and 0.
type iocb struct {
	data    uint64
	_       uint64 // key and flags
	opcode  uint16
	_       int16 // priority
	fd      uint32
	_       [4]uint64 // buffer, size, offset, reserved
	flags   uint32
	eventFD uint32
}

// ioEvent is struct io_event.
type ioEvent struct {
	data, obj uint64
	res, res2 int64
}

// aio flushes in the kernel.
type aio struct {
	ctx     uintptr
	event   *os.File
	eventFD uint32
	ended   chan struct{} // closed when nobody reaps any more

	mu      sync.Mutex
	last    uint64
	pending map[uint64]*flush // by iocb.data
}

// startAIO is nil where the kernel has no AIO to give.
func startAIO() *aio {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil
	}
	a := &aio{event: os.NewFile(uintptr(fd), "eventfd"), eventFD: uint32(fd), ended: make(chan struct{}), pending: map[uint64]*flush{}}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, aioDepth, uintptr(unsafe.Pointer(&a.ctx)), 0); errno != 0 {
		a.event.Close()
		return nil
	}
	go a.reap()
	return a
}

// stop must not be called while something is flushed.
func (a *aio) stop() {
	if a == nil {
		return
	}
	a.event.Close()
	<-a.ended
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, a.ctx, 0, 0) // nothing is under way
}

// flush returns when all are flushed, or cannot be. What the kernel does not take
// is flushed one by one.
func (a *aio) flush(all []flush) {
	b := newBatch(len(all))
	calls := a.prepare(all, b)
	taken := a.submit(calls)
	for i := taken; i < len(all); i++ {
		a.take(calls[i].data)
		all[i].err = all[i].now()
		b.finish()
	}
	<-b.done
}

func (a *aio) prepare(all []flush, b *batch) []iocb {
	calls := make([]iocb, len(all))
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range all {
		f := &all[i]
		f.batch = b
		a.last++
		a.pending[a.last] = f
		calls[i] = iocb{data: a.last, opcode: iocbFdatasync, fd: uint32(f.fd), flags: iocbTellEvent, eventFD: a.eventFD}
		if f.dir {
			calls[i].opcode = iocbFsync
		}
	}
	return calls
}

// submit returns how many of the calls the kernel has taken, the first ones.
func (a *aio) submit(calls []iocb) (taken int) {
	list := make([]*iocb, len(calls))
	for i := range calls {
		list[i] = &calls[i]
	}
	for taken < len(list) {
		n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, a.ctx, uintptr(len(list)-taken), uintptr(unsafe.Pointer(&list[taken])))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			break
		}
		taken += int(n)
	}
	runtime.KeepAlive(calls)
	return taken
}

// take returns the flush of a call that has ended, and forgets it.
func (a *aio) take(data uint64) *flush {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.pending[data]
	delete(a.pending, data)
	return f
}

// reap tells those who wait what is done, until stop.
func (a *aio) reap() {
	defer close(a.ended)
	var count [8]byte
	events := make([]ioEvent, 64)
	for {
		if _, err := a.event.Read(count[:]); err != nil {
			return
		}
		for left := binary.NativeEndian.Uint64(count[:]); left > 0; {
			done := a.events(events)
			if len(done) == 0 {
				break // seen before their count was
			}
			for _, e := range done {
				a.finish(e)
			}
			left -= min(left, uint64(len(done)))
		}
	}
}

// events returns what has ended by now, in the space given.
func (a *aio) events(space []ioEvent) []ioEvent {
	var now unix.Timespec
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, a.ctx, 1, uintptr(len(space)),
			uintptr(unsafe.Pointer(&space[0])), uintptr(unsafe.Pointer(&now)), 0)
		if errno == 0 {
			return space[:n]
		}
		if errno != unix.EINTR {
			return nil
		}
	}
}

func (a *aio) finish(e ioEvent) {
	f := a.take(e.data)
	if f == nil {
		return
	}
	if e.res < 0 {
		f.err = unix.Errno(-e.res)
	}
	f.batch.finish()
}
