package notify

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// record is an event in a log.
type record struct {
	seq  uint64 // grows along the log
	time time.Time
	body []byte // the envelope, compact
	file *file  // nil = not written
	end  int64  // in the file, behind the record
}

// size is that of the record on the disk.
func (r *record) size() int64 { return recordHead + int64(len(r.body)) }

// On the disk a record is its length, a checksum of all that follows, the number,
// the time in nanoseconds since 1970, and the body; integers are big-endian.
const (
	recordHead = 4 + 4 + 8 + 8
	maxBody    = 4 << 20
)

var errNotRecord = errors.New("not a whole event")

// checksum is a CRC-32C. Its table is made when it is first needed, not at each start of
// the program.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// appendTo appends the record as it is on the disk.
func (r *record) appendTo(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.body)))
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, r.seq)
	b = binary.BigEndian.AppendUint64(b, uint64(r.time.UnixNano()))
	b = append(b, r.body...)
	binary.BigEndian.PutUint32(b[start+4:], checksum(b[start+8:]))
	return b
}

// parseRecord reads the record that b begins with. Its body shares b's memory.
func parseRecord(b []byte) (r record, ok bool) {
	if len(b) < recordHead {
		return record{}, false
	}
	n := int(binary.BigEndian.Uint32(b))
	if n == 0 || n > maxBody || len(b) < recordHead+n {
		return record{}, false
	}
	b = b[:recordHead+n]
	if binary.BigEndian.Uint32(b[4:]) != checksum(b[8:]) {
		return record{}, false
	}
	at := time.Unix(0, int64(binary.BigEndian.Uint64(b[16:]))).UTC()
	return record{seq: binary.BigEndian.Uint64(b[8:]), time: at, body: b[recordHead:]}, true
}
