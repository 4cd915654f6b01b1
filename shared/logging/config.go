package logging

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Format names the form of the log's lines.
type Format string

// The formats. Text is the logfmt form (`time="…" level=info msg="…" key=value`)
// that users of CNCF distribution parse; Logstash is JSON with Logstash's names
// for time and message; Console is for people.
const (
	Text     Format = "text"
	JSON     Format = "json"
	Logstash Format = "logstash"
	Console  Format = "console"
)

// Config describes what New makes. The zero value logs text at level info.
type Config struct {
	Level string // error, warn, info or debug, in any case; "" is info

	// Dynamic, if not nil, is set to Level and can be changed later.
	Dynamic *zap.AtomicLevel

	Format       Format // "" is Text
	Fields       map[string]any
	ReportCaller bool // adds func and file to each line
}

// ParseLevel reads a value of Config.Level.
func ParseLevel(s string) (zapcore.Level, error) {
	switch strings.ToLower(s) {
	case "error":
		return zapcore.ErrorLevel, nil
	case "warn":
		return zapcore.WarnLevel, nil
	case "", "info":
		return zapcore.InfoLevel, nil
	case "debug":
		return zapcore.DebugLevel, nil
	}
	return 0, fmt.Errorf("log level %q is not one of error, warn, info and debug", s)
}

// New returns a logger that writes to w. If w is a *Buffer, a line at level
// warn or above is flushed immediately, together with all before it.
func New(w io.Writer, c Config) (*zap.Logger, error) {
	level, err := ParseLevel(c.Level)
	if err != nil {
		return nil, err
	}
	enc, err := newEncoder(c.Format)
	if err != nil {
		return nil, err
	}
	var enabler zapcore.LevelEnabler = level
	if c.Dynamic != nil {
		c.Dynamic.SetLevel(level)
		enabler = c.Dynamic
	}
	log := zap.New(newCore(enc, w, enabler), zap.WithCaller(c.ReportCaller))
	return log.With(fixedFields(c.Fields)...), nil
}

// fixedFields turns the map into fields in the order of their names, so that
// lines of different starts look alike.
func fixedFields(m map[string]any) []zap.Field {
	fields := make([]zap.Field, 0, len(m))
	for k, v := range m {
		fields = append(fields, zap.Any(k, v))
	}
	slices.SortFunc(fields, func(a, b zap.Field) int { return strings.Compare(a.Key, b.Key) })
	return fields
}
