package logging

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logged returns what the calls write under the configuration, without times.
func logged(t *testing.T, c Config, calls func(*zap.Logger)) string {
	t.Helper()
	var out bytes.Buffer
	log, err := New(&out, c)
	if err != nil {
		t.Fatal(err)
	}
	calls(log)
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT[^" ]*`).ReplaceAllString(out.String(), "TIME")
}

func TestFormats(t *testing.T) {
	calls := func(log *zap.Logger) {
		log.With(zap.String("with", "x y")).Warn("disk is full", zap.Int("n", 3), zap.Duration("took", 1500*time.Millisecond))
	}
	for _, c := range []struct {
		format Format
		want   string
	}{
		{"", `time="TIME" level=warning msg="disk is full" service=registry with="x y" n=3 took=1.5s` + "\n"},
		{JSON, `{"level":"warning","time":"TIME","msg":"disk is full","service":"registry","with":"x y","n":3,"took":"1.5s"}` + "\n"},
		{Logstash, `{"level":"warning","@timestamp":"TIME","message":"disk is full","@version":"1","service":"registry","with":"x y","n":3,"took":"1.5s"}` + "\n"},
	} {
		t.Run(string(c.format), func(t *testing.T) {
			if got := logged(t, Config{Format: c.format, Fields: map[string]any{"service": "registry"}}, calls); got != c.want {
				t.Errorf("got  %swant %s", got, c.want)
			}
		})
	}
	if got := logged(t, Config{Format: Console}, calls); !strings.Contains(got, "WARN\tdisk is full\t") {
		t.Errorf("console: %s", got)
	}
}

func TestLevels(t *testing.T) {
	all := func(log *zap.Logger) { log.Debug("d"); log.Info("i"); log.Warn("w"); log.Error("e") }
	for level, want := range map[string]int{"error": 1, "Warn": 2, "INFO": 3, "": 3, "debug": 4} {
		if got := strings.Count(logged(t, Config{Level: level}, all), "\n"); got != want {
			t.Errorf("level %q: %d lines, want %d", level, got, want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{{Level: "loud"}, {Level: "warning"}, {Format: "xml"}} {
		if _, err := New(&bytes.Buffer{}, c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestReportCaller(t *testing.T) {
	call := func(log *zap.Logger) { log.Info("x") }
	for _, f := range []Format{Text, JSON, Logstash} {
		got := logged(t, Config{Format: f, ReportCaller: true}, call)
		if !strings.Contains(got, "config_test.go") || !strings.Contains(got, "TestReportCaller") {
			t.Errorf("%s: %s", f, got)
		}
	}
}

// TestTextValues puts every kind of field through the text form.
func TestTextValues(t *testing.T) {
	got := logged(t, Config{}, func(log *zap.Logger) {
		log.Info("a\nb",
			zap.Bool("bool", true), zap.Int8("int", -1), zap.Uint16("uint", 2), zap.Float64("float", 1.5),
			zap.Float64("nan", math.NaN()), zap.Time("time", time.Unix(0, 0).UTC()), zap.Binary("binary", []byte("hi")),
			zap.ByteString("bytes", []byte("x")), zap.Complex128("complex", 1+2i), zap.Strings("list", []string{"a", "b"}),
			zap.Any("map", map[string]int{"k": 1}), zap.Error(errors.New(`said "no"`)), zap.String("empty", ""),
			zap.String("odd key=", "v"), zap.Stringer("stringer", time.Second), zap.Dict("dict", zap.Int("in", 1)),
			zap.Namespace("ns"), zap.String("inside", "forged\nlevel=error"))
	})
	want := `time="TIME" level=info msg="a\nb" bool=true int=-1 uint=2 float=1.5 nan=NaN time="TIME" binary="aGk=" bytes=x ` +
		`complex="(1+2i)" list="[\"a\",\"b\"]" map="{\"k\":1}" error="said \"no\"" empty="" odd_key_=v stringer=1s ` +
		`dict="{\"in\":1}" ns.inside="forged\nlevel=error"` + "\n"
	if got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestClonesDoNotShare(t *testing.T) {
	got := logged(t, Config{}, func(log *zap.Logger) {
		a := log.With(zap.Int("a", 1))
		b, c := a.With(zap.Int("b", 2)), a.With(zap.Int("c", 3))
		b.Info("x")
		c.Info("y")
	})
	want := `time="TIME" level=info msg=x a=1 b=2` + "\n" + `time="TIME" level=info msg=y a=1 c=3` + "\n"
	if got != want {
		t.Errorf("got %s", got)
	}
}

func FuzzTextIsOneLine(f *testing.F) {
	f.Add("key", "value\n")
	f.Fuzz(func(t *testing.T, key, value string) {
		enc := newTextEncoder()
		line, err := enc.EncodeEntry(zapcore.Entry{Message: value}, []zapcore.Field{zap.String(key, value)})
		if err != nil {
			t.Fatal(err)
		}
		if s := line.String(); strings.Count(s, "\n") != 1 || strings.ContainsAny(s, "\r\x00\x1b") {
			t.Errorf("%q", s)
		}
	})
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
