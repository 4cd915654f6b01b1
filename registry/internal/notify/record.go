package notify

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// record is an event in a queue.
type record struct {
	seq  uint64 // grows along the queue
	at   time.Time
	body []byte // the envelope, compact
	pull bool   // else a change; what is on the disk lies apart
}

// On the disk a record is its length, a checksum of all that follows, the number,
// the time in nanoseconds since 1970, and the body; integers are big-endian.
const (
	recordHead = 4 + 4 + 8 + 8
	maxBody    = 4 << 20
)

var (
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
	errNotRecord = errors.New("not a whole event")
)

func (r *record) size() int64 { return recordHead + int64(len(r.body)) }

func sizeOf(records []record) (size int64) {
	for i := range records {
		size += records[i].size()
	}
	return size
}

// appendTo appends the record as it is on the disk.
func (r *record) appendTo(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.body)))
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, r.seq)
	b = binary.BigEndian.AppendUint64(b, uint64(r.at.UnixNano()))
	b = append(b, r.body...)
	binary.BigEndian.PutUint32(b[start+4:], crc32.Checksum(b[start+8:], castagnoli))
	return b
}

// bodyLength reads the head of a record; ok is false if it cannot be one.
func bodyLength(head []byte) (n int, ok bool) {
	if len(head) < recordHead {
		return 0, false
	}
	n = int(binary.BigEndian.Uint32(head))
	return n, n > 0 && n <= maxBody
}

// parseRecord reads the record that b begins with. Its body shares b's memory.
func parseRecord(b []byte) (r record, ok bool) {
	n, ok := bodyLength(b)
	if !ok || len(b) < recordHead+n {
		return record{}, false
	}
	b = b[:recordHead+n]
	if binary.BigEndian.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli) {
		return record{}, false
	}
	return record{
		seq:  binary.BigEndian.Uint64(b[8:]),
		at:   time.Unix(0, int64(binary.BigEndian.Uint64(b[16:]))).UTC(),
		body: b[recordHead:],
	}, true
}
