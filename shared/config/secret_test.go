package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"go.yaml.in/yaml/v3"
)

// TestSecretIsNeverShown prints, encodes and logs a secret in all the ways a
// careless line could.
func TestSecretIsNeverShown(t *testing.T) {
	type hidden struct{ inner Secret }
	type shown struct{ Inner Secret }
	s := NewSecret("hunter2")
	var out []string
	for _, v := range []any{s, &s, hidden{s}, &hidden{s}, shown{s}, []Secret{s}, map[string]Secret{"k": s}, map[Secret]int{s: 1}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			out = append(out, fmt.Sprintf(verb, v))
		}
	}
	j, _ := json.Marshal(shown{s})
	y, _ := yaml.Marshal(shown{s})
	out = append(out, string(j), string(y), fmt.Sprint(s), fmt.Errorf("%w: %v", fmt.Errorf("x"), s).Error())

	core, logs := observer.New(zapcore.DebugLevel)
	zap.New(core).Info("m", zap.Any("a", s), zap.Reflect("b", shown{s}), zap.Stringer("c", s), zap.Any("d", shown{s}))
	for _, e := range logs.All() {
		line, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{}).EncodeEntry(e.Entry, e.Context)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line.String())
	}
	for _, text := range out {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e746572") {
			t.Errorf("shown in %s", text)
		}
	}
	if string(j) != `{"Inner":"***"}` || fmt.Sprint(Secret{}) != "" || s.Reveal() != "hunter2" || (Secret{}).Reveal() != "" {
		t.Errorf("got %s, %q", j, fmt.Sprint(Secret{}))
	}
}
