package filesystem

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"golang.org/x/sys/unix"

	"slipway/registry/internal/storage"
)

// # The list of what is about to be deleted
//
// The file has two slots, of which the one that was written last counts: a head in
// the first page and the hashes of the keys, sorted, further on. The collector
// writes them in turn, the hashes first, so a reader finds the list of before or
// the new one; checksums tell what is half written. All of it is allocated
// before it is needed, because who frees a full volume needs it. None of it has to
// outlive a power loss: a list is void once its collector is dead.

const (
	pendingName = "pending"
	headSize    = 128
	slotStart   = 4096
	slotSize    = storage.MaxPending * 8
	pendingSize = slotStart + 2*slotSize
	maxRun      = 64 // bytes
)

// head describes a slot. It is laid out as magic, seq, count, sum, length of run,
// run, and a checksum at its end.
type head struct {
	seq   uint64
	count uint32
	sum   uint32 // of the hashes
	run   string
}

const headMagic = "slipway\x01"

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func (h *head) encode() []byte {
	b := make([]byte, headSize)
	copy(b, headMagic)
	binary.LittleEndian.PutUint64(b[8:], h.seq)
	binary.LittleEndian.PutUint32(b[16:], h.count)
	binary.LittleEndian.PutUint32(b[20:], h.sum)
	b[24] = byte(len(h.run))
	copy(b[25:], h.run)
	binary.LittleEndian.PutUint32(b[headSize-4:], checksum(b[:headSize-4]))
	return b
}

// decodeHead is false for what is no whole head.
func decodeHead(b []byte) (h head, ok bool) {
	sum := checksum(b[:headSize-4])
	if string(b[:8]) != headMagic || binary.LittleEndian.Uint32(b[headSize-4:]) != sum || b[24] > maxRun {
		return head{}, false
	}
	return head{
		seq:   binary.LittleEndian.Uint64(b[8:]),
		count: min(binary.LittleEndian.Uint32(b[16:]), storage.MaxPending),
		sum:   binary.LittleEndian.Uint32(b[20:]),
		run:   string(b[25 : 25+b[24]]),
	}, true
}

// newest returns the head that counts, the zero one if there is none.
func newest(heads []byte) (newest head) {
	for i := range 2 {
		if h, ok := decodeHead(heads[i*headSize:][:headSize]); ok && h.seq > newest.seq {
			newest = h
		}
	}
	return newest
}

func slotOffset(seq uint64) int64 { return slotStart + int64(seq&1)*slotSize }

// pending is a list as it was read. It does not change.
type pending struct {
	heads  [2 * headSize]byte // of which it was made
	run    string
	hashes []uint64
}

var none = &pending{}

func (p *pending) lists(keys []string) bool {
	if len(p.hashes) == 0 {
		return false
	}
	for _, key := range keys {
		if _, found := slices.BinarySearch(p.hashes, hashKey(key)); found {
			return true
		}
	}
	return false
}

// read returns the list that counts now. It needs c.mu.
func (c *Coordinator) read() (*pending, error) {
	fd, err := c.list.open(c.s, unix.O_RDONLY)
	if err != nil {
		return none, without(err)
	}
	if !c.s.local() {
		defer c.list.close() // what is remembered of a file of another machine is asked for again when it is opened
	}
	for range attempts {
		var heads [2 * headSize]byte
		if _, err := pread(fd, heads[:], 0); err != nil {
			return nil, err
		}
		p := c.latest
		if p == nil || p.heads != heads {
			if p, err = load(fd, heads); err != nil {
				return nil, err
			}
			if p == nil {
				continue // the slot was written again meanwhile
			}
			c.latest = p
		}
		if p.run == "" && len(p.hashes) == 0 || !c.collectorLives() {
			return none, nil
		}
		return p, nil
	}
	return nil, unix.EBUSY
}

// load is nil if the hashes are not those of the head.
func load(fd int, heads [2 * headSize]byte) (*pending, error) {
	h := newest(heads[:])
	b := make([]byte, h.count*8)
	if n, err := pread(fd, b, slotOffset(h.seq)); err != nil {
		return nil, err
	} else if n < len(b) || checksum(b) != h.sum {
		return nil, nil
	}
	p := &pending{heads: heads, run: h.run, hashes: make([]uint64, h.count)}
	for i := range p.hashes {
		p.hashes[i] = binary.LittleEndian.Uint64(b[i*8:])
	}
	return p, nil
}

// collectorLives says whether somebody holds the collector's lock.
func (c *Coordinator) collectorLives() bool {
	fd, err := c.s.lock(collectionName, unix.LOCK_SH)
	if err == nil {
		closeFD(fd)
	}
	return err != nil
}

// Publish implements storage.Coordinator.
func (c *Coordinator) Publish(_ context.Context, p storage.Pending) error {
	if len(p.Keys) > storage.MaxPending || len(p.Run) > maxRun {
		return fmt.Errorf("publish %d keys of the run %.80q: %w", len(p.Keys), p.Run, storage.ErrTooLarge)
	}
	if err := c.publish(p); err != nil {
		return c.s.writeFault("write", "/.locks/"+pendingName, err)
	}
	return nil
}

func (c *Coordinator) publish(p storage.Pending) error {
	fd, err := c.s.openLock(pendingName, unix.O_RDWR)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if err := allocate(fd); err != nil {
		return err
	}
	heads := make([]byte, 2*headSize)
	if _, err := pread(fd, heads, 0); err != nil {
		return err
	}
	hashes := encodeKeys(p.Keys)
	h := head{newest(heads).seq + 1, uint32(len(p.Keys)), checksum(hashes), p.Run}
	if err := pwrite(fd, hashes, slotOffset(h.seq)); err != nil {
		return err
	}
	if err := pwrite(fd, h.encode(), int64(h.seq&1)*headSize); err != nil {
		return err
	}
	c.forget()
	if c.s.local() {
		return nil
	}
	return syncFile(fd) // so that other machines see it
}

// forget has the next section read the list.
func (c *Coordinator) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = nil
}

func encodeKeys(keys []string) []byte {
	hashes := make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i] = hashKey(key)
	}
	slices.Sort(hashes)
	b := make([]byte, 0, len(hashes)*8)
	for _, h := range hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return b
}

// allocate makes the file as long as it will ever be. The heads come last.
func allocate(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size >= pendingSize {
		return err
	}
	zeros := make([]byte, 64<<10)
	for at := st.Size; at < pendingSize; at += int64(len(zeros)) {
		if err := pwrite(fd, zeros[:min(int64(len(zeros)), pendingSize-at)], at); err != nil {
			_ = unix.Ftruncate(fd, st.Size) // it takes no room that somebody else needs
			return err
		}
	}
	return nil
}
