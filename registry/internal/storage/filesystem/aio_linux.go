package filesystem

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A flush keeps a thread waiting for as long as the disk needs, and what the Go
// runtime does about threads that wait in the kernel costs more than the flush.
// Linux's AIO (io_submit(2)) takes any number of flushes in one call, runs them
// beside each other, so that the disk can flush once for all of them, and tells
// by an eventfd when one is done, which the runtime waits for as for a
// connection. Each flush has its own result, the very one of fsync. Where there is
// no AIO (some sandboxes, or fs.aio-max-nr is used up) the calls are made one by
// one.

// aioDepth is how many flushes the kernel takes at once; more go in turns.
const aioDepth = 256

// What an iocb asks for, and that its end is written to the eventfd.
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
	data, _ uint64
	res, _  int64
}

// aio flushes in the kernel. One goroutine uses it.
type aio struct {
	ctx     uintptr
	broken  bool // results do not come
	event   *os.File
	eventFD uint32
	calls   [aioDepth]iocb
	list    [aioDepth]*iocb
	events  [aioDepth]ioEvent
}

// startAIO is nil where the kernel has no AIO to give.
func startAIO() *aio {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil
	}
	a := &aio{event: os.NewFile(uintptr(fd), "eventfd"), eventFD: uint32(fd)}
	for i := range a.calls {
		a.list[i] = &a.calls[i]
	}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, aioDepth, uintptr(unsafe.Pointer(&a.ctx)), 0); errno != 0 {
		a.event.Close()
		return nil
	}
	return a
}

func (a *aio) stop() {
	if a == nil {
		return
	}
	a.event.Close()
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, a.ctx, 0, 0) // nothing is under way
}

// flush returns when all are flushed, or cannot be.
func (a *aio) flush(all []*flush) {
	for len(all) > 0 && !a.broken {
		n := min(len(all), aioDepth)
		a.turn(all[:n])
		all = all[n:]
	}
	for i := range all {
		all[i].err = all[i].now()
	}
}

// turn is flush for no more than aioDepth. The last one tells when it is done;
// the others mostly are by then, for all wait for the same. What the kernel does
// not take is flushed here.
func (a *aio) turn(all []*flush) {
	for i := range all {
		a.calls[i] = iocb{data: uint64(i), opcode: iocbFdatasync, fd: uint32(all[i].fd)}
		if all[i].dir != "" {
			a.calls[i].opcode = iocbFsync
		}
	}
	last := &a.calls[len(all)-1]
	last.flags, last.eventFD = iocbTellEvent, a.eventFD
	taken := a.submit(a.list[:len(all)])
	for i := taken; i < len(all); i++ {
		all[i].err = all[i].now()
	}
	if taken == len(all) {
		var count [8]byte
		_, _ = a.event.Read(count[:]) // if it fails, the thread waits instead
	}
	a.collect(all[:taken])
}

// collect waits for the results. A flush whose result does not come has failed.
func (a *aio) collect(all []*flush) {
	for i := range all {
		all[i].err = unix.EIO
	}
	for left := len(all); left > 0; {
		events, err := a.wait(left)
		if err != nil {
			a.broken = true
			return
		}
		left -= len(events)
		for _, e := range events {
			if all[e.data].err = nil; e.res < 0 {
				all[e.data].err = unix.Errno(-e.res)
			}
		}
	}
}

// submit returns how many of the calls the kernel has taken, the first ones.
func (a *aio) submit(list []*iocb) (taken int) {
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
	runtime.KeepAlive(a)
	return taken
}

// wait returns up to n results, and waits for one at least.
func (a *aio) wait(n int) ([]ioEvent, error) {
	for {
		got, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, a.ctx, uintptr(n), uintptr(n), uintptr(unsafe.Pointer(&a.events[0])), 0, 0)
		if errno == 0 {
			return a.events[:got], nil
		}
		if errno != unix.EINTR {
			return nil, errno
		}
	}
}
