package notify

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// record is an event in a queue. It is small without its body: a hundred thousand may
// wait.
type record struct {
	seq    uint64   // grows along the queue
	at     int64    // in nanoseconds since 1970
	length int32    // on the disk
	offset int32    // in the segment
	seg    *segment // nil = not written
	body   []byte   // the envelope, compact; nil = on the disk
}

func newRecord(seq uint64, at time.Time, body []byte) record {
	return record{seq: seq, at: at.UnixNano(), length: int32(recordHead + len(body)), body: body}
}

func (r *record) time() time.Time { return time.Unix(0, r.at).UTC() }

// before says which of two rows' events is the older.
func (r *record) before(other *record) bool {
	return r.at < other.at || r.at == other.at && r.seq < other.seq
}

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
	b = binary.BigEndian.AppendUint64(b, uint64(r.at))
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
	at := int64(binary.BigEndian.Uint64(b[16:]))
	return newRecord(binary.BigEndian.Uint64(b[8:]), time.Unix(0, at), b[recordHead:]), true
}
