package logging

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

var textPool = buffer.NewPool()

// textEncoder writes logfmt. Fields keep the order in which they were added.
type textEncoder struct {
	buf       *buffer.Buffer
	namespace string
}

func newTextEncoder() *textEncoder { return &textEncoder{buf: textPool.Get()} }

// Clone implements zapcore.Encoder.
func (t *textEncoder) Clone() zapcore.Encoder { return t.clone() }

func (t *textEncoder) clone() *textEncoder {
	c := &textEncoder{buf: textPool.Get(), namespace: t.namespace}
	c.buf.AppendBytes(t.buf.Bytes())
	return c
}

// EncodeEntry implements zapcore.Encoder.
func (t *textEncoder) EncodeEntry(e zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	line := textEncoder{buf: textPool.Get()}
	line.buf.AppendString(`time="`)
	line.buf.AppendTime(e.Time, time.RFC3339Nano)
	line.buf.AppendString(`" level=`)
	line.buf.AppendString(levelName(e.Level))
	line.AddString("msg", e.Message)
	if e.LoggerName != "" {
		line.AddString("logger", e.LoggerName)
	}
	if e.Caller.Defined {
		line.AddString("func", e.Caller.Function)
		line.AddString("file", e.Caller.TrimmedPath())
	}
	if t.buf.Len() > 0 {
		line.buf.AppendByte(' ')
		line.buf.AppendBytes(t.buf.Bytes())
	}
	line.namespace = t.namespace
	for i := range fields {
		fields[i].AddTo(&line)
	}
	if e.Stack != "" {
		line.AddString("stack", e.Stack)
	}
	line.buf.AppendByte('\n')
	return line.buf, nil
}

func (t *textEncoder) key(k string) {
	if t.buf.Len() > 0 {
		t.buf.AppendByte(' ')
	}
	t.buf.AppendString(t.namespace)
	for i := range len(k) {
		if c := k[i]; c <= ' ' || c == '=' || c == '"' || c >= utf8.RuneSelf {
			t.buf.AppendByte('_')
			continue
		}
		t.buf.AppendByte(k[i])
	}
	t.buf.AppendByte('=')
}

// AddString implements zapcore.ObjectEncoder.
func (t *textEncoder) AddString(k, v string) {
	t.key(k)
	switch quotesFor(v) {
	case noQuotes:
		t.buf.AppendString(v)
	case bareQuotes:
		t.buf.AppendByte('"')
		t.buf.AppendString(v)
		t.buf.AppendByte('"')
	case escapes:
		var room [128]byte
		t.buf.AppendBytes(strconv.AppendQuote(room[:0], v))
	}
}

// quotes returns the quotes that a value needs.
type quotes int

const (
	noQuotes quotes = iota
	bareQuotes
	escapes
)

// quotesFor judges a value by the rule of logrus. Most values need no escapes,
// and looking for them takes a fraction of the time of strconv.Quote.
func quotesFor(v string) quotes {
	q := noQuotes
	if v == "" {
		q = bareQuotes
	}
	for i := range len(v) {
		c := v[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '/', c == '.', c == '-', c == '_', c == '@', c == '^', c == '+':
		case c < ' ' || c > '~' || c == '"' || c == '\\':
			return escapes
		default:
			q = bareQuotes
		}
	}
	return q
}

// AddBool implements zapcore.ObjectEncoder.
func (t *textEncoder) AddBool(k string, v bool) { t.key(k); t.buf.AppendBool(v) }

// AddInt64 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddInt64(k string, v int64) { t.key(k); t.buf.AppendInt(v) }

// AddUint64 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddUint64(k string, v uint64) { t.key(k); t.buf.AppendUint(v) }

// AddFloat64 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddFloat64(k string, v float64) {
	t.key(k)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		t.buf.AppendString(strconv.FormatFloat(v, 'g', -1, 64))
		return
	}
	t.buf.AppendFloat(v, 64)
}

// AddTime implements zapcore.ObjectEncoder.
func (t *textEncoder) AddTime(k string, v time.Time) { t.AddString(k, v.Format(time.RFC3339Nano)) }

// AddDuration implements zapcore.ObjectEncoder.
func (t *textEncoder) AddDuration(k string, v time.Duration) { t.AddString(k, v.String()) }

// AddBinary implements zapcore.ObjectEncoder.
func (t *textEncoder) AddBinary(k string, v []byte) {
	t.AddString(k, base64.StdEncoding.EncodeToString(v))
}

// AddByteString implements zapcore.ObjectEncoder.
func (t *textEncoder) AddByteString(k string, v []byte) { t.AddString(k, string(v)) }

// AddComplex128 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddComplex128(k string, v complex128) {
	t.AddString(k, strconv.FormatComplex(v, 'g', -1, 128))
}

// AddReflected implements zapcore.ObjectEncoder: values without a field type of
// their own are written as JSON.
func (t *textEncoder) AddReflected(k string, v any) error {
	if s, ok := v.(fmt.Stringer); ok {
		t.AddString(k, s.String())
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	t.AddString(k, string(b))
	return nil
}

// AddArray implements zapcore.ObjectEncoder.
func (t *textEncoder) AddArray(k string, v zapcore.ArrayMarshaler) error {
	m := zapcore.NewMapObjectEncoder()
	if err := m.AddArray(k, v); err != nil {
		return err
	}
	return t.AddReflected(k, m.Fields[k])
}

// AddObject implements zapcore.ObjectEncoder.
func (t *textEncoder) AddObject(k string, v zapcore.ObjectMarshaler) error {
	m := zapcore.NewMapObjectEncoder()
	if err := m.AddObject(k, v); err != nil {
		return err
	}
	return t.AddReflected(k, m.Fields[k])
}

// OpenNamespace implements zapcore.ObjectEncoder.
func (t *textEncoder) OpenNamespace(k string) { t.namespace += k + "." }

// AddComplex64 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddComplex64(k string, v complex64) { t.AddComplex128(k, complex128(v)) }

// AddFloat32 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddFloat32(k string, v float32) { t.AddFloat64(k, float64(v)) }

// AddInt implements zapcore.ObjectEncoder.
func (t *textEncoder) AddInt(k string, v int) { t.AddInt64(k, int64(v)) }

// AddInt32 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddInt32(k string, v int32) { t.AddInt64(k, int64(v)) }

// AddInt16 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddInt16(k string, v int16) { t.AddInt64(k, int64(v)) }

// AddInt8 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddInt8(k string, v int8) { t.AddInt64(k, int64(v)) }

// AddUint implements zapcore.ObjectEncoder.
func (t *textEncoder) AddUint(k string, v uint) { t.AddUint64(k, uint64(v)) }

// AddUint32 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddUint32(k string, v uint32) { t.AddUint64(k, uint64(v)) }

// AddUint16 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddUint16(k string, v uint16) { t.AddUint64(k, uint64(v)) }

// AddUint8 implements zapcore.ObjectEncoder.
func (t *textEncoder) AddUint8(k string, v uint8) { t.AddUint64(k, uint64(v)) }

// AddUintptr implements zapcore.ObjectEncoder.
func (t *textEncoder) AddUintptr(k string, v uintptr) { t.AddUint64(k, uint64(v)) }
