package logging

import (
	"fmt"
	"io"

	"go.uber.org/zap/zapcore"
)

// newCore returns zap's own core, which also flushes a buffered writer after a warning or an error. zap flushes
// from DPanic on only, and an error that waits in a buffer while the process is killed is lost.
func newCore(enc zapcore.Encoder, w io.Writer, level zapcore.LevelEnabler) zapcore.Core {
	out, ok := w.(zapcore.WriteSyncer)
	if !ok {
		out = zapcore.AddSync(w)
	}
	if _, buffered := w.(*Buffer); !buffered {
		out = zapcore.Lock(out)
	}
	return zapcore.RegisterHooks(zapcore.NewCore(enc, out, level), func(e zapcore.Entry) error {
		if e.Level >= zapcore.WarnLevel {
			_ = out.Sync() // a terminal or a pipe cannot be synced and says so
		}
		return nil
	})
}

func newEncoder(f Format) (zapcore.Encoder, error) {
	switch f {
	case "", Text:
		return newTextEncoder(), nil
	case JSON:
		return zapcore.NewJSONEncoder(jsonNames("time", "msg")), nil
	case Logstash:
		enc := zapcore.NewJSONEncoder(jsonNames("@timestamp", "message"))
		enc.AddString("@version", "1")
		return enc, nil
	case Console:
		c := jsonNames("time", "msg")
		c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		c.EncodeLevel = zapcore.CapitalLevelEncoder
		return zapcore.NewConsoleEncoder(c), nil
	}
	return nil, fmt.Errorf("log format %q is not one of text, json, logstash and console", f)
}

func jsonNames(time, message string) zapcore.EncoderConfig {
	return zapcore.EncoderConfig{
		TimeKey:        time,
		MessageKey:     message,
		LevelKey:       "level",
		NameKey:        "logger",
		CallerKey:      "file",
		FunctionKey:    "func",
		StacktraceKey:  "stack",
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
		EncodeCaller:   zapcore.ShortCallerEncoder,
		EncodeLevel:    encodeLevel,
	}
}

// encodeLevel writes "warning" as logrus does, so that filters made for CNCF
// distribution's logs keep working.
func encodeLevel(l zapcore.Level, enc zapcore.PrimitiveArrayEncoder) { enc.AppendString(levelName(l)) }

func levelName(l zapcore.Level) string {
	if l == zapcore.WarnLevel {
		return "warning"
	}
	return l.String()
}
